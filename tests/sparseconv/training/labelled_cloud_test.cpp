#include "sparseconv/training/labelled_cloud.hpp"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "sparseconv/training/random.hpp"

namespace sparseconv::training {
namespace {

using Labels = std::vector<std::int32_t>;

LabelledCloud scan_of(const std::vector<std::array<float, 3>>& points, const Labels& labels) {
  std::vector<float> x, y, z;
  for (const auto& p : points) {
    x.push_back(p[0]);
    y.push_back(p[1]);
    z.push_back(p[2]);
  }
  LabelledCloud scan{.cloud = io::Cloud(static_cast<std::int64_t>(points.size())),
                     .labels = labels};
  scan.cloud.add<float>("x", x);
  scan.cloud.add<float>("y", y);
  scan.cloud.add<float>("z", z);
  return scan;
}

LabelledCloud random_scan(std::uint64_t seed, int points) {
  RandomStream random(seed);
  std::vector<std::array<float, 3>> at;
  Labels labels;
  for (int i = 0; i < points; ++i) {
    std::array<float, 3> p{};
    for (float& v : p) v = static_cast<float>(random.uniform(-3, 3));
    at.push_back(p);
    labels.push_back(static_cast<std::int32_t>(random.integer(4)) - 1);
  }
  return scan_of(at, labels);
}

const ModelInput kInput{.features = {"x", "one"}, .voxel_size = {1, 1, 1}};

TEST(MajorityLabels, MostFrequentWinsTiesGoToTheLowestAndLostPointsDoNotVote) {
  const Labels labels{2, 2, 1, 3, 1, 0, -1, -1, 2, 0};
  const std::vector<std::int64_t> voxel{0, 0, 0, 1, 1, -1, 2, 2, 2, -1};
  EXPECT_EQ(majority_labels(labels, voxel, 4), (Labels{2, 1, kIgnore, kIgnore}));
}

TEST(MajorityLabels, AgreesWithCountingInAMap) {
  RandomStream random(5);
  Labels labels;
  std::vector<std::int64_t> voxel;
  std::map<std::int64_t, std::map<std::int32_t, int>> votes;
  for (int i = 0; i < 5000; ++i) {
    labels.push_back(static_cast<std::int32_t>(random.integer(6)) - 1);
    voxel.push_back(random.integer(701) - 1);
    if (voxel.back() >= 0) ++votes[voxel.back()][labels.back()];
  }
  const Labels majority = majority_labels(labels, voxel, 700);
  for (const auto& [v, counts] : votes) {
    auto best = counts.begin();
    for (auto it = counts.begin(); it != counts.end(); ++it)
      if (it->second > best->second) best = it;
    EXPECT_EQ(majority[static_cast<std::size_t>(v)], best->first) << v;
  }
}

TEST(MakeBatch, JoinsUnequalScansAsIfEachWereAlone) {
  const std::vector<LabelledCloud> scans = {random_scan(1, 400), scan_of({}, {}),
                                            random_scan(2, 90)};
  const Batch all = make_batch(scans, kInput);
  EXPECT_EQ(all.voxels.coordinates->batch_size(), 3);
  EXPECT_TRUE(all.voxels.coordinates->is_sorted());
  std::int64_t row = 0;
  for (std::size_t s = 0; s < scans.size(); ++s) {
    const Batch alone = make_batch(scans[s], kInput);
    for (std::int64_t i = 0; i < alone.voxels.rows(); ++i, ++row) {
      Coord expected = alone.voxels.coordinates->coords()[static_cast<std::size_t>(i)];
      expected.batch = static_cast<std::int32_t>(s);
      EXPECT_EQ(all.voxels.coordinates->coords()[static_cast<std::size_t>(row)], expected);
      EXPECT_EQ(all.labels[static_cast<std::size_t>(row)],
                alone.labels[static_cast<std::size_t>(i)]);
      for (std::int64_t c = 0; c < 2; ++c) {
        EXPECT_EQ(all.voxels.features.data<float>()[row * 2 + c],
                  alone.voxels.features.data<float>()[i * 2 + c]);
      }
    }
  }
  EXPECT_EQ(row, all.voxels.rows());
  EXPECT_EQ(static_cast<std::int64_t>(all.labels.size()), row);
}

TEST(MakeBatch, VoxelFilesInAnyRowOrderCanBeJoined) {
  Batch unsorted;
  unsorted.voxels.coordinates =
      Coordinates::create({{0, 5, 0, 0}, {0, 1, 2, 3}}, {.batch_size = 1});
  unsorted.voxels.features = base::Tensor::zeros({2, 1}, base::DType::f32);
  unsorted.labels = {1, 0};
  const Batch all = joined(std::vector<Batch>{unsorted, unsorted});
  ASSERT_EQ(all.voxels.rows(), 4);
  EXPECT_EQ(all.voxels.coordinates->coords()[2], (Coord{1, 5, 0, 0}));
  EXPECT_EQ(all.labels, (Labels{1, 0, 1, 0}));
}

TEST(MakeBatch, RefusesUnequalLengthsAndChannels) {
  LabelledCloud scan = random_scan(1, 10);
  scan.labels.pop_back();
  EXPECT_THROW(make_batch(scan, kInput), base::Error);
  const Batch two = make_batch(random_scan(1, 10), kInput);
  const Batch one = make_batch(random_scan(1, 10), {.features = {"one"}, .voxel_size = {1, 1, 1}});
  EXPECT_THROW(joined(std::vector<Batch>{two, one}), base::Error);
}

}  // namespace
}  // namespace sparseconv::training
