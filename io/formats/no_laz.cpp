#include "io/formats/laz.hpp"

namespace io {

const bool kReadsLaz = false;

Cloud read_laz(const Source&, const LasHeader& header) {
  base::fail("LAZ: sparseconv was built without LAZ support (LASzip); the header claims ",
             header.points, " compressed points");
}

}  // namespace io
