// What operations that lower to dense products share: the lowered problems with the tables that
// they point into, the workspace of their packed operands, the run.
#pragma once
#include <deque>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "gemm_core/device/gemm.hpp"
#include "gemm_core/kernel/cpu_dense_kernel.hpp"

namespace gemm_core {

struct LoweredProducts {
  std::vector<DenseProblem> problems;  // of one shape
  CpuSplit split;
  // Deques keep their elements where they are, so that problems may point to them.
  std::deque<OperandAccess> accesses;
  std::deque<std::vector<std::int64_t>> tables;
  std::deque<std::vector<BoxPoint>> points;
  std::deque<Epilogue> epilogues;

  const std::int64_t* keep(std::vector<std::int64_t> table) {
    return tables.emplace_back(std::move(table)).data();
  }
  const BoxPoint* keep(std::vector<BoxPoint> list) {
    return points.emplace_back(std::move(list)).data();
  }
};

// Workspace for `count` products of the shape of `one`, 64-byte alignment included.
std::size_t products_workspace(const DenseProblem& one, std::int64_t count, const CpuSplit& split);
GemmStatus check_workspace(const char* operation, const void* workspace, std::size_t bytes,
                           std::size_t needed);
void run_products(const LoweredProducts& lowered, void* workspace);

// Whether `count` packed operands [k, n] of any type have less than 2^62 bytes.
bool packs_within_limit(std::int64_t n, std::int64_t k, std::int64_t count);
// What running out of memory is to a caller; nothing leaves run() but statuses.
template <class Run>
GemmStatus run_within_memory(const char* operation, const Run& run) {
  try {
    run();
    return {};
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {
  }
  return {GemmStatus::Code::unsupported,
          std::string(operation) + ": no memory for the scratch of its tiles; D is unfinished"};
}

// Types, alpha, beta, schedule and tiling of a product by themselves, as check_gemm sees them;
// messages name `operation`.
GemmStatus check_product(const char* operation, const GemmArguments& product);

// The types and numbers of an operation's arguments, as those of the product that it becomes.
template <class Arguments>
GemmArguments product_types(const Arguments& g) {
  GemmArguments types{
      .compute = g.compute, .alpha = g.alpha, .beta = g.beta, .schedule = g.schedule};
  types.a.dtype = g.a.dtype;
  types.b.dtype = g.b.dtype;
  types.c.dtype = g.c.dtype;
  types.d.dtype = g.d.dtype;
  return types;
}

}  // namespace gemm_core
