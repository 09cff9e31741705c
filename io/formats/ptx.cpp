// PTX (Leica Cyclone): one or more scans, each with its grid, its pose and rows x y z intensity [r
// g b].
#include <array>
#include <cmath>

#include "io/format.hpp"
#include "io/formats/text_table.hpp"
#include "io/number_text.hpp"

namespace io {
namespace {

// Lines of a PTX file; every one is needed.
class PtxLines {
 public:
  explicit PtxLines(const Source& source) : source_(source), lines_(source) {}

  bool next_row() {
    while (lines_.next(line_)) {
      if (is_data_line(line_)) return true;
    }
    return false;
  }
  std::string_view text() const { return line_; }
  std::int64_t number() const { return lines_.line(); }

  std::int64_t count(const char* what) {
    std::int64_t value = 0;
    const auto cells = split_cells(line_, {});
    ENSURE(cells.size() == 1 && parse_count(cells[0], value) && value >= 0, "line ", number(), ": ",
           quote(line_), " is no number of ", what);
    return value;
  }
  void need_row(const char* what) {
    ENSURE(next_row(), "the file ends after line ", number(), ": ", what, " is missing");
  }

  template <std::size_t N>
  std::array<double, N> numbers(const char* what) {
    need_row(what);
    const auto cells = split_cells(line_, {});
    ENSURE(cells.size() == N, "line ", number(), ": ", cells.size(), " values of ", what, ", ", N,
           " are expected");
    std::array<double, N> values{};
    for (std::size_t i = 0; i < N; ++i) {
      Number value;
      const char* const end = cells[i].data() + cells[i].size();
      ENSURE(scan_number(cells[i].data(), end, value) == end, "line ", number(), ": ",
             quote(cells[i]), " is not a number");
      ENSURE(std::isfinite(value.value), "line ", number(), ": ", quote(cells[i]), " in ", what,
             " is not finite");
      values[i] = value.value;
    }
    return values;
  }

  std::int64_t bytes_left() const { return source_.size() - lines_.next_offset(); }

 private:
  const Source& source_;
  LineReader lines_;
  std::string_view line_;
};

struct PtxScan {
  std::int64_t width = 0, height = 0;
  std::array<std::array<double, 4>, 4> pose{};  // row vectors: p' = [p 1] * pose
  std::int64_t points() const { return width * height; }
};

// The line that was read last holds the number of columns of the scan.
PtxScan read_scan_header(PtxLines& lines) {
  PtxScan scan;
  scan.width = lines.count("columns");
  lines.need_row("the number of rows");
  scan.height = lines.count("rows");
  const std::int64_t most = lines.bytes_left() / 6 + 1;  // "1 2 3\n"
  ENSURE(scan.width == 0 || scan.height <= most / scan.width, "line ", lines.number(), " claims ",
         scan.width, " x ", scan.height, " points, ", lines.bytes_left(), " bytes are left");
  for (int i = 0; i < 4; ++i) lines.numbers<3>("the scanner's pose");
  for (auto& row : scan.pose) row = lines.numbers<4>("the transformation");
  return scan;
}

void apply_pose(const PtxScan& scan, std::int64_t begin, std::array<double*, 3> axes) {
  const auto& m = scan.pose;
  for (std::int64_t i = begin; i < begin + scan.points(); ++i) {
    const double x = axes[0][i], y = axes[1][i], z = axes[2][i];
    for (std::size_t a = 0; a < 3; ++a)
      axes[a][i] = x * m[0][a] + y * m[1][a] + z * m[2][a] + m[3][a];
  }
}

// First pass: how many points and columns; the grids are checked against the rows.
struct PtxSize {
  std::int64_t points = 0, scans = 0;
  std::size_t columns = 0;
};

PtxSize measure(const Source& source) {
  PtxSize size;
  PtxLines lines(source);
  while (lines.next_row()) {
    const PtxScan scan = read_scan_header(lines);
    ++size.scans;
    for (std::int64_t i = 0; i < scan.points(); ++i) {
      ENSURE(lines.next_row(), "scan ", size.scans, " claims ", scan.width, " x ", scan.height,
             " points, the file ends after ", i, " at line ", lines.number());
      if (size.columns != 0) continue;
      size.columns = split_cells(lines.text(), {}).size();
      ENSURE(size.columns == 3 || size.columns == 4 || size.columns == 7, "line ", lines.number(),
             ": ", size.columns, " columns, x y z [intensity [r g b]] are expected");
    }
    size.points += scan.points();
  }
  if (size.columns == 0) size.columns = 4;
  return size;
}

Cloud read_ptx(const Source& source, const ReadOptions&) {
  const PtxSize size = measure(source);
  ENSURE(size.scans > 0, "no scan: a PTX file begins with its number of columns");
  std::vector<bool> is_real(size.columns, false), is_skipped(size.columns, false);
  for (std::size_t c = 0; c < std::min<std::size_t>(size.columns, 4); ++c) is_real[c] = true;
  TextTable table(size.points, {}, is_real, is_skipped);
  PtxLines lines(source);
  std::vector<PtxScan> scans;
  while (lines.next_row()) {
    scans.push_back(read_scan_header(lines));
    for (std::int64_t i = 0; i < scans.back().points(); ++i) {
      lines.need_row("a point");
      table.parse(lines.text(), lines.number());
    }
  }
  static constexpr const char* kNames[] = {"x", "y", "z", "intensity", "r", "g", "b"};
  std::vector<base::Tensor> values;
  for (std::size_t c = 0; c < size.columns; ++c) values.push_back(table.columns()[c].take(c > 3));
  if (size.points > 0) {
    std::int64_t begin = 0;
    for (const PtxScan& scan : scans) {
      apply_pose(scan, begin,
                 {values[0].data<double>(), values[1].data<double>(), values[2].data<double>()});
      begin += scan.points();
    }
  }
  Cloud cloud(size.points);
  for (std::size_t c = 0; c < size.columns; ++c) {
    const base::DType type = values[c].dtype();
    cloud.add(Field{kNames[c], type, 1, ""}, std::move(values[c]));
  }
  cloud.clouds = size.scans;
  if (size.scans == 1) {
    // A PTX column is a vertical sweep and points follow each other along it.
    cloud.width = scans[0].height;
    cloud.height = scans[0].width;
  }
  return cloud;
}

}  // namespace

const Format kPtxFormat{.name = "ptx",
                        .extensions = {".ptx"},
                        .read = read_ptx,
                        .reading = "256 KiB and one column",
                        .notes = "scans with their poses applied, x y z [intensity [r g b]]"};

}  // namespace io
