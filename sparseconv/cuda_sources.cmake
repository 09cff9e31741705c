set(SPARSECONV_CUDA_SOURCES
  cuda/device_plan.cpp
  cuda/executor.cpp
  cuda/frame_layout.cpp
  cuda/frame_maps.cu
  cuda/frame_prepare.cpp
  cuda/frame_runner.cpp
  cuda/step_kernels.cu)
