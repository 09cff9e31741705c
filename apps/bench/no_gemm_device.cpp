// Stands in for gemm_device.cpp in a build without CUDA.
#include "apps/bench/gemm_device.hpp"

namespace apps {

struct DeviceGemm::Impl {};

DeviceGemm::DeviceGemm(base::Device device, GemmInputs&, bool) {
  base::fail("device ", base::to_string(device), ": sparseconv was built without CUDA");
}
DeviceGemm::~DeviceGemm() = default;
std::vector<DeviceGemmConfig> DeviceGemm::configs() const { return {}; }
std::string DeviceGemm::selected(const gemm_core::TuningTable&) const { return ""; }
std::string DeviceGemm::tuning_key() const { return ""; }
std::size_t DeviceGemm::prepare(const std::string&) { return 0; }
double DeviceGemm::compute(const std::string&) { return 0; }
std::function<double()> DeviceGemm::contender(const std::string&) { return {}; }
std::function<double()> DeviceGemm::peer() { return {}; }
std::vector<std::uint8_t> DeviceGemm::peer_result() { return {}; }
int DeviceGemm::clock_mhz() const { return 0; }

}  // namespace apps
