// Layouts as text and pictures.
#include <gtest/gtest.h>

#include "gemm_core/layout/draw.hpp"
#include "gemm_core/layout/parse.hpp"
#include "tests/gemm_core/layout_generator.hpp"

namespace {

using layout::parse_layout;
using layout::print;

TEST(LayoutText, ParsesWhatItPrints) {
  layout_test::Generator random(21);
  for (int round = 0; round < 1000; ++round) {
    const std::string text = print(random.layout());
    ASSERT_EQ(print(parse_layout(text)), text);
  }
  EXPECT_EQ(print(parse_layout(" ( 4 , (2,3) ) : (2,(-1, 8))")), "(4,(2,3)):(2,(-1,8))");
}

TEST(LayoutText, RefusesWhatIsNoLayoutWithThePosition) {
  for (const char* text : {"", "4", "4:", "(4:1", "(4,2):(1,4", "4:1x", "(4,2):(1)", "():()", "0:1",
                           "4::1", "99999999999999999999:1", "-4:1"})
    EXPECT_THROW(parse_layout(text), base::Error) << text;
  EXPECT_THROW(parse_layout(std::string(100000, '(')), base::Error);
}

TEST(LayoutText, GridsShowValuesByRowAndColumn) {
  EXPECT_EQ(print_grid(parse_layout("(2,3):(3,1)")), " 0 1 2\n 3 4 5\n");
  EXPECT_THROW(print_grid(parse_layout("4:1")), base::Error);
}

TEST(LayoutPicture, HasACellForEachElementAndNamesItsHolder) {
  const std::string text =
      svg(layout::picture_of_thread_values(parse_layout("((4,8),(2,2)):((32,1),(16,8))"), 16, 8));
  std::size_t cells = 0;
  for (std::size_t at = text.find("<rect"); at != std::string::npos;
       at = text.find("<rect", at + 1))
    ++cells;
  EXPECT_EQ(cells, 128u);
  EXPECT_NE(text.find(">T31<"), std::string::npos);
  EXPECT_THROW(layout::picture_of_thread_values(parse_layout("(4,4):(1,8)"), 4, 4), base::Error);
  EXPECT_THROW(layout::picture_of(parse_layout("(1000000,1000000):(1,1)")), base::Error);
}

}  // namespace
