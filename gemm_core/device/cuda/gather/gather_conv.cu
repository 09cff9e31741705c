#include "gemm_core/device/cuda/gather/gather_conv.hpp"

#include <algorithm>
#include <optional>

#include "gemm_core/base/cuda/launch.cuh"
#include "gemm_core/device/cuda/lower_epilogue.hpp"
#include "gemm_core/kernel/simt_gather_conv.cuh"
#include "gemm_core/kernel/sm90_gather_conv.cuh"

namespace gemm_core::cuda {
namespace {

using base::DType;

// tf32 is stored as float.
DType storage(DType compute) { return compute == DType::tf32 ? DType::f32 : compute; }
// Of results and of what is added to them, where they are not 8-bit.
DType wide(DType compute) { return is_eight_bit(compute) ? DType::f16 : storage(compute); }
Narrow narrow_of(DType type) {
  return type == DType::e4m3 ? Narrow::e4m3 : type == DType::i8 ? Narrow::i8 : Narrow::none;
}

std::int64_t row_pitch(const base::ConstTensorView& v) { return v.stride[0]; }
std::int64_t row_pitch(const base::TensorView& v) { return v.stride[0]; }

template <class View>
void check_matrix(const View& view, std::int64_t channels, DType type, const char* operand) {
  ENSURE(view.shape.rank() == 2 && view.shape[1] == channels, "gather_conv: ", operand,
         " has shape ", base::to_string(view.shape), ", expected ", channels, " channels");
  ENSURE(view.dtype == type, "gather_conv: ", operand, " holds ", base::name(view.dtype),
         ", expected ", base::name(type));
  ENSURE(view.device.is_cuda(), "gather_conv: ", operand, " is on ", base::to_string(view.device),
         ", expected a CUDA device");
  ENSURE(view.shape[1] <= 1 || view.stride[1] == 1, "gather_conv: ", operand,
         " has no unit stride along channels");
  ENSURE(view.stride[0] >= 0 && view.stride[0] < (std::int64_t{1} << 29), "gather_conv: ", operand,
         " has row stride ", view.stride[0]);
}

bool is_aligned(const void* pointer, std::int64_t pitch, int element_bytes) {
  return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0 && pitch * element_bytes % 16 == 0;
}

int element_bytes(DType type) { return static_cast<int>(base::bytes(type)); }

// What may stand where the wide type does.
template <class View>
DType wide_or_narrow(const View& view, DType type) {
  return type == DType::f16 && is_eight_bit(view.dtype) ? view.dtype : type;
}

bool is_epilogue_simple(const Epilogue& epilogue) {
  return std::all_of(epilogue.nodes.begin(), epilogue.nodes.end(), [&](const EpilogueNode& node) {
    return (node.kind != EpilogueNode::Kind::activate || is_piecewise_linear(node.activation)) &&
           (node.kind != EpilogueNode::Kind::add ||
            is_aligned(node.aux.data, row_pitch(node.aux), element_bytes(node.aux.dtype)));
  });
}

// f16 products with results or additions that only the kernel for 8 bits beside halves takes.
bool is_mixed(const GatherConvArguments& a) {
  if (a.weights->compute != DType::f16) return false;
  return a.output.dtype != DType::f16 ||
         std::any_of(a.aux_factors.begin(), a.aux_factors.end(), [](float f) { return f != 1; }) ||
         std::any_of(a.epilogue.nodes.begin(), a.epilogue.nodes.end(),
                     [](const EpilogueNode& node) {
                       return node.kind == EpilogueNode::Kind::add && node.aux.dtype != DType::f16;
                     });
}

// The 8-bit types of a call are one.
bool has_other_narrow(const GatherConvArguments& a) {
  Narrow type = narrow_of(a.weights->compute);
  const auto differs = [&](DType of) {
    const Narrow narrow = narrow_of(of);
    if (narrow == Narrow::none) return false;
    if (type == Narrow::none) type = narrow;
    return narrow != type;
  };
  if (differs(a.output.dtype)) return true;
  return std::any_of(a.epilogue.nodes.begin(), a.epilogue.nodes.end(),
                     [&](const EpilogueNode& node) {
                       return node.kind == EpilogueNode::Kind::add && differs(node.aux.dtype);
                     });
}

// Weights as boxes of one tap, kTileN output channels and one span of input channels, written with
// the span's swizzle.
CUtensorMap weight_map(const ConvWeights& weights, const Sm90Instance& instance) {
  using Encode =
      CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                   const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave,
                   CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
  static const Encode encode = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found{};
    CUDA_CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                                cudaEnableDefault, &found));
    ENSURE(found == cudaDriverEntryPointSuccess,
           "gather_conv: the driver has no cuTensorMapEncodeTiled");
    return reinterpret_cast<Encode>(function);
  }();
  const auto bytes = static_cast<cuuint64_t>(base::bytes(storage(weights.compute)));
  const auto pitch = static_cast<cuuint64_t>(weights.pitch);
  const cuuint64_t extents[3] = {pitch, static_cast<cuuint64_t>(weights.taps),
                                 static_cast<cuuint64_t>(weights.cout)};
  const cuuint64_t strides[2] = {pitch * bytes,
                                 pitch * bytes * static_cast<cuuint64_t>(weights.taps)};
  const cuuint32_t box[3] = {static_cast<cuuint32_t>(instance.span_k), 1,
                             static_cast<cuuint32_t>(instance.tile_n)};
  const cuuint32_t steps[3] = {1, 1, 1};
  const CUtensorMapDataType type =
      weights.compute == DType::f16    ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
      : weights.compute == DType::bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
      : is_eight_bit(weights.compute)  ? CU_TENSOR_MAP_DATA_TYPE_UINT8
                                       : CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  CUtensorMap map;
  const CUresult result =
      encode(&map, type, 3, const_cast<std::uint8_t*>(weights.data.data()), extents, strides, box,
             steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
             instance.span_bytes == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
             : instance.span_bytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                                         : CU_TENSOR_MAP_SWIZZLE_32B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  ENSURE(result == CUDA_SUCCESS, "gather_conv: cuTensorMapEncodeTiled fails with ",
         static_cast<int>(result), " for ", weights.cout, " x ", weights.taps, " x ", weights.cin,
         " weights");
  return map;
}

}  // namespace

