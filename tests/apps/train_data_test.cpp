// The data side of training below the command line: class maps, labelled folders, samples, curves.
#include <gtest/gtest.h>

#include <fstream>

#include "apps/batch/pipeline.hpp"
#include "apps/train/class_map.hpp"
#include "apps/train/curves.hpp"
#include "apps/train/labelled_files.hpp"
#include "apps/train/sample_source.hpp"
#include "apps/train/train_log.hpp"
#include "io/io.h"
#include "tests/support/error_message.hpp"
#include "tests/support/scratch_folder.hpp"

namespace apps {
namespace {

using sparseconv::training::Batch;
using test_support::message_of;
using test_support::ScratchFolder;

void write_text(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

void write_scan(const std::filesystem::path& scan, const std::filesystem::path& labels, int points,
                std::uint32_t label) {
  std::string bytes, words;
  for (int i = 0; i < points; ++i) {
    const float row[] = {static_cast<float>(i), static_cast<float>(label), 0.25f, 0.5f};
    bytes.append(reinterpret_cast<const char*>(row), sizeof row);
    words.append(reinterpret_cast<const char*>(&label), 4);
  }
  write_text(scan, bytes);
  write_text(labels, words);
}

ClassMap two_classes() { return {{{5, "a", {5, 6}}, {7, "b", {7}}}, {0}}; }

TEST(ClassMap, MapsNumbersToPositionsIgnoresAndRefuses) {
  const ClassMap map = two_classes();
  EXPECT_EQ(map.index_of(6), 0);
  EXPECT_EQ(map.index_of(7), 1);
  EXPECT_EQ(map.index_of(0), ClassMap::kIgnored);
  EXPECT_FALSE(map.index_of(1));
  EXPECT_EQ(map.indices(std::vector<std::int32_t>{7, 7, 5, 0, 6}),
            (std::vector<std::int32_t>{1, 1, 0, -1, 0}));
  EXPECT_EQ(message_of([&] {
              map.indices(std::vector<std::int32_t>{5, 9, 5, 9, 9});
            }),
            "label 9 (of point 1 and 2 others) is not in the class map");
}

TEST(ClassMap, FilesSayWhatIsWrongWithThem) {
  const ScratchFolder folder;
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"[]", "is no JSON object"},
      {"{}", "classes"},
      {R"({"classes": []})", "0 classes"},
      {R"({"classes": [{"id": 1}, {"id": 1, "from": [2]}]})", "id 1 stands twice"},
      {R"({"classes": [{"id": 1}], "ignore": [1]})", "label 1 stands in two lists"},
      {R"({"classes": [{"id": "one"}]})", "id"},
      {R"({"classes": [{"id": 1, "from": 3}]})", "from"},
      {R"({"classes": [{"id": 1}], "ignored": [0]})", "ignored"}};
  for (const auto& [text, part] : cases) {
    write_text(folder / "map.json", text);
    const std::string message = message_of([&] { ClassMap::read(folder / "map.json"); });
    EXPECT_NE(message.find("map.json: "), std::string::npos) << message;
    EXPECT_NE(message.find(part), std::string::npos) << part << " in " << message;
  }
}

TEST(LabelledFiles, FindsBothLayoutsAndCountsScansWithoutLabels) {
  const ScratchFolder folder;
  write_scan(folder / "00/velodyne/0.bin", folder / "00/labels/0.label", 3, 5);
  write_scan(folder / "a.bin", folder / "a.label", 3, 5);
  write_text(folder / "b.bin", "");
  const LabelledFiles found = find_labelled(folder.path());
  ASSERT_EQ(found.files.size(), 2u);
  EXPECT_EQ(found.files[0].labels, folder / "00/labels/0.label");
  EXPECT_EQ(found.unlabelled, 1);
  EXPECT_EQ(read_labelled(found.files[1]).cloud->size(), 3);
}

// As `run -o labels/ --format label` leaves them: the scans' own labels count.
TEST(LabelledFiles, WhatANetworkSaidBesideAFolderOfScansIsNoTruth) {
  const ScratchFolder folder;
  write_scan(folder / "scans/a.bin", folder / "scans/a.label", 3, 5);
  write_text(folder / "scans/b.bin", "");
  io::Cloud cloud(2);
  const std::vector<float> two{1, 2};
  for (const char* name : {"x", "y", "z", "label"}) cloud.add<float>(name, two);
  io::write(folder / "scans/c.ply", cloud);
  for (const char* name : {"a", "b", "c"})
    write_text(folder / (std::string("labels/") + name + ".label"), "12345678");
  const LabelledFiles found = find_labelled(folder / "scans");
  ASSERT_EQ(found.files.size(), 2u);
  EXPECT_EQ(found.files[0].labels, folder / "scans/a.label");
  EXPECT_EQ(found.files[1].labels, "");
  EXPECT_EQ(read_labelled(found.files[1]).cloud->size(), 2);
  EXPECT_EQ(found.unlabelled, 1);
}

SampleOptions plain_samples() {
  SampleOptions options{.input = {.features = {"y", "one"}, .voxel_size = {1, 1, 1}}};
  options.is_augmented = false;
  return options;
}

TEST(FileSource, GivesVoxelsWithClassIndices) {
  const ScratchFolder folder;
  write_scan(folder / "a.bin", folder / "a.label", 4, 7);
  const auto source =
      make_file_source(find_labelled(folder.path()).files, two_classes(), plain_samples());
  ASSERT_EQ(source->size(), 1);
  const Batch batch = source->sample(0, 0);
  EXPECT_EQ(batch.labels, (std::vector<std::int32_t>{1, 1, 1, 1}));
  EXPECT_EQ(batch.voxels.features.data<float>()[0], 7.0f);
}

TEST(FileSource, EveryFileOccursOnceAnEpochInAnOrderOfItsOwn) {
  const ScratchFolder folder;
  for (int i = 0; i < 12; ++i) {
    const std::string stem = std::string("f") + static_cast<char>('a' + i);
    write_scan(folder / (stem + ".bin"), folder / (stem + ".label"), i + 1, 5);
  }
  SampleOptions options = plain_samples();
  options.is_augmented = true;  // with no change asked for: the order alone
  const auto source = make_file_source(find_labelled(folder.path()).files, two_classes(), options);
  std::vector<std::vector<std::int64_t>> orders;
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    auto& order = orders.emplace_back();
    for (std::int64_t i = 0; i < 12; ++i) order.push_back(source->sample(epoch, i).voxels.rows());
  }
  EXPECT_NE(orders[0], orders[1]);
  for (auto& order : orders) {
    std::sort(order.begin(), order.end());
    for (std::int64_t i = 0; i < 12; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i + 1);
  }
}

