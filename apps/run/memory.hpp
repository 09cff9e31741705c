// Memory of this process, in bytes, as the kernel counts it.
#pragma once
#include <cstdint>

namespace apps {

std::int64_t resident_bytes();
std::int64_t peak_resident_bytes();

}  // namespace apps
