// First line of a test that needs a GPU: reports itself as skipped where there is none, or none of
// the right kind.
#pragma once
#include <gtest/gtest.h>

#include "gemm_core/base/cuda/resources.hpp"

#define REQUIRE_DEVICE() \
  if (base::cuda::device_count() == 0) GTEST_SKIP() << "no CUDA device"
#define REQUIRE_HOPPER() \
  REQUIRE_DEVICE();      \
  if (!base::cuda::device_info(0).has_wgmma()) GTEST_SKIP() << "cuda:0 is no Hopper GPU"
