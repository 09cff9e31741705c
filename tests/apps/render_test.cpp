// Pictures of small clouds whose pixels are known.
#include <gtest/gtest.h>
#include <png.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "apps/render/draw.hpp"
#include "apps/render/layout_picture.hpp"
#include "gemm_core/base/error.hpp"
#include "gemm_core/layout/parse.hpp"

namespace render {
namespace {

io::Cloud cloud_of(const std::vector<std::array<float, 3>>& points) {
  io::Cloud cloud(static_cast<std::int64_t>(points.size()));
  const char* names[] = {"x", "y", "z"};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    std::vector<float> values;
    for (const auto& point : points) values.push_back(point[axis]);
    cloud.add<float>(names[axis], values);
  }
  return cloud;
}

int count(const Image& image, Rgb colour) {
  int n = 0;
  for (int y = 0; y < image.height(); ++y) {
    for (int x = 0; x < image.width(); ++x) n += image.at(x, y) == colour;
  }
  return n;
}

std::set<std::tuple<int, int, int>> colours_of(const Image& image) {
  std::set<std::tuple<int, int, int>> colours;
  for (int y = 0; y < image.height(); ++y) {
    for (int x = 0; x < image.width(); ++x)
      colours.insert({image.at(x, y).r, image.at(x, y).g, image.at(x, y).b});
  }
  return colours;
}

// Points large enough to cover whole pixels: smaller ones mix with the background.
const ViewStyle kBlack{{0, 0, 0}, 4};

TEST(Render, PngHoldsThePixelsOfThePicture) {
  Image image(7, 5, {10, 20, 30});
  image.at(3, 2) = {255, 0, 128};
  const std::string bytes = encode_png(image);
  png_image header{};
  header.version = PNG_IMAGE_VERSION;
  ASSERT_TRUE(png_image_begin_read_from_memory(&header, bytes.data(), bytes.size()));
  ASSERT_EQ(header.width, 7u);
  ASSERT_EQ(header.height, 5u);
  header.format = PNG_FORMAT_RGB;
  std::vector<Rgb> pixels(35);
  ASSERT_TRUE(png_image_finish_read(&header, nullptr, pixels.data(), 0, nullptr));
  for (int y = 0; y < 5; ++y) {
    for (int x = 0; x < 7; ++x)
      EXPECT_EQ(pixels[static_cast<std::size_t>(7 * y + x)], image.at(x, y)) << x << " " << y;
  }
}

TEST(Render, TopViewPutsXToTheRightAndYUp) {
  const io::Cloud cloud =
      cloud_of({{-10, -10, 0}, {20, 10, 0}}).with("label", std::vector<int>{7, 6});
  const Colouring colouring(cloud, ColourBy::label);
  const Image image = draw_top(cloud, colouring, {0, 0, 100}, 100, 100, kBlack);
  EXPECT_EQ(image.at(40, 60), class_colour(7));
  EXPECT_EQ(image.at(70, 40), class_colour(6));
  EXPECT_EQ(image.at(50, 50), (Rgb{0, 0, 0}));
}

TEST(Render, TopViewShowsTheHighestPoint) {
  const io::Cloud cloud =
      cloud_of({{0, 0, 1}, {0, 0, 5}, {0, 0, 3}}).with("label", std::vector<int>{1, 2, 3});
  const Image image =
      draw_top(cloud, Colouring(cloud, ColourBy::label), {0, 0, 100}, 100, 100, kBlack);
  EXPECT_EQ(image.at(50, 50), class_colour(2));
}

TEST(Render, PerspectiveShowsTheNearestPointAndNothingBehindTheEye) {
  const io::Cloud cloud =
      cloud_of({{5, 0, 0}, {9, 0, 0}, {-3, 0, 0}}).with("label", std::vector<int>{1, 2, 3});
  const Colouring colouring(cloud, ColourBy::label);
  const Image image =
      draw_perspective(cloud, colouring, {{0, 0, 0}, {10, 0, 0}, 60}, 101, 101, kBlack);
  EXPECT_EQ(image.at(50, 50), class_colour(1));
  EXPECT_EQ(count(image, class_colour(2)), 0);
  EXPECT_EQ(count(image, class_colour(3)), 0);
}

TEST(Render, PerspectivePutsTheLeftOfTheSensorToTheLeft) {
  const io::Cloud cloud = cloud_of({{10, 3, 0}, {10, -3, 2}}).with("label", std::vector<int>{7, 6});
  const Image image = draw_perspective(cloud, Colouring(cloud, ColourBy::label),
                                       {{0, 0, 0}, {10, 0, 0}, 60}, 200, 200, kBlack);
  // focus = 100 / tan 30 = 173.2 pixels; y = 3 at depth 10 is 52 pixels off, z = 2 is 34.6 pixels
  // up.
  EXPECT_EQ(image.at(48, 100), class_colour(7));
  EXPECT_EQ(image.at(152, 65), class_colour(6));
}

TEST(Render, StraightDownAndUpAreLegalCameras) {
  const io::Cloud cloud = cloud_of({{0, 0, 0}}).with("label", std::vector<int>{4});
  const Colouring colouring(cloud, ColourBy::label);
  for (const double z : {20.0, -20.0}) {
    const Image image =
        draw_perspective(cloud, colouring, {{0, 0, z}, {0, 0, 0}, 60}, 50, 50, kBlack);
    EXPECT_GT(count(image, class_colour(4)), 0) << z;
  }
  EXPECT_THROW(draw_perspective(cloud, colouring, {{1, 1, 1}, {1, 1, 1}, 60}, 50, 50, kBlack),
               base::Error);
}

TEST(Render, NonFinitePointsAreLeftOut) {
  const float nan = std::numeric_limits<float>::quiet_NaN(),
              inf = std::numeric_limits<float>::infinity();
  const io::Cloud all = cloud_of({{nan, 0, 0}, {0, inf, 0}, {1, 2, 3}, {0, 0, -inf}, {4, 5, 6}});
  const io::Cloud finite = cloud_of({{1, 2, 3}, {4, 5, 6}});
  EXPECT_EQ(encode_png(draw(all, {.width = 200, .height = 200})),
            encode_png(draw(finite, {.width = 200, .height = 200})));
}

TEST(Render, CloudsWithoutFinitePointsSaySo) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Image empty = draw(cloud_of({}), {.width = 300, .height = 100});
  const Image blank(300, 100, {16, 18, 24});
  EXPECT_NE(encode_png(empty), encode_png(blank));
  EXPECT_NE(encode_png(draw(cloud_of({{nan, 1, 1}}), {.width = 300, .height = 100})),
            encode_png(empty));
}

