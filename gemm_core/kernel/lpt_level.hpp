// Longest-processing-time-first for many jobs of one length at once. Given to the least loaded machine one by one, jobs of
// length `cost` raise every machine that is below some level to it: machine with load l takes jobs_below(l, level, cost).
// The level is the largest at which no more than the jobs at hand are taken; the few left over go to the least loaded.
#pragma once
#include "gemm_core/base/host_device.hpp"

namespace gemm_core {

// Jobs that a machine of load `load` takes while its load is below `level`.
BASE_HD constexpr int jobs_below(int load, int level, int cost) {
  return load >= level ? 0 : (level - load + cost - 1) / cost;
}

}  // namespace gemm_core
