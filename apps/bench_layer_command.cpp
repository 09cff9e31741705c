#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "apps/bench/bench.hpp"
#include "apps/commands.hpp"
#include "apps/values.hpp"
#include "gemm_core/base/parallel.hpp"
#include "gemm_core/device/gather_conv.hpp"
#include "sparseconv/device_timing.hpp"
#include "sparseconv/kernel_map.hpp"

namespace apps {
namespace {

struct Channels {
  std::int64_t in = 0, out = 0;
};

std::vector<Channels> parse_channels(const std::string& text) {
  std::vector<Channels> list;
  for (const std::string& part : split_list(text)) {
    const auto pair = split_list(part, ':');
    ENSURE_USAGE(pair.size() == 1 || pair.size() == 2, "--channels: expected C or CIN:COUT, got \"",
                 part, "\"");
    const Channels channels{parse_integer("channels", pair.front()),
                            parse_integer("channels", pair.back())};
    ENSURE_USAGE(
        std::min(channels.in, channels.out) >= 1 && std::max(channels.in, channels.out) <= 65536,
        "--channels: \"", part, "\" is not in 1..65536");
    list.push_back(channels);
  }
  ENSURE_USAGE(!list.empty(), "--channels: nothing given");
  return list;
}

std::array<int, 3> parse_sizes(const std::string& option, const std::string& text) {
  auto numbers = parse_integers(option, text);
  if (numbers.size() == 1) numbers = {numbers[0], numbers[0], numbers[0]};
  ENSURE_USAGE(numbers.size() == 3, "--", option, ": expected k or kx,ky,kz, got \"", text, "\"");
  std::array<int, 3> sizes{};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    ENSURE_USAGE(numbers[axis] >= 1 && numbers[axis] <= 64, "--", option, ": ", numbers[axis],
                 " is not in 1..64");
    sizes[axis] = static_cast<int>(numbers[axis]);
  }
  return sizes;
}

void check_kernel(const std::array<int, 3>& kernel, const std::array<int, 3>& stride) {
  const bool is_odd = std::ranges::all_of(kernel, [](int size) { return size % 2 == 1; });
  ENSURE_USAGE(is_odd || stride != (std::array{1, 1, 1}),
               "--kernel: a submanifold layer (stride 1) needs odd sizes, got ", kernel[0], ',',
               kernel[1], ',', kernel[2]);
}

base::Tensor random_tensor(std::int64_t rows, std::int64_t columns, base::DType type) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> spread(-1, 1);
  auto tensor = base::Tensor::empty({rows, columns}, base::DType::f32);
  for (std::int64_t i = 0; i < tensor.numel(); ++i) tensor.data<float>()[i] = spread(random);
  return tensor.to(type);
}

// Submanifold where the stride is 1, else a strided convolution whose padding centres an odd
// kernel.
sparseconv::ConvGeometry geometry_of(std::array<int, 3> kernel, std::array<int, 3> stride) {
  if (stride == std::array{1, 1, 1}) return sparseconv::ConvGeometry::submanifold(kernel);
  sparseconv::ConvGeometry geometry{.kernel = kernel, .stride = stride};
  for (std::size_t axis = 0; axis < 3; ++axis)
    geometry.padding[axis] = kernel[axis] % 2 ? kernel[axis] / 2 : 0;
  return geometry;
}

sparseconv::KernelMapPtr map_of(const sparseconv::CoordinatesPtr& input,
                                const sparseconv::ConvGeometry& geometry) {
  const bool is_submanifold = geometry.stride == std::array{1, 1, 1};
  return sparseconv::build_kernel_map(
      input, is_submanifold ? input : sparseconv::strided_coordinates(input, geometry), geometry);
}

// The type that holds activations: tf32 products are stored as fp32.
base::DType storage_of(base::DType type) {
  return type == base::DType::tf32 ? base::DType::f32 : type;
}

BenchResult result_of(const BenchSettings& settings, const sparseconv::KernelMap& map,
                      const Channels& channels, const Times& times, int threads) {
  const auto& kernel = map.geometry.kernel;
  const base::DType storage = storage_of(settings.type);
  const std::int64_t values = map.input->size() * channels.in + map.output->size() * channels.out;
  BenchResult result{
      .name = map.input == map.output ? "submanifold" : "strided",
      .dtype = settings.dtype,
      .threads = threads,
      .voxels = map.output->size(),
      .cin = channels.in,
      .cout = channels.out,
      .kernel = fmt::format("{}x{}x{}", kernel[0], kernel[1], kernel[2]),
      .times = times,
      .flop = 2.0 * static_cast<double>(map.pairs() * channels.in * channels.out),
      .bytes = static_cast<double>(
          base::bytes(storage, values + channels.out * map.geometry.taps() * channels.in) +
          map.nbytes())};
  result.more["pairs"] = map.pairs();
  result.more["stride"] = map.geometry.stride;
  return result;
}

