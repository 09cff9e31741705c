#include "sparseconv/voxel_file.hpp"

#include <cmath>

#include "io/hdf5_container.hpp"

namespace sparseconv {
namespace {

constexpr const char* kMark = "sparseconv_voxels";
constexpr double kMaxExact = 9007199254740992.0;  // 2^53: attributes are read as double

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

// A dataset of one of the types and as many dimensions; Error names it and what it is.
io::Hdf5Dataset find_dataset(const io::Hdf5Reader& file, const std::string& path, std::size_t rank,
                             std::initializer_list<base::DType> types) {
  ENSURE(file.has(path) && !file.is_group(path), "voxel file: no dataset ", path);
  io::Hdf5Dataset dataset = file.dataset(path);
  bool is_expected = false;
  std::string expected;
  for (const base::DType type : types) {
    is_expected = is_expected || (dataset.numeric && dataset.type == type);
    expected += (expected.empty() ? "" : " or ") + std::string(base::name(type));
  }
  ENSURE(is_expected, path, ": elements are ", dataset.type_name, ", expected ", expected);
  ENSURE(dataset.shape.size() == rank, path, ": shape ", shape_text(dataset.shape), ", expected ",
         rank, " dimensions");
  return dataset;
}

std::vector<double> numbers(const io::Hdf5Reader& file, const char* attribute, std::size_t count) {
  std::vector<double> values = file.attribute_numbers("/", attribute);
  ENSURE(values.size() == count, "voxel file: attribute ", attribute, " has ", values.size(),
         " values, expected ", count);
  for (const double value : values) {
    ENSURE(std::isfinite(value), "voxel file: attribute ", attribute, " is not finite");
  }
  return values;
}

std::int64_t whole(double value, double low, double high, const char* attribute) {
  ENSURE(value == std::floor(value) && value >= low && value <= high, "voxel file: attribute ",
         attribute, " = ", value, ", expected a whole number in ", low, "..", high);
  return static_cast<std::int64_t>(value);
}

Coordinates::Options read_options(const io::Hdf5Reader& file) {
  ENSURE(file.has_attribute("/", kMark), "no voxel file: attribute ", kMark, " is missing");
  ENSURE(numbers(file, kMark, 1)[0] == 1, "voxel file: version ", numbers(file, kMark, 1)[0],
         " of attribute ", kMark, ", this program reads 1");
  ENSURE(file.has_attribute("/", "batch_size"), "voxel file: attribute batch_size is missing");
  Coordinates::Options options;
  options.batch_size = static_cast<std::int32_t>(
      whole(numbers(file, "batch_size", 1)[0], 0, kBatchMax + 1, "batch_size"));
  if (file.has_attribute("/", "spatial_shape")) {
    const auto values = numbers(file, "spatial_shape", 3);
    options.spatial_shape.emplace();
    for (std::size_t a = 0; a < 3; ++a) {
      (*options.spatial_shape)[a] = whole(values[a], 0, kMaxExact, "spatial_shape");
    }
  }
  return options;
}

CoordinatesPtr read_coordinates(const io::Hdf5Reader& file) {
  const auto options = read_options(file);
  const auto dataset = find_dataset(file, "/coordinates", 2, {base::DType::i32});
  ENSURE(dataset.shape[1] == 4, "/coordinates: shape ", shape_text(dataset.shape),
         ", expected [rows, 4]");
  const auto values = file.read<std::int32_t>("/coordinates");
  ENSURE(options.batch_size > 0 || values.empty(), "voxel file: batch_size 0, but ",
         dataset.shape[0], " rows in /coordinates");
  std::vector<Coord> coords(values.size() / 4);
  for (std::size_t i = 0; i < coords.size(); ++i) {
    coords[i] = {values[4 * i], values[4 * i + 1], values[4 * i + 2], values[4 * i + 3]};
  }
  try {
    return Coordinates::create(std::move(coords), options);
  } catch (const base::Error& error) {
    base::fail("/coordinates: ", error.what());
  }
}

std::array<double, 3> read_triple(const io::Hdf5Reader& file, const char* attribute) {
  if (!file.has_attribute("/", attribute)) return {};
  const auto values = numbers(file, attribute, 3);
  return {values[0], values[1], values[2]};
}

base::Buffer<std::int64_t> read_point_to_voxel(const io::Hdf5Reader& file, std::int64_t rows) {
  if (!file.has("/point_to_voxel")) return {};
  find_dataset(file, "/point_to_voxel", 1, {base::DType::i64});
  const auto values = file.read<std::int64_t>("/point_to_voxel");
  for (std::size_t i = 0; i < values.size(); ++i) {
    ENSURE(values[i] >= -1 && values[i] < rows, "/point_to_voxel: row ", i, " is ", values[i],
           ", expected -1 or a row of ", rows, " voxels");
  }
  return {values.begin(), values.end()};
}

}  // namespace

bool is_voxel_file(const std::filesystem::path& path) {
  if (!io::is_hdf5_file(path)) return false;
  try {
    return io::Hdf5Reader(path).has_attribute("/", kMark);
  } catch (const io::Hdf5Damage&) {
    throw;  // not to be tried again
  } catch (const base::Error&) {
    return false;
  }
}

VoxelFile read_voxel_file(const std::filesystem::path& path) {
  const io::Hdf5Reader file(path);
  VoxelFile voxels;
  voxels.tensor.coordinates = read_coordinates(file);
  const std::int64_t rows = voxels.tensor.coordinates->size();
  const auto features = find_dataset(file, "/features", 2, {base::DType::f32, base::DType::f16});
  ENSURE(features.shape[0] == rows, "/features: ", features.shape[0],
         " rows, but /coordinates has ", rows);
  voxels.tensor.features = file.read_tensor("/features");
  voxels.voxel_size = read_triple(file, "voxel_size");
  voxels.origin = read_triple(file, "origin");
  if (file.has_attribute("/", "feature_names")) {
    voxels.feature_names = file.attribute_texts("/", "feature_names");
    ENSURE(static_cast<std::int64_t>(voxels.feature_names.size()) == features.shape[1],
           "voxel file: attribute feature_names has ", voxels.feature_names.size(),
           " names, /features ", features.shape[1], " columns");
  }
  voxels.point_to_voxel = read_point_to_voxel(file, rows);
  if (file.has("/labels")) {
    const auto labels = find_dataset(file, "/labels", 1, {base::DType::i32});
    ENSURE(labels.shape[0] == rows, "/labels: ", labels.shape[0], " rows, but /coordinates has ",
           rows);
    voxels.labels = file.read<std::int32_t>("/labels");
  }
  return voxels;
}

void write_voxel_file(const std::filesystem::path& path, const VoxelFile& voxels) {
  const SparseTensor& tensor = voxels.tensor;
  tensor.check("voxel file");
  const base::DType type = tensor.features.dtype();
  ENSURE(
      (type == base::DType::f32 || type == base::DType::f16) && tensor.features.device().is_cpu(),
      "voxel file: features are ", base::name(type), " on ",
      base::to_string(tensor.features.device()), ", expected float32 or float16 on the CPU");
  ENSURE(voxels.feature_names.empty() ||
             static_cast<std::int64_t>(voxels.feature_names.size()) == tensor.channels(),
         "voxel file: ", voxels.feature_names.size(), " feature names for ", tensor.channels(),
         " channels");
  ENSURE(voxels.labels.empty() || static_cast<std::int64_t>(voxels.labels.size()) == tensor.rows(),
         "voxel file: ", voxels.labels.size(), " labels for ", tensor.rows(), " voxels");

  io::Hdf5Writer file(path);
  file.set_attribute("/", kMark, std::int64_t{1});
  file.set_attribute("/", "batch_size",
                     static_cast<std::int64_t>(tensor.coordinates->batch_size()));
  if (const auto& shape = tensor.coordinates->spatial_shape()) {
    file.set_attribute("/", "spatial_shape",
                       std::vector<std::int64_t>(shape->begin(), shape->end()));
  }
  if (voxels.voxel_size[0] > 0) {
    file.set_attribute("/", "voxel_size",
                       std::vector<double>(voxels.voxel_size.begin(), voxels.voxel_size.end()));
    file.set_attribute("/", "origin",
                       std::vector<double>(voxels.origin.begin(), voxels.origin.end()));
  }
  if (!voxels.feature_names.empty()) file.set_attribute("/", "feature_names", voxels.feature_names);
  static_assert(sizeof(Coord) == 4 * sizeof(std::int32_t));  // [batch, x, y, z], as in the file
  const auto coords = tensor.coordinates->coords();
  file.write<std::int32_t>(
      "/coordinates", {reinterpret_cast<const std::int32_t*>(coords.data()), 4 * coords.size()},
      {tensor.rows(), 4});
  file.write_tensor("/features", tensor.features);
  // No rows: the map of zero points, which is as empty as none.
  if (!voxels.point_to_voxel.empty() || voxels.tensor.rows() == 0) {
    file.write<std::int64_t>("/point_to_voxel", voxels.point_to_voxel,
                             {static_cast<std::int64_t>(voxels.point_to_voxel.size())});
  }
  if (!voxels.labels.empty()) file.write<std::int32_t>("/labels", voxels.labels, {tensor.rows()});
  file.commit();
}

}  // namespace sparseconv
