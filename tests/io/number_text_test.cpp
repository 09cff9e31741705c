// Numbers as text: what is written is what std::to_chars writes, and reads back as it was.
#include "io/number_text.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <random>

namespace {

template <class T>
std::string written(T value) {
  char text[io::kMaxNumberChars];
  return {text, io::write_number(text, value)};
}

template <class T>
std::string by_standard(T value) {
  char text[64];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

TEST(NumberText, IsShort) {
  EXPECT_EQ(written(0.1f), "0.1");
  EXPECT_EQ(written(-12.34f), "-12.34");
  EXPECT_EQ(written(0.00123f), "0.00123");
  EXPECT_EQ(written(16777216.f), "16777216");
  EXPECT_EQ(written(1.0f / 3), "0.33333334");
  EXPECT_EQ(written(123456.78), "123456.78");
  EXPECT_EQ(written(90000.0), "90000");
  EXPECT_EQ(written(-0.0), "-0");
  EXPECT_EQ(written(std::numeric_limits<float>::quiet_NaN()), "nan");
  EXPECT_EQ(written(-std::numeric_limits<double>::infinity()), "-inf");
  EXPECT_EQ(written(std::numeric_limits<std::int64_t>::min()), "-9223372036854775808");
}

TEST(NumberText, FloatsAreWhatTheStandardLibraryWrites) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 2000000; ++i) {
    float value = 0;
    if (i % 3 == 0)
      value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    else if (i % 3 == 1)
      value = std::ldexp(static_cast<float>(random() % (1 << 24)),
                         static_cast<int>(random() % 30) - 34);
    else
      value = static_cast<float>(static_cast<double>(random() % 10000000) /
                                 std::pow(10, static_cast<double>(random() % 8)));
    if (!std::isfinite(value)) continue;
    if (random() % 2 == 0) value = -value;
    ASSERT_EQ(written(value), by_standard(value));
  }
}

TEST(NumberText, FloatsNextToPowersAreTooAndReadBack) {
  for (int exponent = -20; exponent < 25; ++exponent) {
    for (const double base : {2.0, 10.0}) {
      float value = static_cast<float>(std::pow(base, exponent));
      for (int step = 0; step < 3; ++step) value = std::nextafterf(value, 0.0f);
      for (int step = 0; step < 7; ++step, value = std::nextafterf(value, 1e30f)) {
        const std::string text = written(value);
        ASSERT_EQ(text, by_standard(value));
        io::Number number;
        float back = 0;
        const char* const end = text.data() + text.size();
        ASSERT_EQ(io::scan_number(text.data(), end, number), end);
        ASSERT_TRUE(io::store_number(number, text.data(), end, base::DType::f32, &back));
        ASSERT_EQ(back, value) << text;
      }
    }
  }
}

TEST(NumberText, DoublesAreWhatTheStandardLibraryWrites) {
  std::mt19937_64 random(6);
  for (int i = 0; i < 1000000; ++i) {
    double value = 0;
    if (i % 4 == 0)
      value = std::bit_cast<double>(random());
    else if (i % 4 == 1)
      value = static_cast<float>(random() % 100000) / 7;
    else
      value = static_cast<double>(random() % 1000000000000000) /
              std::pow(10, static_cast<double>(random() % 18));
    if (!std::isfinite(value)) continue;
    if (random() % 2 == 0) value = -value;
    ASSERT_EQ(written(value), by_standard(value));
  }
}

}  // namespace
