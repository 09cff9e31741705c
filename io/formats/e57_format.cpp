#include "io/format.hpp"
#include "io/formats/e57.hpp"

namespace io {
namespace {

bool recognise_e57(std::string_view head) { return head.starts_with("ASTM-E57"); }

}  // namespace

const Format kE57Format{
    .name = "e57",
    .extensions = {".e57"},
    .recognises = recognise_e57,
    .read = read_e57,
    .reading = "4 MiB and one column",
    .is_built_in = kReadsE57,
    .library = "libE57Format",
    .notes =
        "all scans with their poses applied, cartesian or spherical; `scan` says which of several"};

}  // namespace io
