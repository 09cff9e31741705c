// The products of `bench gemm` on a GPU. A build without CUDA links no_gemm_device.cpp, which
// refuses.
#pragma once
#include <functional>
#include <memory>

#include "apps/bench/gemm_sweep.hpp"

namespace apps {

struct DeviceGemmConfig {
  std::string name;        // a kernel, "+stream_k" where it cuts sums
  double estimate_ms = 0;  // by the library's model; 0: it has none
};

// A task's operands in device memory, as many sets as `inputs` has. base::Error where the device is
// missing or runs out of memory.
class DeviceGemm {
 public:
  // `cold`: what L2 holds is replaced before every launch that is timed.
  DeviceGemm(base::Device device, GemmInputs& inputs, bool cold);
  ~DeviceGemm();
  DeviceGemm(const DeviceGemm&) = delete;
  DeviceGemm& operator=(const DeviceGemm&) = delete;

  // Every kernel that takes the task, the library's choice first; one for groups.
  std::vector<DeviceGemmConfig> configs() const;
  // What `tuning` names for the task, else what the library runs where nothing is asked for.
  std::string selected(const gemm_core::TuningTable& tuning) const;
  std::string tuning_key() const;
  // Runs on set 0 and copies D to the inputs. Returns how far sums may be from exact ones, as a
  // share of the sum of magnitudes.
  double compute(const std::string& config);
  // Makes everything that a run needs and launches nothing; the bytes of workspace that it takes.
  std::size_t prepare(const std::string& config);
  // Seconds of one run, measured by events around a burst of them that goes through the sets.
  std::function<double()> contender(const std::string& config);
  // The same of cuBLAS (cuBLASLt for 8-bit floats); empty where it is missing or refuses the task.
  std::function<double()> peer();
  // What it computes of set 0, as bytes of D; empty where it is missing or refuses the task.
  std::vector<std::uint8_t> peer_result();
  // SM clock in MHz at this moment; 0 where the driver's management library is not there.
  int clock_mhz() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace apps