TEST(FileSource, ErrorsBeginWithTheFile) {
  const ScratchFolder folder;
  write_scan(folder / "a.bin", folder / "a.label", 4, 8);
  const auto source =
      make_file_source(find_labelled(folder.path()).files, two_classes(), plain_samples());
  const std::string message = message_of([&] { source->sample(0, 0); });
  EXPECT_TRUE(message.starts_with((folder / "a.bin").string() + ": label 8")) << message;
}

bool are_equal(const Batch& a, const Batch& b) {
  if (a.labels != b.labels || a.voxels.rows() != b.voxels.rows()) return false;
  const auto keys_a = a.voxels.coordinates->keys(), keys_b = b.voxels.coordinates->keys();
  const float *fa = a.voxels.features.data<float>(), *fb = b.voxels.features.data<float>();
  return std::equal(keys_a.begin(), keys_a.end(), keys_b.begin()) &&
         std::equal(fa, fa + a.voxels.features.numel(), fb);
}

// What training sees must not depend on how many threads make it, or how fast.
TEST(SimulatorSource, SamplesDoNotDependOnThreadsOrOrder) {
  SampleOptions options = plain_samples();
  options.is_augmented = true;
  options.augment = sparseconv::training::AugmentOptions::street();
  const auto source = make_simulator_source(3, 1, simulator_classes(), options);
  std::vector<Batch> one_by_one;
  for (std::int64_t i = 2; i >= 0; --i) one_by_one.insert(one_by_one.begin(), source->sample(1, i));
  OrderedLoader<Batch> loader(
      3, 3, [&](std::size_t i) { return source->sample(1, static_cast<std::int64_t>(i)); });
  for (std::size_t i = 0; i < 3; ++i) {
    const auto loaded = loader.next();
    ASSERT_TRUE(loaded && loaded->value) << loaded->error;
    EXPECT_TRUE(are_equal(*loaded->value, one_by_one[i])) << i;
  }
  EXPECT_FALSE(are_equal(source->sample(2, 0), one_by_one[0]));
  EXPECT_FALSE(are_equal(one_by_one[0], one_by_one[1]));
}

