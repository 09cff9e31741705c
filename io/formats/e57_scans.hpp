// libE57Format's work: the scans of an E57 file as they are stored, a block of points at a time.
#pragma once
#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "gemm_core/base/dtype.hpp"
#include "io/poses.hpp"

namespace io {

struct E57Field {
  std::string name;  // canonical
  base::DType type = base::DType::f64;
};

struct E57Scan {
  std::int64_t number = 0, of = 1, points = 0;
  bool has_pose = false;
  Pose pose;
  std::vector<E57Field> fields;
  std::vector<std::string> left_out;  // fields that are no numbers
};

inline std::int64_t e57_row_bytes(const E57Scan& scan) {
  std::int64_t bytes = 0;
  for (const E57Field& field : scan.fields) bytes += base::bytes(field.type);
  return bytes;
}

// Points read at a time: at most 8192, and 1 MiB of them.
inline std::int64_t e57_block(const E57Scan& scan) {
  const std::int64_t row = std::max<std::int64_t>(e57_row_bytes(scan), 1);
  return std::clamp<std::int64_t>(std::min((std::int64_t{1} << 20) / row, scan.points), 1, 8192);
}

// Calls, in order for every scan: scan, block for all its points, end.
struct TakeE57 {
  std::function<void(const E57Scan& scan)> scan;
  // Column after column of `points` points, at most e57_block().
  std::function<void(std::string_view values, std::int64_t points)> block;
  std::function<void()> end;
};

// Error: as the library gives it, or a scan that claims more points than `file_bytes` can hold. On
// damaged files the library leaks, and may do worse.
void read_e57_scans(const std::filesystem::path& path, std::int64_t file_bytes,
                    const TakeE57& take);

}  // namespace io
