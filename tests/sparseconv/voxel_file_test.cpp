#include "sparseconv/voxel_file.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include "io/hdf5_container.hpp"

namespace sparseconv {
namespace {

namespace fs = std::filesystem;

class VoxelFiles : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path path() const { return folder_ / "voxels.h5"; }

  // A file by hand: what a test does not give is right.
  struct Parts {
    std::vector<std::int32_t> coords{0, 1, 1, 1, 1, 2, 2, 2};
    std::int64_t rows = 2, feature_rows = 2, batch_size = 2, version = 1;
    std::vector<std::int64_t> shape, point_to_voxel;
    std::vector<std::string> names;
  };
  void write(const Parts& parts) const {
    io::Hdf5Writer file(path());
    file.set_attribute("/", "sparseconv_voxels", parts.version);
    file.set_attribute("/", "batch_size", parts.batch_size);
    if (!parts.shape.empty()) file.set_attribute("/", "spatial_shape", parts.shape);
    if (!parts.names.empty()) file.set_attribute("/", "feature_names", parts.names);
    file.write<std::int32_t>(
        "/coordinates", parts.coords,
        {parts.rows, static_cast<std::int64_t>(parts.coords.size()) / parts.rows});
    const std::vector<float> features(static_cast<std::size_t>(parts.feature_rows) * 3, 0.5F);
    file.write<float>("/features", features, {parts.feature_rows, 3});
    if (!parts.point_to_voxel.empty()) {
      file.write<std::int64_t>("/point_to_voxel", parts.point_to_voxel,
                               {static_cast<std::int64_t>(parts.point_to_voxel.size())});
    }
    file.commit();
  }
  void expect_error(const Parts& parts, const std::vector<std::string>& words) const {
    write(parts);
    try {
      read_voxel_file(path());
      ADD_FAILURE() << "no error";
    } catch (const base::Error& error) {
      for (const std::string& word : words) {
        EXPECT_NE(std::string(error.what()).find(word), std::string::npos)
            << error.what() << " lacks " << word;
      }
    }
  }

