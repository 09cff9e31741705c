// Longest-processing-time-first for many jobs of one length. Given to the least loaded machine one
// by one, they raise all machines below some level to it: load l takes jobs_below(l, level, cost).
// The level is the largest at which no more than all jobs are taken; the least loaded take others.
#pragma once
#include "gemm_core/base/host_device.hpp"

namespace gemm_core {

// Jobs that a machine of load `load` takes while its load is below `level`.
BASE_HD constexpr int jobs_below(int load, int level, int cost) {
  return load >= level ? 0 : (level - load + cost - 1) / cost;
}

}  // namespace gemm_core
