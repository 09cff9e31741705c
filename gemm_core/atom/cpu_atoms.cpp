#include "gemm_core/atom/cpu_atoms.hpp"

#include <memory>
#include <mutex>

#include "gemm_core/atom/cpu_targets.hpp"
#include "gemm_core/atom/x86_dot_products.hpp"
#include "hwy/targets.h"

namespace gemm_core {
namespace {

CpuAtoms atoms_of_chosen_target() {
  CpuAtoms atoms;
  detail::fill_multiply(atoms);
  detail::fill_multiply_wide(atoms);
  detail::fill_gradient(atoms);
  detail::fill_elementwise(atoms);
  detail::fill_finish(atoms);
  x86::fill_dot_products(atoms);
  return atoms;
}

}  // namespace

const CpuAtoms& cpu_atoms() {
  static const CpuAtoms best = atoms_of_chosen_target();
  return best;
}

std::vector<const CpuAtoms*> supported_cpu_atoms() {
  static std::mutex mutex;  // the choice of target is global state of the SIMD library
  const std::scoped_lock lock(mutex);
  cpu_atoms();  // fixed before the choice is narrowed below
  static std::vector<std::unique_ptr<CpuAtoms>> all;
  if (all.empty()) {
    for (std::int64_t rest = hwy::SupportedTargets() & HWY_TARGETS; rest != 0; rest &= rest - 1) {
      hwy::SetSupportedTargetsForTest(rest & -rest);
      all.push_back(std::make_unique<CpuAtoms>(atoms_of_chosen_target()));
    }
    hwy::SetSupportedTargetsForTest(0);
  }
  std::vector<const CpuAtoms*> pointers;
  for (const auto& atoms : all) pointers.push_back(atoms.get());
  return pointers;
}

}  // namespace gemm_core
