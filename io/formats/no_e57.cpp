#include "io/formats/e57.hpp"

namespace io {

const bool kReadsE57 = false;

Cloud read_e57(const Source&, const ReadOptions&) {
  base::fail("E57: sparseconv was built without E57 support (libE57Format)");
}

}  // namespace io
