#include "gemm_core/device/gather_conv.hpp"