 private:
  fs::path folder_ = fs::temp_directory_path() / ("voxel_file_test_" + std::to_string(getpid()));
};

TEST_F(VoxelFiles, GiveBackWhatWasWrittenInTheSameRowOrder) {
  for (const base::DType type : {base::DType::f32, base::DType::f16}) {
    VoxelFile voxels;
    voxels.tensor.coordinates =
        Coordinates::create({{2, 5, 4, 3}, {0, 0, 7, 0}, {2, 1, 1, 1}},
                            {.batch_size = 4, .spatial_shape = SpatialShape{6, 8, 9}});
    auto features = base::Tensor::empty({3, 2}, base::DType::f32);
    for (int i = 0; i < 6; ++i) features.data<float>()[i] = 0.25F * static_cast<float>(i);
    voxels.tensor.features = features.to(type);
    voxels.voxel_size = {0.1, 0.2, 0.3};
    voxels.origin = {-1, 2.5, 1e6};
    voxels.feature_names = {"x", "intensité"};
    voxels.point_to_voxel = {2, -1, 0, 0, 1};
    voxels.labels = {7, -1, 3};
    write_voxel_file(path(), voxels);
    EXPECT_TRUE(is_voxel_file(path()));
    const VoxelFile back = read_voxel_file(path());
    EXPECT_TRUE(std::equal(
        back.tensor.coordinates->coords().begin(), back.tensor.coordinates->coords().end(),
        voxels.tensor.coordinates->coords().begin(), voxels.tensor.coordinates->coords().end()));
    EXPECT_EQ(back.tensor.coordinates->batch_size(), 4);
    EXPECT_EQ(*back.tensor.coordinates->spatial_shape(), (SpatialShape{6, 8, 9}));
    EXPECT_EQ(back.tensor.features.dtype(), type);
    const base::Tensor values = back.tensor.features.to(base::DType::f32);
    for (int i = 0; i < 6; ++i) EXPECT_EQ(values.data<float>()[i], 0.25F * static_cast<float>(i));
    EXPECT_EQ(back.voxel_size, voxels.voxel_size);
    EXPECT_EQ(back.origin, voxels.origin);
    EXPECT_EQ(back.feature_names, voxels.feature_names);
    EXPECT_EQ(back.point_to_voxel, voxels.point_to_voxel);
    EXPECT_EQ(back.labels, voxels.labels);
  }
}

TEST_F(VoxelFiles, ZeroRowsAreLegal) {
  VoxelFile voxels;
  voxels.tensor.coordinates = Coordinates::create({}, {.batch_size = 2});
  voxels.tensor.features = base::Tensor::empty({0, 4}, base::DType::f32);
  write_voxel_file(path(), voxels);
  const VoxelFile back = read_voxel_file(path());
  EXPECT_EQ(back.tensor.rows(), 0);
  EXPECT_EQ(back.tensor.channels(), 4);
  EXPECT_EQ(back.tensor.coordinates->batch_size(), 2);
  EXPECT_FALSE(back.tensor.coordinates->spatial_shape().has_value());
}

TEST_F(VoxelFiles, OnlyTheMarkAndTheBatchSizeAreNeeded) {
  write({});
  const VoxelFile back = read_voxel_file(path());
  EXPECT_EQ(back.tensor.rows(), 2);
  EXPECT_TRUE(back.feature_names.empty());
  EXPECT_TRUE(back.point_to_voxel.empty());
}

TEST_F(VoxelFiles, RowErrorsNameDatasetRowAndLimit) {
  expect_error({.coords = {0, 1, 1, 1, 0, 1, 1, 1}},
               {"/coordinates", "rows 0 and 1", "[0, 1, 1, 1]"});
  expect_error({.coords = {0, 1, 1, 1, 0, 2, 5, 1}, .shape = {5, 5, 5}},
               {"/coordinates", "row 1", "y = 5", "0..4"});
  expect_error({.coords = {0, 1, 1, 1, 0, 2, -1, 1}, .shape = {5, 5, 5}}, {"row 1", "y = -1"});
  expect_error({.coords = {0, 1, 1, 1, 2, 2, 2, 1}}, {"row 1", "batch 2", "0..1"});
  expect_error({.coords = {0, 1, 1, 1, 0, 2, 2, 131072}}, {"row 1", "z = 131072"});
  expect_error({.point_to_voxel = {0, 1, 2}}, {"/point_to_voxel", "row 2 is 2", "2 voxels"});
  expect_error({.point_to_voxel = {-2}}, {"/point_to_voxel", "row 0 is -2"});
}

TEST_F(VoxelFiles, ShapesThatDisagreeAreErrors) {
  expect_error({.feature_rows = 3}, {"/features", "3 rows", "/coordinates has 2"});
  expect_error({.coords = {0, 1, 1, 0, 2, 2}}, {"/coordinates", "[2, 3]"});
  expect_error({.names = {"x", "y"}}, {"feature_names has 2", "3 columns"});
  expect_error({.shape = {5, 5}}, {"spatial_shape", "2 values"});
  expect_error({.shape = {5, 5, -1}}, {"spatial_shape", "-1"});
  expect_error({.version = 2}, {"version 2"});
  expect_error({.batch_size = 0}, {"batch_size 0"});
}

TEST_F(VoxelFiles, OtherFilesAreNotVoxelFiles) {
  EXPECT_FALSE(is_voxel_file(path()));
  {
    io::Hdf5Writer file(path());
    file.set_attribute("/", "sparseconv_model", std::int64_t{1});
    file.commit();
  }
  EXPECT_FALSE(is_voxel_file(path()));
  EXPECT_THROW(read_voxel_file(path()), base::Error);
}

}  // namespace
}  // namespace sparseconv
