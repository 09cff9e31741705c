set(GEMM_CORE_CUDA_SOURCES
  base/cuda/resources.cpp
  device/cuda/conv_weights.cpp
  device/cuda/gather_conv.cu
  device/cuda/pack_weights.cu
  device/cuda/pair_lists.cu
  device/cuda/select.cpp
  device/cuda/sm90_instances.cpp
  device/cuda/tile_schedule.cu
  device/cuda/weight_gradient.cu
  device/cuda/instances/bf16_pairs.cu
  device/cuda/instances/f16_pairs.cu
  device/cuda/instances/tf32_pairs.cu)
# One configuration a file: each compiles in under a minute, and they compile side by side.
foreach(type f16 bf16 e4m3 i8)
  foreach(tile 128x128 128x256 128x96 128x96_k128 64x128 64x256 64x32 64x64)
    list(APPEND GEMM_CORE_CUDA_SOURCES device/cuda/instances/${type}_${tile}.cu)
  endforeach()
endforeach()
foreach(tile 128x128 128x96 128x96_k96 64x128 64x256 64x32 64x64)
  list(APPEND GEMM_CORE_CUDA_SOURCES device/cuda/instances/tf32_${tile}.cu)
endforeach()
# Dense products: the tiles of one type and one pair of majors a file.
list(APPEND GEMM_CORE_CUDA_SOURCES
  device/cuda/complex_gemm.cu
  device/cuda/dense_checks.cpp
  device/cuda/dense_instances.cpp
  device/cuda/f64_gemm.cu
  device/cuda/gemm.cu
  device/cuda/gemm_defaults_h200.cpp
  device/cuda/gemm_lowering.cu
  device/cuda/gemm_tuning.cu
  device/cuda/grouped_gemm.cu
  device/cuda/mixed_instances.cpp
  device/cuda/mixed_lowering.cu
  device/cuda/tensor_map.cpp
  device/cuda/tensor_map_encoder.cpp
  device/cuda/widened_gemm.cu)
foreach(type f16 bf16)
  foreach(majors kk kn mk mn)
    list(APPEND GEMM_CORE_CUDA_SOURCES device/cuda/instances/dense_${type}_${majors}.cu)
  endforeach()
endforeach()
foreach(type f16 bf16)
  foreach(weights w2 w4 w8 fp8)
    list(APPEND GEMM_CORE_CUDA_SOURCES device/cuda/instances/mixed_${type}_${weights}.cu)
  endforeach()
endforeach()
foreach(type tf32 fp8 i8)
  list(APPEND GEMM_CORE_CUDA_SOURCES device/cuda/instances/dense_${type}.cu)
endforeach()
foreach(tile 64x32 64x64 64x96)
  list(APPEND GEMM_CORE_CUDA_SOURCES device/cuda/instances/f32_${tile}.cu)
endforeach()
# Dense convolution, contractions and other operations on dense operands.
list(APPEND GEMM_CORE_CUDA_SOURCES
  device/cuda/contraction.cu
  device/cuda/contraction_modes.cpp
  device/cuda/conv.cu
  device/cuda/conv_instances.cpp
  device/cuda/conv_launch.cu
  device/cuda/conv_positions.cu
  device/cuda/conv_tma.cu
  device/cuda/im2col_map.cpp
  device/cuda/nested_contraction.cu
  device/cuda/nested_map.cpp
  device/cuda/sparse_gemm.cu
  device/cuda/table_products.cu
  device/cuda/instances/conv_tf32.cu
  device/cuda/instances/nested_bf16.cu
  device/cuda/instances/nested_f16.cu)
foreach(type f16 bf16)
  foreach(operation forward activation scattered filter)
    list(APPEND GEMM_CORE_CUDA_SOURCES device/cuda/instances/conv_${type}_${operation}.cu)
  endforeach()
endforeach()
# Kernels of mma.sync, cp.async and SIMT alone: also compiled for SPARSECONV_CUDA_PORTABLE_ARCHITECTURES.
set(GEMM_CORE_PORTABLE_CUDA_SOURCES
  device/cuda/complex_launch.cu
  device/cuda/dense_fallback.cu
  device/cuda/depthwise.cu
  device/cuda/depthwise_rows.cu
  device/cuda/reduction.cu
  device/cuda/sparse_compress.cu
  device/cuda/table_mma.cu
  device/cuda/table_simt.cu)
# Epilogue trees: one kernel a file.
list(APPEND GEMM_CORE_CUDA_SOURCES device/cuda/visitor_gemm.cu device/cuda/visitor_lowering.cpp
  device/cuda/visitor_plan.cu)
foreach(type f16 bf16)
  foreach(tree amax amax_256 residual residual_256 program)
    list(APPEND GEMM_CORE_CUDA_SOURCES device/cuda/instances/tree_${type}_${tree}.cu)
  endforeach()
endforeach()
# Products with gathered A.
list(APPEND GEMM_CORE_CUDA_SOURCES device/cuda/gather_gemm.cu device/cuda/list_gemm.cu)
foreach(type f16 bf16 tf32)
  list(APPEND GEMM_CORE_CUDA_SOURCES device/cuda/instances/row_gather_${type}.cu)
endforeach()