TEST(Render, AutomaticColourIsLabelThenRgbThenHeight) {
  io::Cloud cloud = cloud_of({{0, 0, 0}, {1, 1, 1}});
  EXPECT_EQ(Colouring(cloud, ColourBy::automatic).by(), ColourBy::height);
  for (const char* channel : {"r", "g", "b"})
    cloud = cloud.with(channel, std::vector<std::uint8_t>{200, 100});
  EXPECT_EQ(Colouring(cloud, ColourBy::automatic).by(), ColourBy::rgb);
  EXPECT_EQ(Colouring(cloud, ColourBy::automatic).of(1), (Rgb{100, 100, 100}));
  cloud = cloud.with("label", std::vector<int>{1, 300});
  EXPECT_EQ(Colouring(cloud, ColourBy::automatic).by(), ColourBy::label);
}

TEST(Render, SixteenBitColourIsScaledToEight) {
  io::Cloud cloud = cloud_of({{0, 0, 0}});
  for (const char* channel : {"r", "g", "b"})
    cloud = cloud.with(channel, std::vector<std::uint16_t>{65535});
  EXPECT_EQ(Colouring(cloud, ColourBy::rgb).of(0), (Rgb{255, 255, 255}));
}

TEST(Render, AMissingFieldIsAnErrorThatNamesIt) {
  try {
    Colouring(cloud_of({{0, 0, 0}}), ColourBy::intensity);
    FAIL() << "no error";
  } catch (const base::Error& error) {
    EXPECT_NE(std::string(error.what()).find("intensity"), std::string::npos) << error.what();
  }
}

TEST(Render, LegendHasTheColoursOfTheClassesThatOccur) {
  const io::Cloud cloud =
      cloud_of({{0, 0, 0}, {1, 0, 0}, {0, 2, 0}}).with("label", std::vector<int>{4, 6, 6});
  const Image image = draw(cloud, {.view = View::top, .width = 600, .height = 300});
  // Swatches are squares of 14 pixels; points are smaller.
  EXPECT_GE(count(image, class_colour(4)), 14 * 14);
  EXPECT_GE(count(image, class_colour(6)), 14 * 14);
  EXPECT_EQ(count(image, class_colour(7)), 0);
}

