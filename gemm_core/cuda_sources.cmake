set(GEMM_CORE_CUDA_SOURCES
  base/cuda/resources.cpp
  device/cuda/gather_conv.cu
  device/cuda/pack_weights.cu
  device/cuda/pair_lists.cu
  device/cuda/select.cpp
  device/cuda/sm90_instances.cpp
  device/cuda/tile_schedule.cu
  device/cuda/weight_gradient.cu
  device/cuda/instances/bf16_pairs.cu
  device/cuda/instances/f16_pairs.cu)
# One configuration a file: each compiles in under a minute, and they compile side by side.
foreach(type f16 bf16)
  foreach(tile 64x32 64x64 64x128 64x256 128x96 128x96_k128 128x128 128x256)
    list(APPEND GEMM_CORE_CUDA_SOURCES device/cuda/instances/${type}_${tile}.cu)
  endforeach()
endforeach()
foreach(tile 64x32 64x64 64x128)
  list(APPEND GEMM_CORE_CUDA_SOURCES device/cuda/instances/tf32_${tile}.cu)
endforeach()
