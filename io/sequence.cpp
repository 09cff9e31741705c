#include "io/sequence.hpp"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "gemm_core/base/error.hpp"
#include "io/format.hpp"
#include "io/number_text.hpp"

namespace io {
namespace fs = std::filesystem;
namespace {

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

fs::path folder_of(const fs::path& scan) {
  return scan.has_parent_path() ? scan.parent_path() : fs::path(".");
}

fs::path poses_file(const fs::path& folder) {
  const fs::path beside = folder / "poses.txt", above = folder / ".." / "poses.txt";
  if (is_there(beside)) return beside;
  ENSURE(is_there(above), "no poses: poses.txt is neither beside the scans nor one folder up");
  return above;
}

std::vector<fs::path> scans_like(const fs::path& scan, const fs::path& poses) {
  const Format* format = format_of_extension(scan);
  std::error_code error;
  std::vector<fs::path> scans;
  for (fs::directory_iterator it(folder_of(scan), error), end; !error && it != end;
       it.increment(error)) {
    const fs::path& path = it->path();
    const bool is_alike =
        path.extension() == scan.extension() && format_of_extension(path) == format;
    if (is_alike && path.filename() != poses.filename() && is_there(path)) scans.push_back(path);
  }
  ENSURE(!error, "the folder of the scan cannot be searched: ", error.message());
  std::sort(scans.begin(), scans.end());
  return scans;
}

// The number that the name is, or -1: 000123.bin, 000123.pcd.bin.
std::int64_t number_of(const fs::path& scan) {
  std::string name = scan.filename().string();
  name.resize(std::min(name.find('.'), name.size()));
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  return error == std::errc() && end == name.data() + name.size() && name[0] != '-' ? number : -1;
}

}  // namespace

std::size_t Sequence::index_of(const fs::path& scan) const {
  const auto found = std::find_if(scans.begin(), scans.end(), [&](const fs::path& one) {
    return one.filename() == scan.filename();
  });
  ENSURE(found != scans.end(), quote(scan.filename().string()), " is not among the ", scans.size(),
         " scans of its sequence");
  return static_cast<std::size_t>(found - scans.begin());
}

Sequence find_sequence(const fs::path& scan, const fs::path& poses) {
  const fs::path file = poses.empty() ? poses_file(folder_of(scan)) : poses;
  std::vector<Pose> lines;
  try {
    lines = read_poses(file);
  } catch (const base::Error& error) {
    base::fail(quote(file.filename().string()), ": ", error.what());
  }
  if (const fs::path calibration = folder_of(file) / "calib.txt"; is_there(calibration)) {
    try {
      lines = sensor_poses(lines, read_calibration(calibration));
    } catch (const base::Error& error) {
      base::fail("calib.txt: ", error.what());
    }
  }
  Sequence sequence{.scans = scans_like(scan, file)};
  const bool are_numbered = std::all_of(sequence.scans.begin(), sequence.scans.end(),
                                        [](const fs::path& one) { return number_of(one) >= 0; });
  for (std::size_t i = 0; i < sequence.scans.size(); ++i) {
    const std::int64_t line =
        are_numbered ? number_of(sequence.scans[i]) : static_cast<std::int64_t>(i);
    ENSURE(line < static_cast<std::int64_t>(lines.size()), quote(file.filename().string()),
           " holds ", lines.size(), " poses, ", quote(sequence.scans[i].filename().string()),
           " is scan ", line, " counted from 0");
    sequence.poses.push_back(lines[static_cast<std::size_t>(line)]);
  }
  return sequence;
}

Cloud joined_sweeps(const Sequence& sequence, std::size_t index,
                    std::span<const Cloud* const> clouds) {
  ENSURE(!clouds.empty() && clouds.size() <= index + 1 && index < sequence.poses.size(),
         "sweeps: ", clouds.size(), " clouds that end with scan ", index, " of ",
         sequence.poses.size());
  std::vector<Pose> poses;
  for (std::size_t back = 0; back < clouds.size(); ++back)
    poses.push_back(sequence.poses[index - back]);
  Cloud joined = accumulate(clouds, poses, 0);
  joined.warnings = clouds[0]->warnings;
  return joined;
}

Cloud read_sweeps(const Sequence& sequence, std::size_t index, std::size_t count,
                  const ReadOptions& options) {
  std::vector<Cloud> clouds;
  std::vector<const Cloud*> pointers;
  for (std::size_t back = 0; back < std::min(std::max<std::size_t>(count, 1), index + 1); ++back) {
    clouds.push_back(read(sequence.scans[index - back], options));
  }
  for (const Cloud& cloud : clouds) pointers.push_back(&cloud);
  return joined_sweeps(sequence, index, pointers);
}

}  // namespace io
