// Sparse convolution on point clouds: one include for users.
#pragma once
#include "sparseconv/engine.hpp"
#include "sparseconv/kernel_map.hpp"
#include "sparseconv/model.hpp"
#include "sparseconv/sparse_tensor.hpp"
#include "sparseconv/views.hpp"
#include "sparseconv/voxel_file.hpp"
#include "sparseconv/voxelize.hpp"
