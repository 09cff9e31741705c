#include "io/format.hpp"
#include "io/formats/e57.hpp"

namespace io {
namespace {

bool recognise_e57(std::string_view head) { return head.starts_with("ASTM-E57"); }

}  // namespace

const Format kE57Format{.name = "e57",
                        .extensions = {".e57"},
                        .recognises = recognise_e57,
                        .read = read_e57,
                        .reading = "1 MiB",
                        .is_refused = true,
                        .notes = "recognised and refused by name: its reader is not built in"};

}  // namespace io
