// Reading and writing of clouds against what the machine can do at least: a plain read or write of
// the same bytes (page cache, one fresh buffer with huge pages), for text a loop that only scans
// numbers. One core, ratios in one run.
//   io_bench [--points N] [--rounds N] [--clock wall|cpu] [--folder DIR]
//   io_bench --read FILE               one file, beside a plain read; seconds for peers/io_peers.py
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>

#include "benchmarks/support/timing.hpp"
#include "gemm_core/base/error.hpp"
#include "io/io.h"
#include "io/number_text.hpp"
#include "io/simulator.hpp"

namespace {

namespace fs = std::filesystem;
using benchmarks::TimedBy;

struct Options {
  std::int64_t points = 4'000'000;
  int rounds = 5;
  TimedBy clock = TimedBy::wall;
  fs::path folder = fs::temp_directory_path();
  fs::path read;  // one file only
};

constexpr std::int64_t kPiece = 1 << 18;

// A buffer that the kernel backs with huge pages where it can, as a reader's columns are.
class FreshBuffer {
 public:
  explicit FreshBuffer(std::int64_t bytes) : bytes_(static_cast<std::size_t>(bytes)) {
    data_ = static_cast<char*>(
        ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ENSURE(data_ != MAP_FAILED, "out of memory");
    ::madvise(data_, bytes_, MADV_HUGEPAGE);
  }
  ~FreshBuffer() { ::munmap(data_, bytes_); }
  FreshBuffer(const FreshBuffer&) = delete;
  FreshBuffer& operator=(const FreshBuffer&) = delete;
  char* data() { return data_; }

 private:
  std::size_t bytes_;
  char* data_;
};

void plain_read(const fs::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const auto bytes = static_cast<std::int64_t>(fs::file_size(path));
  FreshBuffer buffer(bytes);
  for (std::int64_t at = 0; at < bytes;) {
    const ssize_t got = ::pread(file, buffer.data() + at,
                                static_cast<std::size_t>(std::min(kPiece, bytes - at)), at);
    ENSURE(got > 0, "cannot read ", path.string());
    at += got;
  }
  ::close(file);
}

void plain_write(const fs::path& path, std::int64_t bytes) {
  static const std::string piece(kPiece, 'x');
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  for (std::int64_t at = 0; at < bytes;) {
    const ssize_t put =
        ::write(file, piece.data(), static_cast<std::size_t>(std::min(kPiece, bytes - at)));
    ENSURE(put > 0, "cannot write ", path.string());
    at += put;
  }
  ::close(file);
}

// Numbers of a text that is in memory already, one after the other, kept nowhere.
double scan_numbers(const std::string& text) {
  const char *p = text.data(), *const end = p + text.size();
  double sum = 0;
  while (p < end) {
    io::Number number;
    const char* const after = io::scan_number(p, end, number);
    if (after != nullptr) sum += number.value;
    p = (after == nullptr ? p : after) + 1;
  }
  return sum;
}

// The same with the standard library alone.
double from_chars_numbers(const std::string& text) {
  const char *p = text.data(), *const end = p + text.size();
  double sum = 0;
  while (p < end) {
    double value = 0;
    const auto [after, error] = std::from_chars(p, end, value);
    sum += value;
    p = after + 1;
  }
  return sum;
}

std::string contents_of(const fs::path& path) {
  std::string text(static_cast<std::size_t>(fs::file_size(path)), '\0');
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  ENSURE(file && std::fread(text.data(), 1, text.size(), file.get()) == text.size(), "cannot read ",
         path.string());
  return text;
}

// A simulated scan repeated: x y z intensity as floats.
io::Cloud scan_of(std::int64_t points) {
  const io::Simulator simulator({.sensor = "hdl64", .seed = 1});
  const io::Cloud frame = simulator.frame(0);
  io::Cloud cloud;
  for (const char* name : {"x", "y", "z", "intensity"}) {
    const float* values = frame.get(name).values.data<float>();
    std::vector<float> column(static_cast<std::size_t>(points));
    for (std::int64_t i = 0; i < points; ++i)
      column[static_cast<std::size_t>(i)] = values[i % frame.size()];
    cloud.add<float>(name, column);
  }
  return cloud;
}

// What aerial surveys hold: centimetres, intensity, returns, class, time and colour (point format
// 3).
io::Cloud survey_of(const io::Cloud& scan) {
  io::Cloud cloud;
  const auto points = static_cast<std::size_t>(scan.size());
  for (const char* name : {"x", "y", "z"}) {
    std::vector<double> column(points);
    for (std::size_t i = 0; i < points; ++i)
      column[i] = std::round(scan.get(name).at(static_cast<std::int64_t>(i)) * 100) / 100;
    cloud.add<double>(name, column);
  }
  const auto add = [&]<class T>(const char* name, T, unsigned modulus) {
    std::vector<T> column(points);
    for (std::size_t i = 0; i < points; ++i) column[i] = static_cast<T>(i * 2654435761u % modulus);
    cloud.add<T>(name, column);
  };
  add("intensity", std::uint16_t{}, 4096);
  add("return_number", std::uint8_t{}, 5);
  add("class", std::uint8_t{}, 20);
  add("time", double{}, 1'000'000);
  for (const char* name : {"r", "g", "b"}) add(name, std::uint16_t{}, 65535);
  cloud.scale = {{0.01, 0.01, 0.01}};
  cloud.offset = {{0, 0, 0}};
  return cloud;
}

struct Row {
  const char* name;
  const char* file;
  io::WriteOptions write = {};
  bool is_text = false, is_survey = false;
};

void measure(const Row& row, const io::Cloud& cloud, const Options& options) {
  const fs::path path = options.folder / row.file,
                 copy = options.folder / (std::string("copy-") + row.file);
  io::write(path, cloud, row.write);
  const auto bytes = static_cast<std::int64_t>(fs::file_size(path));
  const double megabytes = static_cast<double>(bytes) / 1e6;
  volatile double sink = 0;
  std::string text;
  std::vector<std::function<void()>> contenders{
      [&] { plain_read(path); }, [&] { sink = static_cast<double>(io::read(path).size()); },
      [&] { plain_write(copy, bytes); }, [&] { io::write(copy, cloud, row.write); }};
  if (row.is_text) {
    text = contents_of(path);
    contenders.emplace_back([&] { sink = scan_numbers(text); });
    contenders.emplace_back([&] { sink = from_chars_numbers(text); });
  }
  const auto seconds = benchmarks::best_seconds(contenders, options.rounds, options.clock);
  std::printf(
      "%-18s %6.0f MB  read %5.0f MB/s = %3.0f %% of a plain read;  write %5.0f MB/s = %3.0f %% of "
      "a plain write",
      row.name, megabytes, megabytes / seconds[1], 100 * seconds[0] / seconds[1],
      megabytes / seconds[3], 100 * seconds[2] / seconds[3]);
  if (row.is_text) {
    std::printf(";  read takes %.2f x scanning the numbers, %.2f x std::from_chars",
                seconds[1] / seconds[4], seconds[1] / seconds[5]);
  }
  std::printf("\n");
  std::fflush(stdout);
  fs::remove(path);
  fs::remove(copy);
}

Options options_of(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--points")
      options.points = std::stoll(value);
    else if (name == "--rounds")
      options.rounds = std::stoi(value);
    else if (name == "--clock")
      options.clock = value == "cpu" ? TimedBy::process_cpu : TimedBy::wall;
    else if (name == "--read")
      options.read = value;
    else if (name == "--folder")
      options.folder = value;
    else
      base::fail("unknown option ", name);
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Options options = options_of(argc, argv);
    if (!options.read.empty()) {
      const auto seconds = benchmarks::best_seconds(
          {[&] { plain_read(options.read); }, [&] { static_cast<void>(io::read(options.read)); }},
          options.rounds, options.clock);
      std::printf("%.6f %.6f\n", seconds[0], seconds[1]);
      return 0;
    }
    const io::Cloud scan = scan_of(options.points), survey = survey_of(scan);
    const Row rows[] = {{"kitti", "bench.bin"},
                        {"pcd binary", "bench.pcd"},
                        {"pcd compressed", "bench-lzf.pcd", {.compressed = true}},
                        {"ply binary", "bench.ply"},
                        {"npy", "bench.npy"},
                        {"npz", "bench.npz"},
                        {"las", "bench.las", {}, false, true},
                        {"hdf5", "bench.h5"},
                        {"xyz text", "bench.xyz", {}, true},
                        {"csv text", "bench.csv", {}, true},
                        {"ply ascii", "bench-ascii.ply", {.ascii = true}, true},
                        {"pcd ascii", "bench-ascii.pcd", {.ascii = true}, true}};
    for (const Row& row : rows) measure(row, row.is_survey ? survey : scan, options);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "io_bench: %s\n", error.what());
    return 1;
  }
}
