#include "apps/bench/gemm_device.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "benchmarks/peers/cublas.hpp"
#include "gemm_core/base/cuda/resources.hpp"
#include "gemm_core/device/cuda/gemm/gemm_tuning.hpp"

namespace apps {
namespace {

using base::DType;
using gemm_core::GemmArguments;
using gemm_core::GemmStatus;
using Bytes = base::cuda::Buffer<std::uint8_t>;

void check(const GemmStatus& status) { ENSURE(status.ok(), status.message); }

// The driver's management library, as far as a clock is asked for.
class Clock {
 public:
  explicit Clock(int device) {
    library_ = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (library_ == nullptr) return;
    const auto start = function<int()>("nvmlInit_v2");
    const auto find = function<int(const char*, void**)>("nvmlDeviceGetHandleByPciBusId_v2");
    read_ = function<int(void*, int, unsigned*)>("nvmlDeviceGetClockInfo");
    std::array<char, 64> bus{};
    if (!start || !find || start() != 0 ||
        cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), device) != cudaSuccess ||
        find(bus.data(), &handle_) != 0) {
      read_ = nullptr;
    }
  }
  int mhz() const {
    constexpr int kSm = 1;
    unsigned mhz = 0;
    return read_ != nullptr && read_(handle_, kSm, &mhz) == 0 ? static_cast<int>(mhz) : 0;
  }

 private:
  template <class F>
  F* function(const char* name) const {
    return reinterpret_cast<F*>(dlsym(library_, name));
  }
  void* library_ = nullptr;
  void* handle_ = nullptr;
  int (*read_)(void*, int, unsigned*) = nullptr;
};

// One configuration, initialised for every set of operands.
struct Prepared {
  std::vector<std::vector<GemmArguments>> sets;
  Bytes workspace;
  std::vector<gemm_core::cuda::Gemm> single;
  std::vector<gemm_core::cuda::GroupedGemm> grouped;

  void run(std::size_t set, cudaStream_t stream) const {
    check(single.empty() ? grouped[set].run(stream) : single[set].run(stream));
  }
};

// Roundings of a sum as a share of the sum of magnitudes: tensor cores cut off the last bit of
// what an instruction adds; those of 8-bit floats keep about 13 bits, of a chain of four
// instructions or of the whole sum.
double share_of(const std::string& kernel, const GemmArguments& g) {
  const auto k = static_cast<double>(g.k);
  if (g.compute == DType::i8) return 0;
  if (g.compute == DType::f64) return 2 * (k + 4) * 0x1p-53;
  const double sums = (2 * (k / 8 + 4) + 140) * 0x1p-24;
  if (!kernel.starts_with("e4m3") && !kernel.starts_with("e5m2"))
    return kernel.starts_with("simt") ? (k + 8) * 0x1p-24 : sums;
  const bool is_promoted = kernel.find("promoted") != std::string::npos;
  return (is_promoted ? 4 : k / 32 + 1) * 0x1p-13 + sums;
}

}  // namespace

struct DeviceGemm::Impl {
  GemmInputs& inputs;
  int device;
  bool cold;
  Clock clock;
  base::cuda::Stream stream = base::cuda::Stream::create();
  base::cuda::Event begin = base::cuda::Event::create(), end = base::cuda::Event::create();
  struct Set {
    Bytes a, b, d;
  };
  std::vector<Set> sets;
  Bytes flush;
  benchmarks::Cublas cublas;
  std::vector<std::shared_ptr<Prepared>> prepared;

