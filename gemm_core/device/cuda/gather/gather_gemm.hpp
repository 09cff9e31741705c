// Products on CUDA whose A is read through an index buffer, with holes, and whose D may be
// scattered: can_implement -> workspace_size -> initialize -> run, as cuda::Gemm. On Hopper.
//
//   GatherGemmArguments args{.m = 100000, .n = 256, .k = 27 * 256, .compute = DType::f16};
//   args.a = {x, voxels, 256};                                  // rows of 256 channels
//   args.a.index = {neighbours, DType::i32};                    // [m][27]
//   args.a.index_count = 27 * m;
//   args.a.row_slot_stride = 27;  args.a.tap_slot_stride = 1;  args.a.run = 256;
//   args.b = {w, DType::f16, 1, 27 * 256};  args.d = {y, DType::f16, 256, 1};
//   cuda::GatherGemm gemm;
//   auto status = gemm.initialize(args, workspace, bytes, stream);
//   if (status.ok()) status = gemm.run(stream);
#pragma once
#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

#include "gemm_core/device/gemm.hpp"
#include "gemm_core/layout/gather.hpp"

namespace gemm_core::cuda {

// A [m, k]: element (i, j) is data[index[s]][j % run], s = row slot of i + tap slot of j / run; 0
// where index[s] is negative or not below `rows`. The index buffer is in device memory and read in
// every run; null: index[s] is s.
struct GatheredOperand {
  const void* data = nullptr;
  std::int64_t rows = 0, row_stride = 0;  // of data, of the product's element type; elements
  IndexRef index;
  std::int64_t index_count = 0;
  std::int64_t run = 0;  // neighbours along k that one index serves; 0: all of k
  std::int64_t row_slot_stride = 1, tap_slot_stride = 0;
  // Instead of strides, tables in host memory of m and of k / run slots (other nesting of modes).
  std::vector<std::int64_t> row_slots, tap_slots;
};

struct GatherGemmArguments {
  std::int64_t m = 0, n = 0, k = 0;
  GatheredOperand a;
  GemmOperand b;  // [k, n], K-major
  // [m, n], rows contiguous; rows.indices: where row i lies, negative or not below rows.limit: not
  // stored. In device memory.
  GemmOutput d;
  base::DType compute = base::DType::f16;  // f16, bf16: D of the same type; tf32: f32
  double alpha = 1;
};

class GatherGemm {
 public:
  GatherGemm();
  ~GatherGemm();
  GatherGemm(GatherGemm&&) noexcept;
  GatherGemm& operator=(GatherGemm&&) noexcept;

  // Names what does not fit: Hopper, 16-byte rows, n a multiple of 8, runs that are whole stages of
  // 128 bytes unless there is but one.
  static GemmStatus can_implement(const GatherGemmArguments& arguments);
  static std::size_t workspace_size(const GatherGemmArguments& arguments);  // of tables
  GemmStatus initialize(const GatherGemmArguments& arguments, void* workspace, std::size_t bytes,
                        cudaStream_t stream);
  GemmStatus run(cudaStream_t stream) const;
  std::string kernel_name() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Slots and run of A from a layout (M modes, K modes): its two top-level modes are rows and k.
// base::Error where k is not made of runs that lie side by side.
template <class Integer>
void set_layout(const layout::GatherLayout<Integer, layout::LayoutTree, layout::LayoutTree>& a,
                std::int64_t m, std::int64_t k, GatheredOperand& to) {
  const std::int64_t run = [&] {
    std::int64_t length = 1;
    while (length < k && a.slots(length * m) == a.slots(0) &&
           a.dense(length * m) == a.dense(0) + length)
      ++length;
    return length;
  }();
  ENSURE(a.dense_offset + a.dense(0) == 0, "gather layout: offset ", a.dense_offset + a.dense(0),
         " inside rows, expected 0: move the data's pointer");
  ENSURE(run > 0 && k % run == 0, "gather layout: k = ", k, " is no multiple of its run, ", run);
  to.run = run;
  to.row_stride = a.row_pitch;
  to.row_slots.clear();
  to.tap_slots.clear();
  for (std::int64_t i = 0; i < m; ++i) to.row_slots.push_back(a.slot_offset + a.slots(i));
  for (std::int64_t tap = 0; tap < k / run; ++tap) {
    to.tap_slots.push_back(a.slots(tap * run * m) - a.slots(0));
    for (std::int64_t j = 0; j < run; ++j) {
      const std::int64_t at = (tap * run + j) * m;
      ENSURE(a.slots(at) == a.slots(tap * run * m) && a.dense(at) == a.dense(0) + j,
             "gather layout: k = ", tap * run + j, " does not continue its run");
    }
  }
  for (std::int64_t i = 0; i < m; ++i)
    ENSURE(a.dense(i) == a.dense(0), "gather layout: row ", i, " has an offset beside its slot");
}

}  // namespace gemm_core::cuda
