#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/commands.hpp"
#include "apps/messages.hpp"
#include "apps/render/layout_picture.hpp"
#include "apps/results.hpp"
#include "apps/values.hpp"
#include "gemm_core/layout/algebra.hpp"
#include "gemm_core/layout/parse.hpp"
#include "io/sink.hpp"

namespace apps {
namespace {

namespace fs = std::filesystem;
using layout::Index;
using layout::LayoutTree;

// "16x8" or "3,2,3" as numbers.
std::vector<Index> numbers_of(const Arguments& arguments, const std::string& option, char separator,
                              std::size_t count, const char* form) {
  const std::string text = arguments.text(option);
  const std::vector<std::string> parts = split_list(text, separator);
  ENSURE_USAGE(parts.size() == count, "--", option, ": expected ", form, ", got \"", text, "\"");
  std::vector<Index> numbers;
  for (const std::string& part : parts) numbers.push_back(parse_integer(option, part));
  return numbers;
}

layout::Swizzle swizzle_of(const Arguments& arguments) {
  if (!arguments.has("swizzle")) return {0, 0, 0};
  const auto n = numbers_of(arguments, "swizzle", ',', 3, "B,M,S");
  const bool is_small = std::ranges::all_of(n, [](Index x) { return x >= -32 && x <= 32; });
  ENSURE_USAGE(is_small, "--swizzle: \"", arguments.text("swizzle"), "\" is beyond 32 bits");
  return layout::make_swizzle(static_cast<int>(n[0]), static_cast<int>(n[1]),
                              static_cast<int>(n[2]));
}

layout::Picture picture_of(const LayoutTree& a, const layout::Swizzle& swizzle,
                           const Arguments& arguments) {
  if (arguments.has("tile")) {
    ENSURE_USAGE(!arguments.has("swizzle"), "--tile and --swizzle do not go together");
    const auto tile = numbers_of(arguments, "tile", 'x', 2, "ROWSxCOLUMNS");
    return layout::picture_of_thread_values(a, tile[0], tile[1]);
  }
  ENSURE_USAGE(rank(a) == 2, print(a), " has rank ", rank(a), ", a picture needs 2");
  const Index rows = size(mode(a, 0)).value();
  return layout::picture_of_grid(rows, size(mode(a, 1)).value(),
                                 [&](Index i, Index j) { return swizzle(a(i + rows * j)); });
}

// The cells of a picture as text, a row a line.
std::string text_of_cells(const layout::Picture& picture) {
  std::vector<std::string> words(static_cast<std::size_t>(picture.rows * picture.columns), ".");
  std::size_t width = 1;
  for (const auto& cell : picture.cells) {
    std::string& word = words[static_cast<std::size_t>(cell.row * picture.columns + cell.column)];
    word = cell.upper + cell.lower;
    width = std::max(width, word.size());
  }
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    text += std::string(width + 1 - words[i].size(), ' ') + words[i];
    if ((i + 1) % static_cast<std::size_t>(picture.columns) == 0) text += '\n';
  }
  return text;
}

int draw_layout(const Arguments& arguments) {
  const std::string output = arguments.text("output"),
                    extension = fs::path(output).extension().string();
  ENSURE_USAGE(!arguments.has("output") || extension == ".svg" || extension == ".png",
               "--output: \"", output, "\" ends in neither .svg nor .png");
  std::optional<layout::Picture> picture;
  std::string title;
  try {
    const LayoutTree a = layout::parse_layout(arguments.inputs().front());
    const layout::Swizzle swizzle = swizzle_of(arguments);
    title = (arguments.has("swizzle") ? print(swizzle) + " o " : "") + print(a);
    picture = picture_of(a, swizzle, arguments);
  } catch (const UsageError&) {
    throw;
  } catch (const base::Error& error) {
    throw UsageError(error.what());
  }
  if (output.empty()) {
    print_text(title + "\n" + text_of_cells(*picture));
    return kDone;
  }
  try {
    io::Sink sink(output);
    sink.write(extension == ".png" ? render::encode_png(render::draw(*picture))
                                   : layout::svg(*picture));
    sink.commit();
  } catch (const std::exception& error) {
    report_error(output, error.what());
    return kSomeFailed;
  }
  return kDone;
}

}  // namespace

Command layout_command() {
  Command command{
      .name = "layout",
      .summary = "a layout of the algebra as text or as a picture",
      .usage = "SHAPE:STRIDE [-o OUT.svg|OUT.png] [options]",
      .examples =
          "  sparseconv layout \"(4,(2,3)):(2,(1,8))\"\n"
          "  sparseconv layout \"(8,8):(32,4)\" --swizzle 3,2,3 -o banks.png\n"
          "  sparseconv layout \"((4,8),(2,2)):((32,1),(16,8))\" --tile 16x8 -o accumulators.svg"};
  auto add = command.options.add_options();
  add("output,o", value<std::string>(), "the picture, SVG or PNG (text on stdout)");
  add("tile", value<std::string>(),
      "ROWSxCOLUMNS: the layout takes (thread, value) to an index of this tile, column-major");
  add("swizzle", value<std::string>(), "B,M,S: values go through this swizzle");
  command.min_inputs = 1;
  command.max_inputs = 1;
  command.run = draw_layout;
  return command;
}

}  // namespace apps
