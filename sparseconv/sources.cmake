set(SPARSECONV_SOURCES
  architectures.cpp
  architectures_detection.cpp
  architectures_segmentation.cpp
  batch_rows.cpp
  conv_geometry.cpp
  coordinates.cpp
  cpu/batch_norm.cpp
  cpu/dense.cpp
  cpu/devoxelize.cpp
  cpu/executor.cpp
  cpu/frame.cpp
  cpu/point_keys.cpp
  cpu/pool.cpp
  cpu/row_gradients.cpp
  cpu/tape.cpp
  cpu/tape_backward.cpp
  device_voxelize.cpp
  devices.cpp
  engine.cpp
  executor.cpp
  fusion.cpp
  generated_coordinates.cpp
  graph.cpp
  graph_builder.cpp
  hash_map.cpp
  initialise.cpp
  json_reader.cpp
  kernel_map.cpp
  model.cpp
  model_file.cpp
  model_json.cpp
  model_validate.cpp
  plan.cpp
  plan_placement.cpp
  point_features.cpp
  radix_sort.cpp
  result.cpp
  sparse_tensor.cpp
  training/augment.cpp
  training/checkpoint.cpp
  training/class_loss.cpp
  training/confusion.cpp
  training/head_losses.cpp
  training/labelled_cloud.cpp
  training/lovasz.cpp
  training/optimiser.cpp
  training/parameters.cpp
  training/paste.cpp
  training/schedule.cpp
  training/trainer.cpp
  training/training_plan.cpp
  views.cpp
  voxel_file.cpp
  voxel_grid.cpp
  voxelize.cpp)
# Compilers for CPUs with fused multiply-add would contract cell arithmetic; every backend must round alike.
set_source_files_properties(voxel_grid.cpp voxelize.cpp PROPERTIES COMPILE_OPTIONS -ffp-contract=off)
# Seeded weights are the same on every machine.
set_source_files_properties(initialise.cpp PROPERTIES COMPILE_OPTIONS -ffp-contract=off)
if(NOT SPARSECONV_CUDA)
  list(APPEND SPARSECONV_SOURCES no_cuda.cpp)
endif()