TEST(Render, ClassesFarBeyondTheStreetStayDistinct) {
  std::set<std::tuple<int, int, int>> colours;
  for (std::int64_t id = 0; id < 40; ++id)
    colours.insert({class_colour(id).r, class_colour(id).g, class_colour(id).b});
  EXPECT_GT(colours.size(), 38u);
}

TEST(Render, EdgesOfPointsAreSmooth) {
  const io::Cloud cloud =
      cloud_of({{0, 0, 0}, {0.4f, 0.3f, 0}}).with("label", std::vector<int>{8, 8});
  const Image image =
      draw_top(cloud, Colouring(cloud, ColourBy::label), {0, 0, 20}, 100, 100, kBlack);
  EXPECT_GT(colours_of(image).size(), 3u);  // background, points, and mixtures at their rims
}

TEST(Render, GeographicCoordinatesLoseNothing) {
  // Two points 2 cm apart at UTM coordinates, as doubles.
  io::Cloud cloud(2);
  cloud.add<double>("x", std::vector<double>{665171.375, 665171.395});
  cloud.add<double>("y", std::vector<double>{5648340.499, 5648340.499});
  cloud.add<double>("z", std::vector<double>{233.5, 233.5});
  const io::Cloud labelled = cloud.with("label", std::vector<int>{7, 6});
  const Image image =
      draw(labelled, {.view = View::top, .width = 400, .height = 400, .point_size = 4});
  EXPECT_GT(count(image, class_colour(7)), 14 * 14);
  EXPECT_GT(count(image, class_colour(6)), 14 * 14);
}

TEST(Render, SizesAndPointSizesOutOfRangeAreErrors) {
  const io::Cloud cloud = cloud_of({{0, 0, 0}});
  EXPECT_THROW(draw(cloud, {.width = 10}), base::Error);
  EXPECT_THROW(draw(cloud, {.height = 100000}), base::Error);
  EXPECT_THROW(draw(cloud, {.point_size = 0}), base::Error);
  EXPECT_THROW(draw(cloud, {.preset = "moon"}), base::Error);
}

TEST(Render, TextStaysInsideThePicture) {
  Image image(20, 10, {0, 0, 0});
  image.text(-4, -4, "a long line \xc3\xa9 of text", {255, 255, 255});
  image.text(15, 8, "x", {255, 255, 255});
  EXPECT_EQ(image.width(), 20);
  EXPECT_EQ(text_width("abc", 2), 34);
}

TEST(Render, ALayoutHasItsColoursWhereItsCellsAre) {
  // Values 0 4 | 8 12: four groups of four, four colours.
  const Image image = draw(layout::picture_of(layout::parse_layout("(2,2):(8,4)")));
  constexpr int kCell = layout::Picture::kCell, kMargin = layout::Picture::kMargin;
  ASSERT_EQ(image.width(), 2 * kCell + 2 * kMargin);
  const auto corner = [&](int row, int column) {
    return image.at(kMargin + column * kCell + 2, kMargin + row * kCell + 2);
  };
  EXPECT_EQ(corner(0, 0), (Rgb{0xae, 0xc7, 0xe8}));
  EXPECT_EQ(corner(0, 1), (Rgb{0xff, 0xbb, 0x78}));
  EXPECT_EQ(corner(1, 0), (Rgb{0x98, 0xdf, 0x8a}));
  EXPECT_EQ(corner(1, 1), (Rgb{0xff, 0x98, 0x96}));
  EXPECT_GT(count(image, {0, 0, 0}), 100) << "numbers in and beside the cells";

  const layout::LayoutTree half = layout::parse_layout("(2,1):(1,2)");  // of a 2 x 2 tile
  const Image holders = draw(layout::picture_of_thread_values(half, 2, 2));
  EXPECT_EQ(holders.at(kMargin + kCell + kCell / 2, kMargin + kCell / 2), (Rgb{255, 255, 255}));
  EXPECT_NE(holders.at(kMargin + 2, kMargin + 2), (Rgb{255, 255, 255}));
}

}  // namespace
}  // namespace render
