// Times what a GPU does, without the host: for benchmarks. Each call checks nothing but errors;
// what is timed is tested elsewhere.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "sparseconv/conv_geometry.hpp"
#include "sparseconv/sparse_tensor.hpp"
#include "sparseconv/voxelize.hpp"

namespace sparseconv {

struct DeviceLimits {
  std::string name;
  double bytes_per_second = 0;  // copy on the device, read + written, measured
  double flops = 0;  // dense products of the type, as measured with a vendor's library; 0:
                     // not known for this device
};
DeviceLimits device_limits(base::Device device, base::DType dtype);

struct LayerTiming {
  CoordinatesPtr input;
  ConvGeometry geometry;  // stride 1: submanifold
  std::int64_t cin = 32, cout = 32;
  base::DType dtype = base::DType::f16;
};
// Milliseconds of one layer whose map is there: graph replays of 20 launches, divided; a value a
// round. `kernel` names the kernel that was chosen.
struct LayerTimes {
  std::vector<double> milliseconds;
  std::string kernel;
};
LayerTimes time_layer(const LayerTiming& layer, base::Device device, int rounds);

// Milliseconds of building maps from keys on the device, a value a round: one graph a frame.
struct MapTiming {
  CoordinatesPtr input;
  int levels = 1;         // by halving; each with a 3x3x3 map, and down and up between them
  bool has_order = true;  // row orders for the matrix cores too
};
std::vector<double> time_maps(const MapTiming& maps, base::Device device, int rounds);

// Milliseconds of voxelising clouds that stand on the device.
std::vector<double> time_voxelize(std::span<const io::Cloud* const> clouds,
                                  const VoxelizeOptions& options, base::Device device, int rounds);

}  // namespace sparseconv
