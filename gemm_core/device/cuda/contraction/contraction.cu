#include "gemm_core/device/cuda/contraction/contraction.hpp"

#include <deque>
#include <new>

#include "gemm_core/base/cuda/resources.hpp"
#include "gemm_core/device/contraction_checks.hpp"
#include "gemm_core/device/cuda/contraction/nested_contraction.hpp"
#include "gemm_core/device/cuda/gemm/dense_checks.hpp"
#include "gemm_core/device/cuda/gemm/gemm.hpp"
#include "gemm_core/device/cuda/tables/table_products.hpp"

namespace gemm_core::cuda {
namespace {

using Code = GemmStatus::Code;
using Member = std::int64_t ModeStrides::*;

template <class... Parts>
GemmStatus refuse(Code code, const Parts&... parts) {
  return {code, base::concat("contraction on CUDA: ", parts...)};
}

bool is_empty(const ContractionArguments& g) {
  for (const ContractionMode& mode : g.modes) {
    if (mode.kind != ModeKind::k && mode.extent == 0) return true;
  }
  return false;
}
bool sums_nothing(const ContractionArguments& g) {
  for (const ContractionMode& mode : g.modes) {
    if (mode.kind == ModeKind::k && mode.extent == 0) return true;
  }
  return false;
}

// Index buffers as host memory; entries beyond what the modes reach are not read.
class HostSlots {
 public:
  explicit HostSlots(const ContractionArguments& g) : arguments(g) {
    const bool has_terms = !sums_nothing(g);
    const struct {
      ContractionOperand& operand;
      Member member;
      bool is_read;
    } all[] = {{arguments.a, &ModeStrides::a, has_terms},
               {arguments.b, &ModeStrides::b, has_terms},
               {arguments.c, &ModeStrides::c, g.beta != 0},
               {arguments.d, &ModeStrides::d, true}};
    for (const auto& [operand, member, is_read] : all) {
      if (is_read && operand.slots) copy(operand, member);
    }
  }
  ContractionArguments arguments;

