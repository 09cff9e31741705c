// Scans that follow each other in a folder, and where the sensor was: KITTI's and SemanticKITTI's
// sequences, folders of `simulate`, any folder of scans with a file of poses.
//
//   const io::Sequence sequence = io::find_sequence("sequences/00/velodyne/000123.bin");
//   const io::Cloud joined = io::read_sweeps(sequence, 123, 5);       // the scan and the four
//   before it, in its frame
#pragma once
#include <filesystem>
#include <vector>

#include "io/io.h"
#include "io/poses.hpp"

namespace io {

struct Sequence {
  std::vector<std::filesystem::path> scans;  // of one extension, by name
  std::vector<Pose> poses;                   // one a scan: sensor to a fixed frame

  std::size_t index_of(const std::filesystem::path& scan) const;  // Error when it is not there
};

// The sequence that `scan` belongs to. `poses` names the file of poses; "" looks for poses.txt
// beside the scans and one folder up. Where a calib.txt stands beside that file its poses are the
// camera's and `Tr:` takes them to the lidar. Scans named by numbers alone have the pose of that
// line, counted from 0; others have them in order of name. Errors: no poses, more scans than poses,
// a scan whose number has no line.
Sequence find_sequence(const std::filesystem::path& scan, const std::filesystem::path& poses = {});

// The first of `clouds` and those before it in time (nearest first), joined in the frame of the
// first: its points come first, as the file has them, and `sweep` (int32) counts back from it. x y
// z are doubles.
Cloud joined_sweeps(const Sequence& sequence, std::size_t index,
                    std::span<const Cloud* const> clouds);

// Scan `index` and the `count - 1` before it, fewer at the start of the sequence.
Cloud read_sweeps(const Sequence& sequence, std::size_t index, std::size_t count,
                  const ReadOptions& options = {});

}  // namespace io