DeviceEpilogue lower_epilogue(const Epilogue& epilogue, const base::TensorView& output,
                              std::span<const float> factors) {
  ENSURE(epilogue.nodes.size() <= DeviceEpilogue::kMaxNodes, "gather_conv: ", epilogue.nodes.size(),
         " epilogue nodes; at most ", int{DeviceEpilogue::kMaxNodes}, " are possible");
  DeviceEpilogue lowered;
  std::size_t additions = 0;
  for (const EpilogueNode& node : epilogue.nodes) {
    DeviceEpilogueNode& to = lowered.node[lowered.count++];
    to.kind = node.kind;
    to.activation = node.activation;
    to.slope = node.activation == Activation::relu         ? 0.f
               : node.activation == Activation::leaky_relu ? node.slope
                                                           : 1.f;
    to.scale = node.scale;
    to.shift = node.shift;
    if (node.kind == EpilogueNode::Kind::add) {
      const DType type = wide(output.dtype);
      check_matrix(node.aux, output.shape[1], wide_or_narrow(node.aux, type), "epilogue operand");
      if (!factors.empty()) {
        ENSURE(additions < factors.size() && type == DType::f16, "gather_conv: ", factors.size(),
               " factors of ", base::name(type), " operands");
        to.factor = factors[additions++];
      }
      to.aux = node.aux.data;
      to.aux_pitch = row_pitch(node.aux);
      to.narrow = narrow_of(node.aux.dtype);
    }
  }
  return lowered;
}

const char* why_not(const Sm90Instance& instance, const GatherConvArguments& a) {
  const ConvWeights& w = *a.weights;
  const int bytes = element_bytes(storage(w.compute));
  if (instance.element != w.compute) return "the instance has another element type";
  if (w.groups != 1) return "groups";
  if (w.taps > kMaxMaskedTaps) return "more than 32 taps";
  if (w.cin * bytes % 16 != 0 || w.cout % 8 != 0) return "channels are no multiple of 16 bytes";
  if (!is_aligned(a.input.data, row_pitch(a.input), bytes))
    return "input rows are not aligned to 16 bytes";
  if (!is_aligned(a.output.data, row_pitch(a.output), element_bytes(a.output.dtype)))
    return "output rows are not aligned to 16 bytes";
  if (!is_epilogue_simple(a.epilogue)) return "an epilogue node needs the SIMT kernel";
  if (a.table.neighbours == nullptr) return "no gather table";
  if (a.table.taps * a.table.capacity >= std::int64_t{1} << 31)
    return "the gather table has 2^31 entries or more";
  if (a.centre.tile != instance.tile_m) return "the schedule has another tile size";
  if (a.own_weights == nullptr) return nullptr;
  if (instance.launch_own_rows == nullptr) return "the instance takes no own rows";
  if (is_mixed(a)) return "own rows of f16 beside 8-bit results or additions";
  if (a.own_weights->compute != w.compute || a.own_weights->cout != w.cout ||
      a.own_weights->taps != 1 || a.own_weights->groups != 1 || a.own_weights->scale != w.scale)
    return "the weights of own rows do not suit those of the map";
  if (w.taps >= kMaxMaskedTaps) return "no tap is left for own rows";
  if (a.own_weights->cin * bytes % 16 != 0 ||
      !is_aligned(a.own_input.data, row_pitch(a.own_input), bytes))
    return "own rows are not aligned to 16 bytes";
  return nullptr;
}

