#include "sparseconv/devices.hpp"

#include <algorithm>

namespace sparseconv {

std::vector<base::Device> parse_devices(std::string_view text) {
  std::vector<base::Device> devices;
  std::string_view rest = text;
  for (;;) {
    const std::size_t comma = rest.find(',');
    std::string name(rest.substr(0, comma));
    if (!devices.empty()) name.insert(0, "cuda:");
    const base::Device device = base::parse_device(name);
    const bool is_known = std::any_of(devices.begin(), devices.end(), [&](const auto& known) {
      return known.index == device.index;
    });
    ENSURE(!is_known, "device '", text, "' names cuda:", device.index, " twice");
    ENSURE(!device.is_cpu() || comma == std::string_view::npos, "device '", text,
           "': several devices are CUDA devices");
    devices.push_back(device);
    if (comma == std::string_view::npos) return devices;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace sparseconv
