// DeviceRunner::sort on values of the host.
#pragma once
#include <cstdint>
#include <vector>

namespace cuda_tests {

struct KeysAndValues {
  std::vector<std::uint64_t> keys;
  std::vector<std::int32_t> values;
};

// Stably by bits [0, low) and [from, from + high) of the keys; the device is told of room for
// `capacity` items and reads how many there are.
KeysAndValues sort_on_device(const KeysAndValues& items, std::int64_t capacity, int low, int from,
                             int high);

}  // namespace cuda_tests
