// model edit: the same network with other features, mixed with another training of it, or with its
// weights stored otherwise.
#include "apps/batch/pipeline.hpp"
#include "apps/batch/report.hpp"
#include "apps/commands.hpp"
#include "apps/info/describe.hpp"
#include "apps/model_features.hpp"
#include "apps/model_mix.hpp"
#include "apps/values.hpp"
#include "sparseconv/model.hpp"

namespace apps {
namespace {

int edit_model(const Arguments& arguments) {
  const std::string input = arguments.inputs()[0], output = arguments.required("output");
  const std::string weights = choice_option(arguments, "weights", "fp32", {"fp32", "fp16"});
  const auto features = split_list(arguments.text("features"));
  const std::string other = arguments.text("mix");
  const double share = parse_number("share", arguments.get_or<std::string>("share", "0.5"));
  ENSURE_USAGE(share >= 0 && share <= 1, "--share: ", share, " is not in [0, 1]");
  ENSURE_USAGE(!other.empty() || !arguments.has("share"), "--share needs --mix");
  BatchReport report("model edit");
  std::string file = input;  // that an error is about
  try {
    sparseconv::Model model = sparseconv::load_model(input);
    if (!other.empty()) {
      file = other;
      mix_weights(model, sparseconv::load_model(other), share);
      file = input;
    }
    if (!features.empty()) set_features(model, features);
    file = output;
    sparseconv::save_model(output, model, weights == "fp16" ? base::DType::f16 : base::DType::f32);
  } catch (...) {
    report.failed(file, current_error());
    return report.close();
  }
  if (arguments.has("json")) {
    report.done(describe_model(output));
    print_json(report.document());
  }
  return kDone;
}

}  // namespace

Command model_edit_command() {
  Command command{
      .name = "model edit",
      .summary = "a model with other features, mixed with another, or stored otherwise",
      .usage = "MODEL.h5 -o OUT.h5 [options]",
      .examples =
          "  sparseconv model edit m.h5 --weights fp16 -o small.h5\n"
          "  sparseconv model edit m.h5 --features z,dx,dy,dz,one -o blind.h5   one feature "
          "less: as if it were 0\n"
          "  sparseconv model edit m.h5 --mix tuned.h5 -o between.h5   half of each weight"};
  auto add = command.options.add_options();
  add("output,o", value<std::string>(), "model file to write");
  add("features", value<std::string>(),
      "in this order; new ones get weights of 0, those left out count as 0");
  add("mix", value<std::string>(), "another training of the same network: the mean of both");
  add("share", value<std::string>(), "of --mix in the mean, 0 to 1 (0.5)");
  add("weights", value<std::string>(), "fp32 or fp16 (fp32)");
  add("json", "what was written, as one JSON document on stdout");
  command.min_inputs = command.max_inputs = 1;
  command.run = edit_model;
  return command;
}

}  // namespace apps