 private:
  void copy(ContractionOperand& operand, Member member) {
    std::int64_t last = 0;
    for (const ContractionMode& mode : arguments.modes) {
      const std::int64_t step = mode.slot.*member;
      if (step > 0 && mode.extent > 0) last += (mode.extent - 1) * step;
    }
    auto& bytes = bytes_.emplace_back(
        static_cast<std::size_t>((last + 1) * base::bytes(operand.slots.dtype)));
    CUDA_CHECK(cudaMemcpy(bytes.data(), operand.slots.data, bytes.size(), cudaMemcpyDeviceToHost));
    operand.slots.data = bytes.data();
  }
  std::deque<std::vector<std::uint8_t>> bytes_;
};

GemmStatus renamed(GemmStatus s, std::size_t prefix) {
  if (!s.ok()) s.message = "contraction on CUDA" + s.message.substr(prefix);
  return s;
}

GemmStatus check_memory(const ContractionArguments& g) {
  int device = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  const auto check = [&](const char* name, const void* data) {
    return renamed(check_pointer(name, data, device), std::string("gemm on CUDA").size());
  };
  const auto both = [&](const char* name, const char* buffer, const ContractionOperand& o) {
    if (auto s = check(name, o.data); !s.ok()) return s;
    return o.slots ? check(buffer, o.slots.data) : GemmStatus{};
  };
  if (!sums_nothing(g)) {
    if (auto s = both("operand A", "the index buffer of operand A", g.a); !s.ok()) return s;
    if (auto s = both("operand B", "the index buffer of operand B", g.b); !s.ok()) return s;
  }
  if (g.beta != 0) {
    if (auto s = both("operand C", "the index buffer of operand C", g.c); !s.ok()) return s;
  }
  return both("operand D", "the index buffer of operand D", g.d);
}

// How a contraction runs: one of these, or nothing for an empty result.
struct Lowered {
  std::optional<GemmArguments> product;
  std::optional<LoweredNested> nested;
  std::optional<TableProducts> table;
  std::size_t workspace_bytes() const {
    return product  ? Gemm::workspace_size(*product)
           : nested ? nested->workspace_bytes()
           : table  ? table->workspace_bytes()
                    : 0;
  }
};

// Empty where `path` cannot take it. Of a contraction that is not empty.
std::optional<Lowered> lower(const ContractionArguments& g, ContractionPath path) {
  const auto may_be = [&](ContractionPath x) {
    return path == ContractionPath::automatic || path == x;
  };
  Lowered lowered;
  if (may_be(ContractionPath::product)) {
    lowered.product = as_product(g);
    if (lowered.product && Gemm::can_implement(*lowered.product).ok()) return lowered;
    lowered.product.reset();
  }
  int device = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  const auto& info = base::cuda::device_info(device);
  if (may_be(ContractionPath::nested) && info.has_wgmma()) {
    // WGMMA multiplies more than ten times as fast as operands by tables arrive.
    constexpr double kMostWaste = 12;
    lowered.nested = lower_nested(g, info.multiprocessors);
    if (lowered.nested &&
        (path == ContractionPath::nested || lowered.nested->waste <= kMostWaste)) {
      return lowered;
    }
    lowered.nested.reset();
  }
  if (!may_be(ContractionPath::table)) return std::nullopt;
  lowered.table.emplace(lower_contraction(g));
  return lowered;
}

GemmStatus check(const ContractionArguments& g) {
  if (auto s = check_device(); !s.ok()) return renamed(s, std::string("gemm on CUDA").size());
  const auto on_host = [&](const ContractionArguments& host) {
    return renamed(check_contraction(host, g), std::string("contraction").size());
  };
  const auto has_slots = [](const ContractionOperand& o) { return static_cast<bool>(o.slots); };
  if (!has_slots(g.a) && !has_slots(g.b) && !has_slots(g.c) && !has_slots(g.d)) {
    if (auto s = on_host(g); !s.ok()) return s;
    return is_empty(g) ? GemmStatus{} : check_memory(g);
  }
  // Modes first, so that buffers are as long as they say.
  for (const ContractionMode& mode : g.modes) {
    if (mode.extent < 0 || mode.slot.a < 0 || mode.slot.b < 0 || mode.slot.c < 0 ||
        mode.slot.d < 0) {
      return refuse(Code::invalid_extent, "a mode has extent ", mode.extent,
                    " or goes backwards through an index buffer");
    }
  }
  if (auto s = renamed(check_contraction_buffers(g), std::string("contraction").size()); !s.ok())
    return s;
  if (is_empty(g)) return {};
  if (auto s = check_memory(g); !s.ok()) return s;
  try {
    return on_host(HostSlots(g).arguments);
  } catch (const std::bad_alloc&) {
    return refuse(Code::unsupported, "no host memory to check the index buffers in");
  }
}

}  // namespace

struct Contraction::Impl {
  Lowered lowered;
  Gemm gemm;  // of a product
  bool initialized = false;
};

Contraction::Contraction() : impl_(std::make_unique<Impl>()) {}
Contraction::~Contraction() = default;
Contraction::Contraction(Contraction&&) noexcept = default;
Contraction& Contraction::operator=(Contraction&&) noexcept = default;

GemmStatus Contraction::can_implement(const ContractionArguments& g, ContractionPath path) {
  if (auto s = check(g); !s.ok() || path == ContractionPath::automatic || is_empty(g)) return s;
  if (!lower(g, path)) return refuse(Code::unsupported, "the chosen path cannot take it");
  return {};
}

std::size_t Contraction::workspace_size(const ContractionArguments& g, ContractionPath path) {
  if (!can_implement(g, path).ok() || is_empty(g)) return 0;
  return lower(g, path)->workspace_bytes();
}

GemmStatus Contraction::initialize(const ContractionArguments& g, void* workspace,
                                   std::size_t bytes, cudaStream_t stream, ContractionPath path) {
  *impl_ = {};
  if (auto s = can_implement(g, path); !s.ok()) return s;
  if (!is_empty(g)) {
    impl_->lowered = *lower(g, path);
    const std::size_t needed = impl_->lowered.workspace_bytes();
    if (needed > 0 && (workspace == nullptr || bytes < needed)) {
      return refuse(Code::small_workspace, "workspace has ", workspace ? bytes : 0,
                    " bytes, needs ", needed);
    }
    Lowered& lowered = impl_->lowered;
    if (lowered.product) {
      if (auto s = impl_->gemm.initialize(*lowered.product, workspace, bytes, stream); !s.ok())
        return renamed(s, std::string("gemm on CUDA").size());
    }
    if (lowered.nested) lowered.nested->bind(workspace, stream);
    if (lowered.table) lowered.table->bind(workspace, stream);
  }
  impl_->initialized = true;
  return {};
}

GemmStatus Contraction::run(cudaStream_t stream) const {
  if (!impl_->initialized)
    return {Code::not_initialized, "contraction on CUDA: run before initialize"};
  const Lowered& lowered = impl_->lowered;
  if (lowered.product) return impl_->gemm.run(stream);
  if (lowered.nested)
    lowered.nested->instance->launch(lowered.nested->params, lowered.nested->blocks, stream);
  if (lowered.table) lowered.table->launch(stream);
  return {};
}

std::string Contraction::kernel_name() const {
  const Lowered& lowered = impl_->lowered;
  return lowered.product  ? impl_->gemm.kernel_name()
         : lowered.nested ? lowered.nested->instance->shape.name
         : lowered.table  ? lowered.table->name()
                          : "none";
}

}  // namespace gemm_core::cuda