void bench_layer_on_gpu(BenchReport& report, const BenchSettings& settings,
                        const sparseconv::KernelMap& map, const Channels& channels) {
  const auto timed = sparseconv::time_layer({.input = map.input,
                                             .geometry = map.geometry,
                                             .cin = channels.in,
                                             .cout = channels.out,
                                             .dtype = settings.type},
                                            settings.place(), settings.rounds.repeat);
  BenchResult result = result_of(settings, map, channels, times_of(timed.milliseconds), 1);
  result.more["kernel_name"] = timed.kernel;
  report.add(result);
}

void bench_layer(BenchReport& report, const BenchSettings& settings,
                 const sparseconv::KernelMap& map, const Channels& channels) {
  const std::int64_t taps = map.geometry.taps();
  const base::DType storage = storage_of(settings.type);
  const base::Tensor input = random_tensor(map.input->size(), channels.in, storage);
  const base::Tensor weight = random_tensor(channels.out, taps * channels.in, base::DType::f32);
  base::Tensor output = base::Tensor::empty({map.output->size(), channels.out}, storage);
  const auto weights = gemm_core::pack_conv_weights({.weight = weight.data<float>(),
                                                     .cout = channels.out,
                                                     .taps = taps,
                                                     .cin = channels.in,
                                                     .compute = settings.type});
  const gemm_core::GatherConvArguments arguments{.input = std::as_const(input).view(),
                                                 .neighbours = map.table.data(),
                                                 .rows = map.output->size(),
                                                 .weights = &weights,
                                                 .output = output.view()};
  std::vector<base::Threads> pools;
  std::vector<std::function<double()>> contenders;
  for (const int threads : settings.threads) pools.emplace_back(threads);
  for (const base::Threads& pool : pools) {
    contenders.push_back([&] {
      return seconds_of([&] { pool.run([&] { gemm_core::gather_conv(arguments); }); },
                        settings.clock);
    });
  }
  const std::vector<Times> times = time_in_turn(contenders, settings.rounds);
  for (std::size_t i = 0; i < times.size(); ++i)
    report.add(result_of(settings, map, channels, times[i], settings.threads[i]));
}

int bench_layers(const Arguments& arguments) {
  const BenchSettings settings = bench_settings(arguments);
  const auto channels = parse_channels(arguments.get_or<std::string>("channels", "32,64,128"));
  const auto kernel = parse_sizes("kernel", arguments.get_or<std::string>("kernel", "3"));
  const auto stride = parse_sizes("stride", arguments.get_or<std::string>("stride", "1"));
  check_kernel(kernel, stride);
  const FrameOptions frame = frame_options(arguments);
  const auto map = map_of(load_frame(frame).voxels.coordinates, geometry_of(kernel, stride));
  BenchReport report(settings);
  for (const Channels& c : channels) {
    if (settings.place().is_cpu())
      bench_layer(report, settings, *map, c);
    else
      bench_layer_on_gpu(report, settings, *map, c);
  }
  return report.close();
}

}  // namespace

Command bench_layer_command() {
  Command command{
      .name = "bench layer",
      .summary = "time one sparse convolution against the machine's limits",
      .usage = "[--input FILE...] [options]",
      .examples =
          "  sparseconv bench layer --channels 32,64,128\n"
          "  sparseconv bench layer --input scan.bin --voxel-size 0.05 --channels 64 --kernel 3 "
          "--threads 1,2 --json"};
  add_frame_options(command);
  auto add = command.options.add_options();
  add("channels", value<std::string>(), "C or CIN:COUT, a list: 32,64,192:96 (32,64,128)");
  add("kernel", value<std::string>(), "k or kx,ky,kz (3)");
  add("stride", value<std::string>(), "s or sx,sy,sz; 1 is a submanifold layer (1)");
  add_bench_options(command);
  command.max_inputs = 0;
  command.run = bench_layers;
  return command;
}

}  // namespace apps
