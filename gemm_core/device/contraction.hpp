// Tensor contractions D(m.., n.., l..) = alpha * sum over k.. of A(m.., k.., l..) B(k.., n.., l..)
// + beta * C: any number of modes of each kind, any strides. Operands may be read and D written
// through an index buffer whose entry is chosen by all coordinates together (the layout
// outer(gather) o inner of docs/layout_algebra.md).
//
//   ContractionArguments args;                        // D[i,j,p,q] = sum A[i,k,p] B[q,k,j]
//   args.modes = {{ModeKind::m, I, {.a = K * P, .d = J * P * Q}}, {ModeKind::m, P, {.a = 1, .d =
//   Q}},
//                 {ModeKind::n, J, {.b = 1, .d = P * Q}},         {ModeKind::n, Q, {.b = K * J, .d
//                 = 1}}, {ModeKind::k, K, {.a = P, .b = J}}};
//   args.a = {a}; args.b = {b}; args.d = {d};
#pragma once
#include "gemm_core/device/dense_operation.hpp"

namespace gemm_core {

enum class ModeKind : std::uint8_t { m, n, k, batch };

// Steps of a mode in elements of each operand; those of operands that do not have it are 0.
struct ModeStrides {
  std::int64_t a = 0, b = 0, c = 0, d = 0;
};

struct ContractionMode {
  ModeKind kind = ModeKind::m;
  std::int64_t extent = 1;
  ModeStrides stride;
  ModeStrides slot = {};  // steps in the index buffers
};

// Element = slots[sum of slot steps] * slot_pitch + sum of strides. A negative entry reads zero;
// entries that D uses are not negative, and no element of D may be written twice (where a mode both
// chooses an entry of D and steps beside it, at most 2^22 elements are told apart). D may be C in
// place; else its bytes, from the first to the last that it writes, are its own.
struct ContractionOperand {
  void* data = nullptr;  // written only in D
  base::DType dtype = base::DType::f32;
  IndexRef slots = {};
  std::int64_t slot_pitch = 0, slot_limit = 0;  // entries are below slot_limit
};

struct ContractionArguments {
  std::vector<ContractionMode> modes;  // of a kind: the first one fastest
  ContractionOperand a, b, c, d;
  base::DType compute = base::DType::f32;  // and element types: as in GemmArguments
  double alpha = 1, beta = 0;
  GemmSchedule schedule;
};

// As products, one a batch, with tables of offsets; the arguments have passed can_implement().
LoweredProducts lower_contraction(const ContractionArguments& arguments);

class Contraction {
 public:
  // O(entries of the index buffers + modes); D through an index buffer: up to O(2^22) more.
  static GemmStatus can_implement(const ContractionArguments& arguments);
  static std::size_t workspace_size(
      const ContractionArguments& arguments);  // 0 where it cannot be implemented
  // Tables of offsets, one entry a row and column of each operand, are made here; index buffers are
  // read again in every run.
  GemmStatus initialize(const ContractionArguments& arguments, void* workspace, std::size_t bytes);
  GemmStatus run();

 private:
  LoweredProducts lowered_;
  void* workspace_ = nullptr;
  bool initialized_ = false;
};

}  // namespace gemm_core
