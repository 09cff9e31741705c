// Dense products on the CPU in the form can_implement -> workspace_size -> initialize -> run.
// Nothing throws or prints: misuse is a status whose message names operand, extent and limit, and
// leaves D untouched.
//
//   GemmArguments args{.m = 128, .n = 64, .k = 32};
//   args.a = {a, DType::f32, 32, 1};   // row-major [m, k]
//   args.b = {b, DType::f32, 1, 32};   // column-major [k, n]
//   args.d = {d, DType::f32, 64, 1};
//   std::vector<std::byte> workspace(Gemm::workspace_size(args));
//   Gemm gemm;
//   auto status = gemm.initialize(args, workspace.data(), workspace.size());
//   if (status.ok()) status = gemm.run();  // as often as wanted; operands are read again each time
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gemm_core/base/dtype.hpp"
#include "gemm_core/collective/cpu_dense_mainloop.hpp"
#include "gemm_core/epilogue/epilogue.hpp"
#include "gemm_core/kernel/stream_k.hpp"

namespace gemm_core {

struct GemmStatus {
  enum class Code : std::uint8_t {
    success,
    invalid_extent,  // negative, or products past 2^63
    null_operand,    // no pointer where elements are needed; beta without C
    misaligned,      // a pointer that is no multiple of its element size
    unsupported,     // a pair of types, or strides that make D overlap itself
    bad_index,       // an index past its limit; one of D that is negative or comes twice
    overlap,         // D shares bytes with A or B, or with C in another place
    small_workspace,
    not_initialized,
    wrong_device,  // CUDA: a host pointer, another device's, or a device without these kernels
  } code = Code::success;
  std::string message;  // empty on success
  bool ok() const { return code == Code::success; }
};

// Row i (column i) of an operand lies at row (column) indices[i] of a buffer that has `limit` of
// them: gathered where it is read, scattered where it is written. In A, B and C a negative index
// reads zeros; those of D are distinct and not negative. The same list on A's columns and B's rows
// gathers along k.
struct GatherList {
  IndexRef indices;  // null: none
  std::int64_t limit = 0;
};

// A matrix [rows, columns]; element (i, j) of batch l is data[i*row_stride + j*column_stride +
// l*batch_stride], or pointers[l][i*row_stride + j*column_stride] where `pointers` is given (and
// data is ignored). Strides count elements; those of less than a byte are packed, the first lowest.
struct GemmOperand {
  const void* data = nullptr;
  base::DType dtype = base::DType::f32;
  std::int64_t row_stride = 0, column_stride = 1, batch_stride = 0;
  const void* const* pointers = nullptr;
  GatherList rows, columns;
  // Quantised weights: scale * value + zero, each step rounded to `compute`; shared by all batches.
  // Groups run along k as a rule: {.column_group = 128} in A, {.row_group = 128} in B; blocks on
  // both sides are as good.
  GroupedValues scale, zero;
  bool conjugate = false;  // complex only
  // A with two of every four columns kept (device/sparse_gemm.hpp compresses): data is [m, k/2].
  const std::uint8_t* metadata = nullptr;
  std::int64_t metadata_pitch = 0;
};
struct GemmOutput {
  void* data = nullptr;
  base::DType dtype = base::DType::f32;
  std::int64_t row_stride = 0, column_stride = 1, batch_stride = 0;
  void* const* pointers = nullptr;
  GatherList rows, columns;
};

// How many products one chain of multiply-adds takes before it joins the fp32 sum.
enum class Accumulation : std::uint8_t {
  blocked,   // 256
  promoted,  // 128: what fp8 products need on hardware whose chains keep few bits
  fast,      // all of k: one chain
};

// Who multiplies what. Stream-K and split-k cut the loops over k of tiles into units for
// `processors` (never the number of threads, so that results do not depend on it). `deterministic`:
// partial sums are added in the order of k; else as they come.
struct GemmSchedule {
  kernel::Decomposition decomposition = kernel::Decomposition::data_parallel;
  std::int64_t splits = 1, processors = 16;
  bool deterministic = true;
};

// D = epilogue(alpha * A B + beta * C): A [m,k], B [k,n], C and D [m,n], each with its own strides,
// so that TN, NT, NN and TT are all there. With beta 0, C is not read; k = 0 gives
// epilogue(beta * C). D may be C in place; else its bytes, from first to last, are its own.
//
//   compute            A, B                           C, D           what may be asked
//   f32 tf32 f16 bf16  f32 f16 bf16 e4m3 e5m2, and    f32 f16 bf16   all; fp32 sums of operands
//   e4m3 e5m2          i8 u8 i4 u4 i2 u2 b1 weights   e4m3 e5m2 i8   rounded to compute
//   f64                f64                            f64            alpha, beta; no epilogue nodes
//   i8                 i8 u8 i4 u4 i2 u2 b1           i32            alpha 1, beta 0 or 1; sums
//   wrap at 2^31 i8                 the same                       the floats, i8 all, on the exact
//   sum rounded to fp32 c64, c128          c64, c128                      c64, c128      complex
//   alpha, beta, conjugates; no nodes
struct GemmArguments {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  GemmOperand a, b, c;
  GemmOutput d;
  base::DType compute = base::DType::f32;
  double alpha = 1, beta = 0;
  double alpha_imag = 0, beta_imag = 0;  // complex only
  Accumulation accumulation = Accumulation::blocked;
  GemmSchedule schedule;  // of a Gemm; groups are data-parallel
  DenseTiling tiling;
  Epilogue epilogue;  // matrices in it are [m, n] and shared by all batches
  // A visitor tree (epilogue/visitor_tree.hpp) instead of nodes: it sees alpha * A B + beta * C, in
  // fp32, and gives D. It must outlive the runs; one run at a time may use it.
  TileEpilogue* visitor = nullptr;
};

class Gemm {
 public:
  static GemmStatus can_implement(const GemmArguments& arguments);
  static std::size_t workspace_size(
      const GemmArguments& arguments);  // 0 where the arguments cannot be implemented
  // The workspace must live until the last run; 64-byte alignment is made inside it.
  GemmStatus initialize(const GemmArguments& arguments, void* workspace, std::size_t bytes);
  // Other arguments in the same workspace; refused where it is too small for them.
  GemmStatus update(const GemmArguments& arguments);
  GemmStatus
  run();  // in the caller's task arena; the result does not depend on the number of threads

 private:
  GemmArguments arguments_;
  void* workspace_ = nullptr;
  std::size_t bytes_ = 0;
  bool initialized_ = false;
};

// G products of their own sizes in one call, each with the bits of a Gemm of its own. Any extent
// may be 0.
class GroupedGemm {
 public:
  static GemmStatus can_implement(
      std::span<const GemmArguments> groups);  // batch must be 1; names the group
  static std::size_t workspace_size(std::span<const GemmArguments> groups);
  GemmStatus initialize(std::span<const GemmArguments> groups, void* workspace, std::size_t bytes);
  GemmStatus run();

 private:
  std::vector<GemmArguments> groups_;
  void* workspace_ = nullptr;
  bool initialized_ = false;
};

}  // namespace gemm_core
