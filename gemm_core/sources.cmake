set(GEMM_CORE_SOURCES
  device/gather_conv.cpp)