TEST(SimulatorSource, UnaugmentedStreetsAreTheSameInEveryEpoch) {
  const auto source = make_simulator_source(2, 1, simulator_classes(), plain_samples());
  EXPECT_TRUE(are_equal(source->sample(0, 1), source->sample(5, 1)));
}

// Positions change their streets in turn; which street a sample has does not depend on what was
// asked for before.
TEST(SimulatorSource, AStreetIsUsedInSeveralEpochs) {
  SampleOptions options = plain_samples();
  options.is_augmented = true;  // by nothing
  const auto once = make_simulator_source(2, 1, simulator_classes(), options);
  const auto twice = make_simulator_source(2, 2, simulator_classes(), options);
  const Batch first = once->sample(0, 0), second = once->sample(1, 0), other = once->sample(1, 1);
  EXPECT_TRUE(are_equal(twice->sample(2, 0), second));
  EXPECT_TRUE(are_equal(twice->sample(0, 0), first));
  EXPECT_TRUE(are_equal(twice->sample(1, 0), first));
  EXPECT_TRUE(are_equal(twice->sample(3, 0), second));
  EXPECT_TRUE(are_equal(twice->sample(1, 1), other));
  EXPECT_TRUE(are_equal(twice->sample(2, 1), other));
  options.augment.rotation = 180;
  const auto turned = make_simulator_source(2, 2, simulator_classes(), options);
  EXPECT_FALSE(are_equal(turned->sample(0, 0), turned->sample(1, 0)));
}

TEST(TrainLog, KeepsEpochsBeforeTheOneResumedFromAndDrawsThem) {
  const ScratchFolder folder;
  const auto entry = [](int epoch, double loss) {
    return Json{{"epoch", epoch}, {"loss", loss}, {"miou", 0.5}, {"accuracy", 0.7}};
  };
  {
    TrainLog log(folder / "m.h5", 0);
    for (int epoch = 1; epoch <= 3; ++epoch) log.add(entry(epoch, 1.0 / epoch));
  }
  TrainLog log(folder / "m.h5", 2);
  log.add(entry(3, 0.25));
  std::ifstream file(folder / "m.log.jsonl");
  std::vector<double> losses;
  for (std::string line; std::getline(file, line);) losses.push_back(Json::parse(line)["loss"]);
  EXPECT_EQ(losses, (std::vector<double>{1, 0.5, 0.25}));
  EXPECT_TRUE(std::filesystem::exists(folder / "m.curves.png"));
}

TEST(Curves, AreDrawnWhereTheyLie) {
  const render::Rgb red{255, 0, 0};
  const render::Image picture =
      render::draw_curves({{"share", {{"half", red, {0.5, 0.5, NAN, 0.5}}}, true}});
  int highest = picture.height(), lowest = -1;
  for (int y = 60; y < picture.height(); ++y) {
    for (int x = 0; x < picture.width(); ++x) {
      if (!(picture.at(x, y) == red)) continue;
      highest = std::min(highest, y);
      lowest = std::max(lowest, y);
    }
  }
  EXPECT_LE(lowest - highest, 6);               // a level line
  EXPECT_NEAR((lowest + highest) / 2, 204, 4);  // half way up the axis
}

}  // namespace
}  // namespace apps
