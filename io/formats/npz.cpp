// NumPy archives. The cloud is the array that --dataset names, else `points`, else the only one
// that can be a cloud; arrays of as many rows beside it become further fields.
#include <algorithm>

#include "io/fit_columns.hpp"
#include "io/format.hpp"
#include "io/formats/npy_array.hpp"
#include "io/formats/zip.hpp"
#include "io/number_text.hpp"
#include "io/records.hpp"

namespace io {
namespace {

bool recognise_npz(std::string_view head) {
  return head.starts_with("PK\x03\x04") || head.starts_with("PK\x05\x06");
}

struct Array {
  std::string name;  // without .npy
  ZipMember member;
  NpyHeader header;
  std::string why_no_header;  // pickles and the like, which do not matter unless they are asked for
};

std::vector<Array> list_arrays(const Source& source) {
  std::vector<Array> arrays;
  for (const ZipMember& member : list_zip(source)) {
    if (!member.name.ends_with(".npy")) continue;
    Array array{.name = valid_utf8(member.name.substr(0, member.name.size() - 4)),
                .member = member};
    try {
      const auto stream = open_zip_member(source, member);
      array.header = read_npy_header(*stream);
    } catch (const base::Error& error) {
      array.why_no_header = error.what();
    }
    arrays.push_back(std::move(array));
  }
  ENSURE(!arrays.empty(), "NPZ: no array in the archive");
  return arrays;
}

const Array& choose(const std::vector<Array>& arrays, const ReadOptions& options) {
  std::string all, candidates;
  const Array* only = nullptr;
  int count = 0;
  for (const Array& array : arrays) {
    all += (all.empty() ? "" : ", ") + array.name;
    if (!options.dataset.empty() ? array.name == options.dataset : array.name == "points")
      return array;
    if (!array.why_no_header.empty() || !why_no_cloud(array.header, options).empty()) continue;
    candidates += base::concat(candidates.empty() ? "" : ", ", array.name, " ",
                               shape_text(array.header.shape));
    only = &array;
    ++count;
  }
  ENSURE(options.dataset.empty(), "NPZ: no array ", quote(options.dataset), "; arrays are ", all);
  if (arrays.size() == 1) return arrays.front();  // its own message says what is wrong with it
  ENSURE(count > 0, "NPZ: no array is N x 3 or more; arrays are ", all);
  ENSURE(count == 1, "NPZ: several arrays may be the cloud: ", candidates,
         "; choose one with --dataset");
  return *only;
}

std::vector<std::string> part_names(const std::string& name) {
  if (name == "normals" || name == "normal") return {"nx", "ny", "nz"};
  if (name == "colors" || name == "colours" || name == "color" || name == "rgb")
    return {"r", "g", "b"};
  return {};
}

// Arrays [N] and [N, k] beside the points.
void add_beside(const Source& source, const Array& array, Cloud& cloud) {
  const auto& shape = array.header.shape;
  const auto stream = open_zip_member(source, array.member);
  const NpyHeader header = read_npy_header(*stream);
  base::Tensor values = read_npy_tensor(header, *stream);
  const std::int64_t columns = shape.size() == 2 ? shape[1] : 1;
  const auto parts = part_names(array.name);
  if (columns != static_cast<std::int64_t>(parts.size())) {
    if (cloud.find(array.name) == nullptr) {
      const base::DType type = values.dtype();
      cloud.add(Field{array.name, type, columns, ""},
                columns == 1 ? values.reshaped({shape[0]}) : values);
    }
    return;
  }
  const std::int64_t element = base::bytes(values.dtype());
  RecordLayout layout{.bytes = element * columns};
  for (std::size_t p = 0; p < parts.size(); ++p) {
    layout.fields.push_back({.name = parts[p],
                             .type = values.dtype(),
                             .offset = element * static_cast<std::int64_t>(p)});
  }
  RecordReader reader(layout, cloud.size());
  reader.append(static_cast<const char*>(values.data()), cloud.size());
  reader.move_into(cloud);
}

Cloud read_npz(const Source& source, const ReadOptions& options) {
  const auto arrays = list_arrays(source);
  const Array& chosen = choose(arrays, options);
  const auto stream = open_zip_member(source, chosen.member);
  const NpyHeader header = read_npy_header(*stream);
  Cloud cloud = read_npy_cloud(header, *stream, options);
  std::string unread;
  for (const Array& array : arrays) {
    if (&array == &chosen) continue;
    const auto& shape = array.header.shape;
    const bool is_beside =
        array.why_no_header.empty() && !array.header.is_structured && !array.header.is_fortran &&
        (shape.size() == 1 || (shape.size() == 2 && shape[1] > 0)) && shape[0] == cloud.size();
    if (is_beside)
      add_beside(source, array, cloud);
    else
      unread += (unread.empty() ? "" : ", ") + array.name;
  }
  if (!unread.empty()) cloud.warnings.push_back("arrays that are not read: " + unread);
  return cloud;
}

std::vector<std::string> write_npz(Sink& sink, const Cloud& cloud, const WriteOptions& options) {
  std::vector<std::string> losses;
  report_lost_extras(cloud, {.organised = true}, losses);
  write_zip(sink, "points.npy", npy_header_text(cloud, losses) + records_text(cloud),
            options.compressed);
  return losses;
}

}  // namespace

const Format kNpzFormat{
    .name = "npz",
    .extensions = {".npz"},
    .recognises = recognise_npz,
    .read = read_npz,
    .write = write_npz,
    .reading = "512 KiB",
    .notes =
        "the array that `--dataset` names, else `points`, else the only candidate; arrays of as "
        "many rows become fields"};

}  // namespace io
