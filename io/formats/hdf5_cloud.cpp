// Clouds in HDF5: a group with one dataset a field, an array [N, k], or a batch of clouds [B, N,
// k].
#include <algorithm>

#include "io/field_names.hpp"
#include "io/fit_columns.hpp"
#include "io/format.hpp"
#include "io/formats/npy_header.hpp"
#include "io/hdf5_container.hpp"
#include "io/number_text.hpp"
#include "io/records.hpp"

namespace io {
namespace {

constexpr std::int64_t kMaxColumns = 16;  // of an array that may be stored either way round

std::string parent_of(const std::string& path) { return path.substr(0, path.find_last_of('/')); }
std::string leaf_of(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

std::string described(const Hdf5Dataset& dataset) {
  return base::concat(dataset.path.substr(1), " ", shape_text(dataset.shape),
                      dataset.numeric ? "" : " of " + dataset.type_name);
}

bool is_array(const Hdf5Dataset& dataset) {
  const auto rank = dataset.shape.size();
  return dataset.numeric && (rank == 2 || rank == 3) && dataset.shape.back() >= 3 &&
         dataset.shape.back() <= kMaxColumns;
}

bool is_transposed(const Hdf5Dataset& dataset) {
  const auto& shape = dataset.shape;
  return dataset.numeric && shape.size() == 2 && shape[0] >= 3 && shape[0] <= kMaxColumns &&
         shape[1] > kMaxColumns;
}

// What may be the cloud: an array, or a group whose fields are datasets.
struct Candidate {
  std::string name;                   // of the array or group
  std::vector<Hdf5Dataset> datasets;  // one for arrays
  bool is_group = false;
};

std::vector<Candidate> find_candidates(const std::vector<Hdf5Dataset>& datasets) {
  std::vector<Candidate> candidates;
  for (const Hdf5Dataset& dataset : datasets) {
    if (is_array(dataset) || is_transposed(dataset))
      candidates.push_back({dataset.path.substr(1), {dataset}});
    const bool is_x =
        dataset.shape.size() == 1 && canonical_names({leaf_of(dataset.path)})[0] == "x";
    if (!is_x) continue;
    Candidate group{parent_of(dataset.path), {}, true};
    std::vector<std::string> names;
    for (const Hdf5Dataset& other : datasets) {
      const bool fits = other.numeric && !other.shape.empty() && other.shape.size() <= 2 &&
                        other.shape[0] == dataset.shape[0] && parent_of(other.path) == group.name;
      if (!fits) continue;
      group.datasets.push_back(other);
      names.push_back(leaf_of(other.path));
    }
    names = canonical_names(names);
    const auto has = [&](const char* name) {
      return std::find(names.begin(), names.end(), name) != names.end();
    };
    const bool is_known = std::any_of(
        candidates.begin(), candidates.end(),
        [&](const Candidate& one) { return one.is_group && one.name == group.name; });  // x and X
    if (has("y") && has("z") && !is_known) candidates.push_back(std::move(group));
  }
  // A field of several elements in a group that is a cloud is no cloud of its own.
  std::vector<Candidate> chosen;
  for (const Candidate& one : candidates) {
    const Hdf5Dataset& array = one.datasets.front();
    const bool may_be_field =
        !one.is_group && array.shape.size() == 2 && leaf_of(array.path) != "points";
    const bool is_field =
        may_be_field && std::any_of(candidates.begin(), candidates.end(), [&](const auto& other) {
          return other.is_group && other.name == parent_of(array.path) &&
                 other.datasets.front().shape[0] == array.shape[0];
        });
    if (!is_field) chosen.push_back(one);
  }
  return chosen;
}

std::string list_of(const std::vector<Hdf5Dataset>& datasets) {
  std::string list;
  for (std::size_t i = 0; i < datasets.size() && i < 40; ++i)
    list += (i ? ", " : "") + described(datasets[i]);
  return list.empty() ? "none" : list + (datasets.size() > 40 ? ", ..." : "");
}

Candidate choose_named(const Hdf5Reader& file, const std::vector<Hdf5Dataset>& datasets,
                       const std::vector<Candidate>& candidates, const std::string& name) {
  const std::string path = name.starts_with('/') ? name : "/" + name;
  for (const Candidate& candidate : candidates) {
    if ("/" + candidate.name == path ||
        (candidate.is_group && candidate.name == (path == "/" ? "" : path)))
      return candidate;
  }
  ENSURE(file.has(path), "HDF5: there is no ", path, "; datasets are ", list_of(datasets));
  ENSURE(!file.is_group(path), "HDF5: group ", path,
         " has no x, y and z of one length; datasets are ", list_of(datasets));
  return {path.substr(1), {file.dataset(path)}};
}

Candidate choose(const Hdf5Reader& file, const ReadOptions& options) {
  ENSURE(!file.has_attribute("/", "sparseconv_voxels"),
         "HDF5: a voxel file, not a cloud (attribute sparseconv_voxels)");
  ENSURE(!file.has_attribute("/", "sparseconv_model"),
         "HDF5: a model, not a cloud (attribute sparseconv_model)");
  const auto datasets = file.datasets();
  const auto candidates = find_candidates(datasets);
  if (!options.dataset.empty()) return choose_named(file, datasets, candidates, options.dataset);
  std::vector<Candidate> named;
  for (const Candidate& candidate : candidates) {
    if (leaf_of("/" + candidate.name) == "points") named.push_back(candidate);
  }
  if (named.size() == 1) return named.front();
  if (candidates.empty()) {
    const auto points = std::find_if(datasets.begin(), datasets.end(),
                                     [](const auto& d) { return leaf_of(d.path) == "points"; });
    if (points != datasets.end())
      return {points->path.substr(1), {*points}};  // whose shape the message explains
  }
  ENSURE(!candidates.empty(),
         "HDF5: no array [N, 3 or more] and no group with x, y and z; datasets are ",
         list_of(datasets));
  std::string list;
  for (const Candidate& candidate : candidates) {
    list += (list.empty() ? "" : ", ") +
            (candidate.is_group ? "group " + (candidate.name.empty() ? "/" : candidate.name)
                                : described(candidate.datasets[0]));
  }
  ENSURE(candidates.size() == 1, "HDF5: several candidates: ", list, "; choose one with --dataset");
  return candidates.front();
}

void add_column(Cloud& cloud, const std::string& name, base::Tensor values) {
  if (values.dtype() == base::DType::f16) values = values.to(base::DType::f32);
  const std::int64_t count = values.shape().rank() == 2 ? values.size(1) : 1;
  if (count == 0 || name.empty() || name == "_") return;
  if (count == 1) values = values.reshaped({values.numel()});
  const base::DType type = values.dtype();
  cloud.add(Field{name, type, count, ""}, std::move(values));
}

Cloud read_group(const Hdf5Reader& file, Candidate group) {
  const std::string root = group.name.empty() ? "/" : group.name;
  if (file.has_attribute(root, "fields")) {  // the order in which they were written
    const auto order = file.attribute_texts(root, "fields");
    const auto place = [&](const Hdf5Dataset& d) {
      return std::find(order.begin(), order.end(), leaf_of(d.path)) - order.begin();
    };
    std::stable_sort(group.datasets.begin(), group.datasets.end(),
                     [&](const auto& a, const auto& b) { return place(a) < place(b); });
  } else {  // HDF5 lists by name: coordinates go first
    std::stable_partition(group.datasets.begin(), group.datasets.end(), [](const Hdf5Dataset& d) {
      const std::string name = canonical_names({leaf_of(d.path)})[0];
      return name == "x" || name == "y" || name == "z";
    });
  }
  std::vector<std::string> names;
  for (const Hdf5Dataset& dataset : group.datasets) names.push_back(leaf_of(dataset.path));
  names = canonical_names(names);
  Cloud cloud(group.datasets.front().shape[0]);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const bool is_axis = names[i] == "x" || names[i] == "y" || names[i] == "z";
    ENSURE(!is_axis || group.datasets[i].shape.size() == 1, "HDF5: ", described(group.datasets[i]),
           ": one value a point is needed");
    add_column(cloud, names[i], file.read_tensor(group.datasets[i].path));
  }
  return cloud;
}

// Rows [begin, begin + count) of a matrix at a time, so that the array is never held beside the
// columns.
void read_rows(const Hdf5Reader& file, const Hdf5Dataset& array,
               const std::vector<std::string>& names, Cloud& cloud) {
  RecordLayout layout;
  for (const std::string& name : names)
    layout.fields.push_back(
        {.name = name, .type = array.type, .is_skipped = name.empty() || name == "_"});
  pack_offsets(layout);
  const std::int64_t rows_a_slab = array.shape.size() == 3 ? array.shape[1] : 1;
  RecordReader reader(layout, cloud.size());
  file.read_slabs(array.path, [&](const void* values, std::int64_t slabs) {
    reader.append(static_cast<const char*>(values), slabs * rows_a_slab);
  });
  reader.move_into(cloud);
}

void read_transposed(const Hdf5Reader& file, const Hdf5Dataset& array,
                     const std::vector<std::string>& names, Cloud& cloud) {
  const std::int64_t points = array.shape[1], bytes = points * base::bytes(array.type);
  std::vector<base::Tensor> columns;
  file.read_slabs(array.path, [&](const void* values, std::int64_t slabs) {
    for (std::int64_t i = 0; i < slabs; ++i) {
      columns.push_back(base::Tensor::empty({points}, array.type));
      std::copy_n(static_cast<const char*>(values) + i * bytes, bytes,
                  static_cast<char*>(columns.back().data()));
    }
  });
  for (std::size_t c = 0; c < names.size() && c < columns.size(); ++c)
    add_column(cloud, names[c], std::move(columns[c]));
}

// Datasets of as many rows in the same group: intensity (N), label (N).
void add_beside(const Hdf5Reader& file, const Hdf5Dataset& array, Cloud& cloud) {
  for (const Hdf5Dataset& other : file.datasets()) {
    if (other.path == array.path || parent_of(other.path) != parent_of(array.path) ||
        !other.numeric)
      continue;
    if (other.shape.size() != 1 || other.shape[0] != cloud.size() || cloud.size() == 0) continue;
    const std::string name = canonical_names({leaf_of(other.path)})[0];
    if (cloud.find(name) == nullptr) add_column(cloud, name, file.read_tensor(other.path));
  }
}

Cloud read_array(const Hdf5Reader& file, const Hdf5Dataset& array, const ReadOptions& options) {
  const auto& shape = array.shape;
  ENSURE(array.numeric, "HDF5: ", described(array), ": numbers are expected");
  const bool takes_transposed = options.transpose && shape.size() == 2;
  ENSURE(takes_transposed || !is_transposed(array), "HDF5: ", described(array),
         ": columns and points seem exchanged; --transpose takes it so");
  ENSURE(takes_transposed ? shape[0] >= 3 : is_array(array), "HDF5: ", described(array),
         ": rank 2 or 3 with 3 to ", kMaxColumns, " columns is expected");
  const std::int64_t columns = takes_transposed ? shape[0] : shape.back();
  std::int64_t points = takes_transposed ? shape[1] : shape[0];
  if (shape.size() == 3) {
    ENSURE(shape[1] == 0 || shape[0] <= (std::int64_t{1} << 56) / shape[1],
           "HDF5: ", described(array), " has too many points");
    points = shape[0] * shape[1];
  }
  ENSURE(options.columns.empty() || static_cast<std::int64_t>(options.columns.size()) == columns,
         options.columns.size(), " names are given, ", described(array), " has ", columns,
         " columns");
  const auto names = options.columns.empty() ? default_names(columns) : options.columns;
  require_coordinates(names);
  file.check_size(array.path);
  Cloud cloud(points);
  if (takes_transposed)
    read_transposed(file, array, names, cloud);
  else
    read_rows(file, array, names, cloud);
  Cloud widened(points);
  while (!cloud.columns().empty()) {  // let go of each before the next one is widened
    const auto column = cloud.columns().front();
    cloud.remove(column->field.name);
    add_column(widened, column->field.name, column->values);
  }
  add_beside(file, array, widened);
  widened.clouds = shape.size() == 3 ? shape[0] : 1;
  return widened;
}

void read_extras(const Hdf5Reader& file, Cloud& cloud) {
  if (!file.has_attribute("/", "sparseconv_cloud")) return;
  const auto numbers = [&](const char* name) {
    return file.has_attribute("/", name) ? file.attribute_numbers("/", name)
                                         : std::vector<double>{};
  };
  const auto texts = [&](const char* name) {
    return file.has_attribute("/", name) ? file.attribute_texts("/", name)
                                         : std::vector<std::string>{};
  };
  if (const auto size = numbers("grid");
      size.size() == 2 && size[0] * size[1] == static_cast<double>(cloud.size())) {
    cloud.width = static_cast<std::int64_t>(size[0]);
    cloud.height = static_cast<std::int64_t>(size[1]);
  }
  if (const auto v = numbers("viewpoint"); v.size() == 7)
    cloud.viewpoint = {v[0], v[1], v[2], v[3], v[4], v[5], v[6]};
  if (const auto v = numbers("scale"); v.size() == 3) cloud.scale = {v[0], v[1], v[2]};
  if (const auto v = numbers("offset"); v.size() == 3) cloud.offset = {v[0], v[1], v[2]};
  if (const auto crs = texts("crs"); crs.size() == 1) cloud.crs = valid_utf8(crs[0]);
  const auto keys = texts("metadata_names"), values = texts("metadata_values");
  for (std::size_t i = 0; i < std::min(keys.size(), values.size()); ++i)
    cloud.metadata[valid_utf8(keys[i])] = valid_utf8(values[i]);
  const auto fields = texts("fields"), units = texts("units");
  for (std::size_t i = 0; i < std::min(fields.size(), units.size()); ++i) {
    const Column* column = cloud.find(fields[i]);
    if (column == nullptr || units[i].empty()) continue;
    Field field = column->field;
    field.unit = valid_utf8(units[i]);
    cloud.add(field, column->values);
  }
}

Cloud read_hdf5(const Source& source, const ReadOptions& options) {
  const Hdf5Reader file(source.path());
  const Candidate chosen = choose(file, options);
  Cloud cloud = chosen.is_group ? read_group(file, chosen)
                                : read_array(file, chosen.datasets.front(), options);
  read_extras(file, cloud);
  return cloud;
}

// As one link: no path, neither "." nor "..".
std::string hdf5_name(const std::string& name) {
  std::string link = name;
  std::replace(link.begin(), link.end(), '/', '_');
  if (link == "_") return "__";  // which would be padding
  if (link.find_first_not_of('.') == std::string::npos) link = "_" + link;
  return link;
}

std::vector<std::string> write_hdf5(const std::filesystem::path& path, const Cloud& cloud,
                                    const WriteOptions& options) {
  Hdf5Writer file(path);
  file.set_compression(options.compressed ? 4 : 0);
  std::vector<std::string> losses, units, keys, values;
  const auto names = written_names(names_of(cloud), hdf5_name, losses);
  for (std::size_t i = 0; i < names.size(); ++i) {
    file.write_tensor("/" + names[i], cloud.columns()[i]->values);
    units.push_back(cloud.columns()[i]->field.unit);
  }
  file.set_attribute("/", "sparseconv_cloud", std::int64_t{1});
  file.set_attribute("/", "fields", names);
  file.set_attribute("/", "units", units);
  if (cloud.height > 1)
    file.set_attribute("/", "grid", std::vector<std::int64_t>{cloud.width, cloud.height});
  if (cloud.viewpoint)
    file.set_attribute("/", "viewpoint",
                       std::vector<double>(cloud.viewpoint->begin(), cloud.viewpoint->end()));
  if (cloud.scale)
    file.set_attribute("/", "scale", std::vector<double>(cloud.scale->begin(), cloud.scale->end()));
  if (cloud.offset)
    file.set_attribute("/", "offset",
                       std::vector<double>(cloud.offset->begin(), cloud.offset->end()));
  if (!cloud.crs.empty()) file.set_attribute("/", "crs", cloud.crs);
  for (const auto& [key, value] : cloud.metadata) {
    keys.push_back(key);
    values.push_back(value);
  }
  if (!keys.empty()) {
    file.set_attribute("/", "metadata_names", keys);
    file.set_attribute("/", "metadata_values", values);
  }
  file.commit();
  return losses;
}

}  // namespace

const Format kHdf5Format{.name = "hdf5",
                         .extensions = {".h5", ".hdf5", ".hdf"},
                         .recognises = has_hdf5_signature,
                         .read = read_hdf5,
                         .write_file = write_hdf5,
                         .reading = "1 MiB or a row of chunks",
                         .is_built_in = kHasHdf5,
                         .notes =
                             "one dataset a field under a group, [N, 3..16] or batches [B, N, "
                             "3..16]; `--dataset` chooses, "
                             "`--transpose` takes [k, N]; written as one dataset a field"};

}  // namespace io