  Impl(int index, GemmInputs& host, bool is_cold)
      : inputs(host), device(index), cold(is_cold), clock(index) {
    for (int i = 0; i < inputs.workspaces(); ++i) {
      const auto from = inputs.buffers(i);
      const auto moved = [&](std::span<const std::uint8_t> bytes) {
        Bytes to(bytes.size());
        CUDA_CHECK(cudaMemcpy(to.data(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice));
        return to;
      };
      sets.push_back({moved(from.a), moved(from.b), moved(from.d)});
    }
    constexpr std::size_t kMoreThanL2 = std::size_t{256} << 20;
    if (cold) flush = Bytes(kMoreThanL2);
  }

  // Of each group, on set `which`, with device pointers.
  std::vector<GemmArguments> arguments(int which) {
    const auto host = inputs.buffers(which);
    Set& set = sets[static_cast<std::size_t>(which)];
    std::vector<GemmArguments> groups = inputs.arguments(which);
    const auto move = [](auto& data, std::span<const std::uint8_t> from, Bytes& to) {
      data = to.data() + (static_cast<const std::uint8_t*>(data) - from.data());
    };
    for (GemmArguments& g : groups) {
      move(g.a.data, host.a, set.a);
      move(g.b.data, host.b, set.b);
      move(g.d.data, host.d, set.d);
    }
    return groups;
  }

  std::shared_ptr<Prepared> prepare(const std::string& config) {
    auto p = std::make_shared<Prepared>();
    gemm_core::cuda::GemmPlan plan;
    std::size_t bytes = 0;
    for (int i = 0; i < inputs.workspaces(); ++i) {
      p->sets.push_back(arguments(i));
      auto& groups = p->sets.back();
      if (groups.size() == 1) plan = gemm_core::cuda::apply_config(config, groups[0]);
      bytes = std::max(bytes, groups.size() == 1
                                  ? gemm_core::cuda::Gemm::workspace_size(groups[0], plan)
                                  : gemm_core::cuda::GroupedGemm::workspace_size(groups));
    }
    // Sets of groups keep their own lists in the workspace.
    const std::size_t pitch = (bytes + 255) / 256 * 256;
    p->workspace = Bytes(pitch * p->sets.size());
    for (std::size_t i = 0; i < p->sets.size(); ++i) {
      auto& groups = p->sets[i];
      std::uint8_t* const at = p->workspace.data() + i * pitch;
      if (groups.size() == 1)
        check(p->single.emplace_back().initialize(groups[0], at, bytes, stream.get(), plan));
      else
        check(p->grouped.emplace_back().initialize(groups, at, bytes, stream.get()));
    }
    stream.synchronize();
    prepared.push_back(p);
    return p;
  }

  double burst_seconds(int count, const std::function<void(int)>& launch) {
    double milliseconds = 0;
    if (!cold) {
      begin.record(stream.get());
      for (int i = 0; i < count; ++i) launch(i);
      end.record(stream.get());
      end.synchronize();
      milliseconds = base::cuda::elapsed_ms(begin, end);
    } else {
      for (int i = 0; i < count; ++i) {
        CUDA_CHECK(cudaMemsetAsync(flush.data(), i, flush.nbytes(), stream.get()));
        begin.record(stream.get());
        launch(i);
        end.record(stream.get());
        end.synchronize();
        milliseconds += base::cuda::elapsed_ms(begin, end);
      }
    }
    return 1e-3 * milliseconds / count;
  }

  // Bursts of about 3 ms.
  std::function<double()> timed(std::function<void(int)> launch) {
    launch(0);
    const double once = burst_seconds(1, launch);
    const int count = static_cast<int>(std::clamp(3e-3 / std::max(once, 1e-7), 1.0, 100.0));
    return [this, launch = std::move(launch), count, next = 0]() mutable {
      CUDA_CHECK(cudaSetDevice(device));
      const int first = std::exchange(next, next + count);
      return burst_seconds(count, [&](int i) { launch(first + i); });
    };
  }
};

DeviceGemm::DeviceGemm(base::Device device, GemmInputs& inputs, bool cold) {
  CUDA_CHECK(cudaSetDevice(device.index));
  impl_ = std::make_unique<Impl>(device.index, inputs, cold);
}
DeviceGemm::~DeviceGemm() = default;

std::vector<DeviceGemmConfig> DeviceGemm::configs() const {
  const std::vector<GemmArguments> groups = impl_->arguments(0);
  if (groups.size() > 1) return {{"grouped", 0}};
  std::vector<DeviceGemmConfig> list;
  GemmArguments cut = groups[0];
  cut.schedule.decomposition = kernel::Decomposition::stream_k;
  for (const std::string& kernel : gemm_core::cuda::dense_kernel_names(groups[0])) {
    list.push_back({kernel, gemm_core::cuda::estimate_ms(groups[0], kernel)});
    if (gemm_core::cuda::Gemm::workspace_size(cut, {kernel, 8}) == 0) continue;
    list.push_back(
        {gemm_core::cuda::config_name(kernel, cut), gemm_core::cuda::estimate_ms(cut, kernel)});
  }
  return list;
}

std::string DeviceGemm::selected(const gemm_core::TuningTable& tuning) const {
  const std::vector<DeviceGemmConfig> all = configs();
  const std::string key = tuning_key();
  for (const std::string& wanted : {tuning.find(key), gemm_core::cuda::default_kernel(key)}) {
    const auto is_it = [&](const DeviceGemmConfig& c) { return c.name == wanted; };
    if (std::any_of(all.begin(), all.end(), is_it)) return wanted;
  }
  return all.front().name;
}

std::string DeviceGemm::tuning_key() const {
  return gemm_core::cuda::tuning_key(impl_->arguments(0)[0]);
}

std::size_t DeviceGemm::prepare(const std::string& config) {
  return impl_->prepare(config)->workspace.nbytes();
}

double DeviceGemm::compute(const std::string& config) {
  const auto prepared = impl_->prepare(config);
  prepared->run(0, impl_->stream.get());
  impl_->stream.synchronize();
  const auto to = impl_->inputs.buffers(0).d;
  const Bytes& from = impl_->sets[0].d;
  CUDA_CHECK(cudaMemcpy(to.data(), from.data(), from.nbytes(), cudaMemcpyDeviceToHost));
  const std::string kernel = prepared->single.empty() ? prepared->grouped[0].kernel_name()
                                                      : prepared->single[0].kernel_name();
  return share_of(kernel, prepared->sets[0][0]);
}

std::function<double()> DeviceGemm::contender(const std::string& config) {
  auto prepared = impl_->prepare(config);
  return impl_->timed([this, prepared](int i) {
    prepared->run(static_cast<std::size_t>(i) % prepared->sets.size(), impl_->stream.get());
  });
}

std::function<double()> DeviceGemm::peer() {
  std::vector<std::vector<GemmArguments>> sets;
  for (int i = 0; i < impl_->inputs.workspaces(); ++i) sets.push_back(impl_->arguments(i));
  const GemmArguments& g = sets[0][0];
  if (!impl_->cublas.found() || g.a.dtype != g.b.dtype ||
      !impl_->cublas.run(g, impl_->stream.get())) {
    return {};
  }
  return impl_->timed([this, sets](int i) {
    for (const GemmArguments& one : sets[static_cast<std::size_t>(i) % sets.size()])
      impl_->cublas.run(one, impl_->stream.get());
  });
}

std::vector<std::uint8_t> DeviceGemm::peer_result() {
  const std::vector<GemmArguments> groups = impl_->arguments(0);
  if (!impl_->cublas.found() || groups[0].a.dtype != groups[0].b.dtype) return {};
  for (const GemmArguments& g : groups) {
    if (!impl_->cublas.run(g, impl_->stream.get())) return {};
  }
  impl_->stream.synchronize();
  const Bytes& from = impl_->sets[0].d;
  std::vector<std::uint8_t> to(from.nbytes());
  CUDA_CHECK(cudaMemcpy(to.data(), from.data(), from.nbytes(), cudaMemcpyDeviceToHost));
  return to;
}

int DeviceGemm::clock_mhz() const { return impl_->clock.mhz(); }

}  // namespace apps
