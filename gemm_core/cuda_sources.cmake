set(GEMM_CORE_CUDA_SOURCES
  base/cuda/resources.cpp
  device/cuda/dense_node.cu
  device/cuda/gather/conv_weights.cpp
  device/cuda/gather/gather_conv.cu
  device/cuda/gather/pack_weights.cu
  device/cuda/gather/pair_lists.cu
  device/cuda/gather/select.cpp
  device/cuda/gather/sm90_instances.cpp
  device/cuda/gather/tile_schedule.cu
  device/cuda/gather/weight_gradient.cu
  device/cuda/gather/instances/bf16_pairs.cu
  device/cuda/gather/instances/f16_pairs.cu
  device/cuda/gather/instances/tf32_pairs.cu)
# One configuration a file: each compiles in under a minute, and they compile side by side.
foreach(type f16 bf16 e4m3 i8)
  foreach(tile 128x128 128x256 128x96 128x96_k128 64x128 64x256 64x32 64x64)
    list(APPEND GEMM_CORE_CUDA_SOURCES device/cuda/gather/instances/${type}_${tile}.cu)
  endforeach()
endforeach()
foreach(tile 128x128 128x96 128x96_k96 64x128 64x256 64x32 64x64)
  list(APPEND GEMM_CORE_CUDA_SOURCES device/cuda/gather/instances/tf32_${tile}.cu)
endforeach()
# Dense products: the tiles of one type and one pair of majors a file.
list(APPEND GEMM_CORE_CUDA_SOURCES
  device/cuda/gemm/complex_gemm.cu
  device/cuda/gemm/dense_checks.cpp
  device/cuda/gemm/dense_instances.cpp
  device/cuda/gemm/f64_gemm.cu
  device/cuda/gemm/gemm.cu
  device/cuda/gemm/gemm_defaults_h200.cpp
  device/cuda/gemm/gemm_lowering.cu
  device/cuda/gemm/gemm_tuning.cu
  device/cuda/gemm/grouped_gemm.cu
  device/cuda/mixed/mixed_instances.cpp
  device/cuda/mixed/mixed_lowering.cu
  device/cuda/tensor_map.cpp
  device/cuda/tensor_map_encoder.cpp
  device/cuda/mixed/widened_gemm.cu)
foreach(type f16 bf16)
  foreach(majors kk kn mk mn)
    list(APPEND GEMM_CORE_CUDA_SOURCES device/cuda/gemm/instances/dense_${type}_${majors}.cu)
  endforeach()
endforeach()
foreach(type f16 bf16)
  foreach(weights w2 w4 w8 fp8)
    list(APPEND GEMM_CORE_CUDA_SOURCES device/cuda/mixed/instances/mixed_${type}_${weights}.cu)
  endforeach()
  foreach(weights w4 w8 fp8)
    list(APPEND GEMM_CORE_CUDA_SOURCES device/cuda/mixed/instances/few_rows_${type}_${weights}.cu)
  endforeach()
endforeach()
foreach(type tf32 fp8 i8)
  list(APPEND GEMM_CORE_CUDA_SOURCES device/cuda/gemm/instances/dense_${type}.cu)
endforeach()
foreach(tile 64x32 64x64 64x96)
  list(APPEND GEMM_CORE_CUDA_SOURCES device/cuda/gather/instances/f32_${tile}.cu)
endforeach()
# Dense convolution, contractions and other operations on dense operands.
list(APPEND GEMM_CORE_CUDA_SOURCES
  device/cuda/contraction/contraction.cu
  device/cuda/contraction/contraction_modes.cpp
  device/cuda/conv/conv.cu
  device/cuda/conv/conv_instances.cpp
  device/cuda/conv/conv_launch.cu
  device/cuda/conv/conv_positions.cu
  device/cuda/conv/conv_tma.cu
  device/cuda/conv/im2col_map.cpp
  device/cuda/contraction/nested_contraction.cu
  device/cuda/contraction/nested_map.cpp
  device/cuda/sparse/sparse_gemm.cu
  device/cuda/tables/table_products.cu
  device/cuda/conv/instances/conv_tf32.cu
  device/cuda/contraction/instances/nested_bf16.cu
  device/cuda/contraction/instances/nested_f16.cu)
foreach(type f16 bf16)
  foreach(operation forward activation scattered filter)
    list(APPEND GEMM_CORE_CUDA_SOURCES device/cuda/conv/instances/conv_${type}_${operation}.cu)
  endforeach()
endforeach()
# Kernels of mma.sync, cp.async and SIMT alone: also compiled for SPARSECONV_CUDA_PORTABLE_ARCHITECTURES.
set(GEMM_CORE_PORTABLE_CUDA_SOURCES
  device/cuda/gemm/complex_launch.cu
  device/cuda/gemm/dense_fallback.cu
  device/cuda/conv/depthwise.cu
  device/cuda/conv/depthwise_rows.cu
  device/cuda/reduction.cu
  device/cuda/sparse/sparse_compress.cu
  device/cuda/tables/table_mma.cu
  device/cuda/tables/table_simt.cu)
# Epilogue trees: one kernel a file.
list(APPEND GEMM_CORE_CUDA_SOURCES device/cuda/visitor/visitor_gemm.cu device/cuda/visitor/visitor_lowering.cpp
  device/cuda/visitor/visitor_plan.cu)
foreach(type f16 bf16)
  foreach(tree amax amax_silu amax_256 residual residual_silu residual_256 program)
    list(APPEND GEMM_CORE_CUDA_SOURCES device/cuda/visitor/instances/tree_${type}_${tree}.cu)
  endforeach()
endforeach()
# Products with gathered A.
list(APPEND GEMM_CORE_CUDA_SOURCES device/cuda/gather/gather_gemm.cu device/cuda/gather/list_gemm.cu)
foreach(type f16 bf16 tf32)
  list(APPEND GEMM_CORE_CUDA_SOURCES device/cuda/gather/instances/row_gather_${type}.cu)
endforeach()
