// NumPy arrays: structured (named members), [N, k] and [H, W, k].
#include "io/fit_columns.hpp"
#include "io/format.hpp"
#include "io/formats/npy_array.hpp"
#include "io/records.hpp"

namespace io {
namespace {

bool recognise_npy(std::string_view head) { return head.starts_with("\x93NUMPY"); }

Cloud read_npy(const Source& source, const ReadOptions& options) {
  FileStream stream(source, 0, source.size());
  const NpyHeader header = read_npy_header(stream);
  Cloud cloud = read_npy_cloud(header, stream, options);
  if (stream.remaining() > 0) {
    cloud.warnings.push_back(
        base::concat(stream.remaining(), " bytes after the array, at byte ", stream.position()));
  }
  return cloud;
}

std::vector<std::string> write_npy(Sink& sink, const Cloud& cloud, const WriteOptions&) {
  std::vector<std::string> losses;
  report_lost_extras(cloud, {.organised = true}, losses);
  sink.write(npy_header_text(cloud, losses));
  write_records(sink, cloud);
  return losses;
}

}  // namespace

const Format kNpyFormat{
    .name = "npy",
    .extensions = {".npy"},
    .recognises = recognise_npy,
    .read = read_npy,
    .write = write_npy,
    .reading = "256 KiB",
    .notes =
        "structured arrays with x y z, [N, 3..16] and [H, W, 3..16]; pickles are refused; "
        "written as a structured array"};

}  // namespace io
