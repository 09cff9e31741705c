set(SPARSECONV_SOURCES
  conv_geometry.cpp
  coordinates.cpp
  generated_coordinates.cpp
  hash_map.cpp
  kernel_map.cpp
  point_features.cpp
  radix_sort.cpp
  sparse_tensor.cpp
  voxelize.cpp)
# Compilers for CPUs with fused multiply-add would contract cell arithmetic; every backend must round alike.
set_source_files_properties(voxelize.cpp PROPERTIES COMPILE_OPTIONS -ffp-contract=off)
