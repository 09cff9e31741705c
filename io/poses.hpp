// Poses of a moving sensor, and several sweeps in one frame. All arithmetic is in double.
//
//   auto poses = io::read_poses("poses.txt");                  // KITTI: 12 numbers a line, camera
//   to first camera poses = io::sensor_poses(poses, io::read_calibration("calib.txt"));  // lidar
//   to first lidar io::Cloud joined = io::accumulate(sweeps, sweep_poses, 0); // in the frame of
//   sweep 0
#pragma once
#include <array>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "io/cloud.hpp"

namespace io {

// q = rotation * p + translation, from the sensor's frame to a fixed one.
struct Pose {
  std::array<std::array<double, 3>, 3> rotation{{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};
  std::array<double, 3> translation{0, 0, 0};

  std::array<double, 3> apply(const std::array<double, 3>& point) const;
};
Pose compose(const Pose& outer, const Pose& inner);  // outer(inner(p))
Pose inverse(const Pose& pose);  // Error where the matrix is singular; it may hold a scale

// A pose a line, 12 numbers row by row ([R | t]); blank lines and # comments are passed over. Error
// names the line.
std::vector<Pose> read_poses(const std::filesystem::path& path);
// The line `Tr:` (or `Tr_velo_to_cam:`) of a KITTI calibration: lidar to camera.
Pose read_calibration(const std::filesystem::path& path);
// Camera poses as poses of the lidar: inverse(lidar_to_camera) * pose * lidar_to_camera.
std::vector<Pose> sensor_poses(std::span<const Pose> camera_poses, const Pose& lidar_to_camera);

// The cloud moved: x y z become doubles; normals turn with it.
Cloud transformed(const Cloud& cloud, const Pose& pose);

// All points of all parts, in order, with the fields that every part has in one type, and
// `number_field` (int32): the number of the part. Takes the memory of the result and of one column
// beside the parts.
Cloud concatenated(std::vector<Cloud> parts, const std::string& number_field);

// All points of all sweeps in the frame of sweep `reference`, in order, with the fields that every
// sweep has in one type, and `sweep` (int32): the number of the sweep. Empty sweeps are fine.
Cloud accumulate(std::span<const Cloud* const> sweeps, std::span<const Pose> poses,
                 std::size_t reference);

}  // namespace io
