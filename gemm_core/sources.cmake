set(GEMM_CORE_SOURCES
  atom/cpu_atoms.cpp
  collective/cpu_gather_mainloop.cpp
  collective/cpu_packed_weights.cpp
  device/elementwise.cpp
  device/gather_conv.cpp
  device/machine.cpp
  epilogue/cpu_epilogue.cpp)
