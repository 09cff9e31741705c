#include <algorithm>
#include <cctype>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/commands.hpp"
#include "apps/messages.hpp"
#include "apps/read_options.hpp"
#include "apps/render/draw.hpp"
#include "apps/render/labels.hpp"
#include "apps/render/results.hpp"
#include "apps/results.hpp"
#include "apps/sweeps.hpp"
#include "apps/values.hpp"

namespace apps {
namespace {

namespace fs = std::filesystem;

render::View view_of(const Arguments& arguments) {
  const std::string view = choice_option(arguments, "view", "both", {"both", "top", "perspective"});
  return view == "top"           ? render::View::top
         : view == "perspective" ? render::View::perspective
                                 : render::View::both;
}

void set_camera(render::DrawOptions& options, const std::string& text) {
  if (text.find(',') == std::string::npos) {
    const auto names = render::camera_names();
    ENSURE_USAGE(
        std::find(names.begin(), names.end(), text) != names.end(), "--camera: \"", text,
        "\" is neither x,y,z,tx,ty,tz nor one of behind, front, left, right, oblique, driver");
    options.preset = text;
    return;
  }
  const std::vector<double> n = parse_numbers("camera", text);
  ENSURE_USAGE(n.size() == 6, "--camera: expected x,y,z,tx,ty,tz, got \"", text, "\"");
  options.camera = render::Camera{{n[0], n[1], n[2]}, {n[3], n[4], n[5]}, 60};
}

void set_size(render::DrawOptions& options, const std::string& text) {
  const std::vector<std::string> parts = split_list(text, 'x');
  ENSURE_USAGE(parts.size() == 2, "--size: expected WIDTHxHEIGHT, got \"", text, "\"");
  const auto pixels = [&](const std::string& part) {
    const std::int64_t n = parse_integer("size", part);
    ENSURE_USAGE(n >= 64 && n <= 16384, "--size: ", n, " is not in 64..16384");
    return static_cast<int>(n);
  };
  options.width = pixels(parts[0]);
  options.height = pixels(parts[1]);
}

double positive_option(const Arguments& arguments, const std::string& option, double otherwise,
                       double most) {
  if (!arguments.has(option)) return otherwise;
  const double number = parse_number(option, arguments.text(option));
  ENSURE_USAGE(number > 0 && number <= most, "--", option, ": ", number,
               " is not above 0 and at most ", most);
  return number;
}

render::DrawOptions draw_options(const Arguments& arguments) {
  render::DrawOptions options;
  options.view = view_of(arguments);
  options.colour_by = render::parse_colour_by(
      choice_option(arguments, "color", "auto", {"auto", "label", "height", "intensity", "rgb"}));
  if (arguments.has("camera")) set_camera(options, arguments.text("camera"));
  if (arguments.has("size")) set_size(options, arguments.text("size"));
  options.top_metres = positive_option(arguments, "top-width", 0, 1e9);
  options.point_size = positive_option(arguments, "point-size", 1, 20);
  options.is_light = choice_option(arguments, "background", "dark", {"dark", "light"}) == "light";
  options.class_names = split_list(arguments.text("class-names"));
  if (arguments.has("title")) options.title = arguments.text("title");
  return options;
}

render::Image draw_file(const fs::path& path, const Arguments& arguments,
                        render::DrawOptions options) {
  check_is_file(path);
  const SweepOptions sweeps = sweep_options(arguments);
  auto result = sweeps.sweeps == 1 ? render::cloud_of_result(path) : std::nullopt;
  io::Cloud cloud =
      result ? *std::move(result) : SweepReader(read_options(arguments), sweeps).read(path).joined;
  for (const std::string& warning : cloud.warnings) report_warning(text_of(path), warning);
  if (arguments.has("labels")) cloud = render::with_labels(cloud, arguments.text("labels"));
  if (!arguments.has("title")) options.title = path.filename().string();
  return render::draw(cloud, options);
}

bool is_png_name(const fs::path& path) {
  std::string extension = path.extension().string();
  std::ranges::transform(extension, extension.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension == ".png";
}

int render_files(const Arguments& arguments) {
  const fs::path output = arguments.required("output");
  const std::vector<std::string>& inputs = arguments.inputs();
  const bool is_pair = arguments.has("side-by-side");
  ENSURE_USAGE(is_png_name(output), "--output: pictures are PNG, and ", output.string(),
               " does not end in .png");
  ENSURE_USAGE(inputs.size() == (is_pair ? 2u : 1u),
               is_pair ? "--side-by-side needs two inputs, got "
                       : "expected one input (two with --side-by-side), got ",
               inputs.size());
  ENSURE_USAGE(!is_pair || !arguments.has("labels"), "--labels goes with one input");
  ENSURE_USAGE(sweep_options(arguments).sweeps == 1 || !arguments.has("labels"),
               "--labels goes with one sweep");
  render::DrawOptions options = draw_options(arguments);
  if (is_pair && !arguments.has("size")) options.width /= 2;
  if (is_pair && !arguments.has("view")) options.view = render::View::perspective;
  std::optional<render::Image> picture;
  for (const std::string& input : inputs) {
    try {
      render::Image image = draw_file(input, arguments, options);
      picture = picture ? render::beside(*picture, image) : std::move(image);
    } catch (const UsageError&) {
      throw;
    } catch (const std::exception& error) {
      report_error(input, error.what());
      return kSomeFailed;
    }
  }
  try {
    render::write_png(output, *picture);
  } catch (const std::exception& error) {
    report_error(text_of(output), error.what());
    return kSomeFailed;
  }
  return kDone;
}

}  // namespace

Command render_command() {
  Command command{
      .name = "render",
      .summary = "a picture of a cloud, from above and from a view point",
      .usage = "IN -o OUT.png [options]",
      .examples =
          "  sparseconv render scan.bin -o scan.png\n"
          "  sparseconv render scan.bin --labels labels/scan.label -o labelled.png\n"
          "  sparseconv render map.las --color height --view top --size 2000x2000 -o map.png\n"
          "  sparseconv render --side-by-side truth.ply result.ply -o compared.png"};
  auto add = command.options.add_options();
  add("output,o", value<std::string>(), "the picture");
  add("color", value<std::string>(),
      "label, height, intensity or rgb (label where there is one, else rgb, else height)");
  add("labels", value<std::string>(),
      "a label a point (or voxel): .label, or the labels or scores of run in h5 or npy");
  add("view", value<std::string>(), "both, top or perspective (both)");
  add("camera", value<std::string>(),
      "x,y,z,tx,ty,tz: eye and target in metres; or behind, front, left, right, oblique, driver "
      "(behind)");
  add("top-width", value<std::string>(), "metres that the view from above shows (chosen)");
  add("size", value<std::string>(), "WIDTHxHEIGHT in pixels (1600x800)");
  add("point-size", value<std::string>(), "multiple of the usual size (1)");
  add("background", value<std::string>(), "dark or light (dark)");
  add("class-names", value<std::string>(),
      "names of labels 0, 1, ...: a,b,c (those of the street scans)");
  add("title", value<std::string>(), "words at the top (the file's name)");
  add("side-by-side", "two inputs, one picture");
  add_read_options(command);
  add_sweep_options(command);
  command.min_inputs = 1;
  command.max_inputs = 2;
  command.run = render_files;
  return command;
}

}  // namespace apps