std::int64_t partial_floats(const Sm90Instance& instance, std::int64_t row_capacity,
                            std::int64_t cout) {
  return 2 * row_capacity * ((cout + instance.tile_n - 1) / instance.tile_n * instance.tile_n);
}

struct GatherConv::Impl {
  const Sm90Instance* instance = nullptr;
  std::optional<Sm90GatherConvParams> outer;
  Sm90GatherConvParams centre;
  Sm90Instance::Launch launch_centre = nullptr;  // what leaves partial sums alone is plain
  int lists = 0, outer_lists = 0, column_blocks = 0;
  bool overlap = false;

  DType element = DType::f32;
  SimtGatherConvParams simt;
  dim3 simt_grid;
};

GatherConv::GatherConv(const GatherConvArguments& a) : impl_(std::make_unique<Impl>()) {
  ENSURE(a.weights != nullptr, "gather_conv: no weights");
  const ConvWeights& w = *a.weights;
  check_matrix(a.input, w.cin, storage(w.compute), "input");
  check_matrix(a.output, w.cout, wide_or_narrow(a.output, wide(w.compute)), "output");
  ENSURE(a.output.shape[0] < kSlotRow, "gather_conv: ", a.output.shape[0], " output rows; at most ",
         int{kSlotRow}, " are possible");
  ENSURE(!has_other_narrow(a), "gather_conv: two 8-bit types in one call; the weights compute in ",
         base::name(w.compute));
  const DeviceEpilogue epilogue = lower_epilogue(a.epilogue, a.output, a.aux_factors);
  Impl& impl = *impl_;
  impl.overlap = a.overlap;

  if (a.instance == nullptr) {
    ENSURE(a.canonical != nullptr || a.table.neighbours != nullptr || w.taps == 1 ||
               a.output.shape[0] == 0,
           "gather_conv: ", w.taps, " taps and no neighbours");
    ENSURE(a.own_weights == nullptr, "gather_conv: the SIMT kernel takes no own rows");
    ENSURE(!is_eight_bit(w.compute), "gather_conv: the SIMT kernel has no products of ",
           base::name(w.compute));
    impl.element = w.compute;
    SimtGatherConvParams& p = impl.simt;
    p.narrow = narrow_of(a.output.dtype);
    p.input = a.input.data;
    p.input_pitch = row_pitch(a.input);
    p.neighbours = a.canonical;
    p.neighbour_pitch = a.canonical_pitch;
    if (a.canonical == nullptr && a.table.neighbours != nullptr) {
      p.neighbours = a.table.neighbours;
      p.neighbour_pitch = a.table.capacity;
      p.slot_rows = a.table.rows;
    }
    p.row_count = a.row_count;
    p.rows = static_cast<std::int32_t>(a.output.shape[0]);
    p.weights = w.data.data();
    p.cin = static_cast<std::int32_t>(w.cin);
    p.cout = static_cast<std::int32_t>(w.cout);
    p.taps = static_cast<std::int32_t>(w.taps);
    p.groups = static_cast<std::int32_t>(w.groups);
    p.weight_pitch = static_cast<std::int32_t>(w.pitch);
    p.output = a.output.data;
    p.output_pitch = row_pitch(a.output);
    const std::int64_t bytes = base::bytes(storage(w.compute));
    p.has_vectors =
        w.cin / w.groups % 4 == 0 && p.input_pitch % 4 == 0 &&
        reinterpret_cast<std::uintptr_t>(p.input) % static_cast<std::uintptr_t>(4 * bytes) == 0;
    p.epilogue = epilogue;
    constexpr int kM = SimtTile<float>::kTileM, kN = SimtTile<float>::kTileN;
    const std::int64_t blocks = w.groups * ((w.cout / w.groups + kN - 1) / kN);
    ENSURE(blocks <= 65535, "gather_conv: ", w.cout, " output channels in ", w.groups,
           " groups need too many blocks");
    impl.simt_grid = dim3(static_cast<unsigned>((a.output.shape[0] + kM - 1) / kM),
                          static_cast<unsigned>(blocks));
    return;
  }

  const Sm90Instance& instance = *a.instance;
  const char* reason = why_not(instance, a);
  ENSURE(reason == nullptr, "gather_conv: ", instance.name, " cannot run this: ", reason);
  impl.instance = &instance;
  impl.launch_centre = a.own_weights != nullptr ? instance.launch_own_rows
                       : is_mixed(a)            ? instance.launch_mixed
                                                : instance.launch;
  impl.column_blocks = static_cast<int>((w.cout + instance.tile_n - 1) / instance.tile_n);
  const auto bytes = static_cast<std::uint32_t>(base::bytes(storage(w.compute)));
  Sm90GatherConvParams& p = impl.centre;
  p.weights = weight_map(w, instance);
  p.operand.input = static_cast<const char*>(a.input.data);
  p.operand.pitch = static_cast<std::uint32_t>(row_pitch(a.input)) * bytes;
  p.operand.row_bytes = static_cast<std::uint32_t>(w.cin) * bytes;
  p.operand.slices = static_cast<int>((w.cin + instance.stage_k - 1) / instance.stage_k);
  if (a.own_weights != nullptr) {
    check_matrix(a.own_input, a.own_weights->cin, storage(w.compute), "own input");
    const std::int64_t channels = a.own_weights->cin;
    p.own_weights = weight_map(*a.own_weights, instance);
    p.operand.own.input = static_cast<const char*>(a.own_input.data);
    p.operand.own.pitch = static_cast<std::uint32_t>(row_pitch(a.own_input)) * bytes;
    p.operand.own.row_bytes = static_cast<std::uint32_t>(channels) * bytes;
    p.operand.own.slices = static_cast<int>((channels + instance.stage_k - 1) / instance.stage_k);
    p.operand.own_tap = std::uint32_t{1} << w.taps;
  }
  p.operand.neighbours = a.table.neighbours;
  p.operand.neighbour_pitch = static_cast<std::uint32_t>(a.table.capacity);
  p.operand.slot_rows = a.table.rows;
  p.schedule = a.centre;
  p.store.output = a.output.data;
  p.store.output_pitch = row_pitch(a.output);
  p.store.columns = static_cast<std::int32_t>(w.cout);
  p.store.partials = a.partials;
  p.store.partial_pitch = impl.column_blocks * instance.tile_n;
  p.store.partial_plane = a.output.shape[0] * p.store.partial_pitch;
  p.store.epilogue = epilogue;
  p.store.narrow = narrow_of(a.output.dtype);
  for (int i = 0; i < epilogue.count && p.store.early_add < 0; ++i) {
    if (epilogue.node[i].kind == EpilogueNode::Kind::add) p.store.early_add = i;
  }
  impl.lists = a.centre.lists;
  if (a.outer.records != nullptr) {
    ENSURE(a.partials != nullptr, "gather_conv: planes need scratch for partial sums");
    ENSURE(a.outer.tile == instance.tile_m,
           "gather_conv: the planes' schedule has another tile size");
    impl.outer = p;
    impl.outer->schedule = a.outer;
    impl.outer->operand.own_tap = 0;
    impl.outer_lists = a.outer.lists;
    p.operand.input_is_older = true;
  }
}

GatherConv::~GatherConv() = default;
GatherConv::GatherConv(GatherConv&&) noexcept = default;
GatherConv& GatherConv::operator=(GatherConv&&) noexcept = default;

void GatherConv::run(cudaStream_t stream) const {
  const Impl& impl = *impl_;
  if (impl.instance == nullptr) {
    base::visit_dtype<float, base::tf32_t, base::half_t, base::bf16_t>(
        impl.element, "gather_conv", [&]<class T>() {
          base::cuda::launch(simt_gather_conv<T>,
                             {.grid = impl.simt_grid, .block = dim3(SimtTile<T>::kThreads)}, stream,
                             impl.simt);
        });
    return;
  }
  if (impl.outer)
    impl.instance->launch(*impl.outer, impl.outer_lists, impl.column_blocks, impl.overlap, stream);
  impl.launch_centre(impl.centre, impl.lists, impl.column_blocks,
                     impl.overlap || impl.outer.has_value(), stream);
}

std::string GatherConv::kernel_name() const {
  if (impl_->instance == nullptr) return base::concat("simt_", base::name(impl_->element));
  return std::string(impl_->instance->name) + (impl_->outer ? " planes" : "");
}

}  // namespace gemm_core::cuda
