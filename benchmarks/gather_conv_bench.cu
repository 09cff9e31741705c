// Times the gathered convolution on CUDA, layer by layer, every compiled configuration that fits,
// in one order and in planes, and checks each against the SIMT kernel first (fp8, int8: against f16
// of the same values; errors are then the results' rounding, up to 6e-2).
//   gather_conv_bench [--cells FILE] [--parents N] [--dtype fp16] [--channels 32,64]
//   [--out-channels ...] [--every | --use f16_64x64,f16_64x128]
// Without a file: procedural surfaces. Times are graph replays of 20 launches, divided; median
// of 15.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <type_traits>

#include "benchmarks/support/graph_timing.hpp"
#include "gemm_core/base/convert.hpp"
#include "gemm_core/device/cuda/gather/gather_conv.hpp"
#include "tests/cuda/host_map.hpp"

namespace {

using base::DType;
using base::cuda::Buffer;
using gemm_core::cuda::TilePart;
using namespace cuda_tests;

struct Options {
  std::string cells;
  int parents = 0;
  DType dtype = DType::f16;
  std::vector<int> cin{32, 64, 128, 256}, cout;
  bool every = false;            // every configuration, not only the chosen one
  std::vector<std::string> use;  // these, overlapping launches only, and no time of the reference
};

std::vector<std::string> parse_words(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    words.push_back(text.substr(at, comma - at));
    at = comma + 1;
  }
  return words;
}
std::vector<int> parse_list(const std::string& text) {
  std::vector<int> values;
  for (const std::string& word : parse_words(text)) values.push_back(std::stoi(word));
  return values;
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--every") {
      options.every = true;
      continue;
    }
    ENSURE(i + 1 < argc, "option ", name, " needs a value");
    const std::string value = argv[++i];
    if (name == "--cells")
      options.cells = value;
    else if (name == "--parents")
      options.parents = std::stoi(value);
    else if (name == "--dtype")
      options.dtype = base::parse_dtype(value);
    else if (name == "--channels")
      options.cin = parse_list(value);
    else if (name == "--use")
      options.use = parse_words(value);
    else if (name == "--out-channels")
      options.cout = parse_list(value);
    else
      base::fail("option ", name, " is not known");
  }
  if (options.cout.empty()) options.cout = options.cin;
  ENSURE(options.cin.size() == options.cout.size(),
         "as many output channels as input channels, please");
  return options;
}

std::vector<float> normal_values(std::size_t count, unsigned seed, float deviation) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> values(count);
  for (float& v : values) v = normal(random);
  return values;
}

struct Features {
  Buffer<std::uint8_t> data;
  base::Dims shape;
  DType type;
  base::TensorView view() {
    return {
        data.data(), type, {base::Device::Kind::cuda, 0}, shape, base::row_major_strides(shape)};
  }
  base::ConstTensorView const_view() const {
    return {
        data.data(), type, {base::Device::Kind::cuda, 0}, shape, base::row_major_strides(shape)};
  }
};

template <class T>
T rounded(float v) {
  if constexpr (sizeof(T) == 1)
    return base::convert<T>(v);
  else
    return T(v);
}
// int8: of values around 6, so that results stay below 127.
float as_eight_bit(DType type, float v) {
  return type == DType::e4m3 ? static_cast<float>(rounded<base::e4m3_t>(v))
                             : static_cast<float>(rounded<std::int8_t>(6 * v));
}
using gemm_core::cuda::is_eight_bit;
// The SIMT kernel has no products of 8 bits.
DType reference_type(DType dtype) { return is_eight_bit(dtype) ? DType::f16 : dtype; }

// Rounds weights to what the scale of their output channel divides exactly.
void round_weights(DType type, std::vector<float>& w, int cout) {
  const std::size_t width = w.size() / static_cast<std::size_t>(cout);
  for (std::size_t i = 0; i < w.size(); ++i) {
    if (type == DType::e4m3)
      w[i] = as_eight_bit(type, w[i] * 256) / 256;
    else
      w[i] = i % width == 0 ? 127.f / 512 : std::clamp(std::round(w[i] * 512), -127.f, 127.f) / 512;
  }
}

// Random values that `values_type` holds.
Features features(int rows, int channels, DType dtype, bool is_random, DType values_type) {
  const DType type = dtype == DType::tf32 ? DType::f32 : dtype;
  Features f{Buffer<std::uint8_t>(
                 static_cast<std::size_t>(base::bytes(type, std::int64_t{rows} * channels))),
             {rows, channels},
             type};
  std::vector<std::uint8_t> host(f.data.size(), 0xff);  // NaN where nobody writes
  if (is_random) {
    auto values =
        normal_values(static_cast<std::size_t>(rows) * static_cast<std::size_t>(channels), 1, 1.f);
    if (is_eight_bit(values_type)) {
      for (float& v : values) v = as_eight_bit(values_type, v);
    }
    base::visit_dtype<float, base::half_t, base::bf16_t, base::e4m3_t, std::int8_t>(
        type, "bench", [&]<class T>() {
          for (std::size_t i = 0; i < values.size(); ++i)
            reinterpret_cast<T*>(host.data())[i] = rounded<T>(values[i]);
        });
  }
  CUDA_CHECK(cudaMemcpy(f.data.data(), host.data(), host.size(), cudaMemcpyHostToDevice));
  return f;
}

std::vector<float> downloaded(const Features& features) {
  std::vector<std::uint8_t> raw(features.data.size());
  CUDA_CHECK(cudaMemcpy(raw.data(), features.data.data(), raw.size(), cudaMemcpyDeviceToHost));
  std::vector<float> values;
  base::visit_dtype<float, base::half_t, base::bf16_t, base::e4m3_t, std::int8_t>(
      features.type, "bench", [&]<class T>() {
        const auto* x = reinterpret_cast<const T*>(raw.data());
        values.assign(x, x + raw.size() / sizeof(T));
      });
  return values;
}

double relative_error(const Features& got, const Features& wanted) {
  const auto x = downloaded(got), y = downloaded(wanted);
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double difference = std::abs(static_cast<double>(x[i]) - y[i]);
    worst = difference <= worst ? worst : difference;  // NaN stays
    largest = std::max(largest, std::abs(static_cast<double>(y[i])));
  }
  return worst / largest;
}

class Layer {
 public:
  Layer(const HostMap& map, int cin, int cout, DType dtype, bool is_short, cudaStream_t stream)
      : map_(map),
        cin_(cin),
        cout_(cout),
        dtype_(dtype),
        is_short_(is_short),
        stream_(stream),
        input_(features(map.inputs, cin, dtype, true, dtype)),
        expected_(features(map.rows, cout, reference_type(dtype), false, dtype)),
        output_(features(map.rows, cout, dtype, false, dtype)),
        canonical_(map.table.size()) {
    auto w =
        normal_values(static_cast<std::size_t>(cout) * static_cast<std::size_t>(map.taps * cin), 2,
                      1.f / std::sqrt(6.f * static_cast<float>(cin)));
    if (is_eight_bit(dtype)) round_weights(dtype, w, cout);
    gemm_core::ConvWeightsDesc desc{
        .weight = w.data(), .cout = cout, .taps = map.taps, .cin = cin, .compute = dtype};
    weights_ = gemm_core::cuda::upload_conv_weights(desc);
    if (!weights_.scale.empty()) {
      weight_scale_ = Buffer<float>(weights_.scale.size());
      upload(weight_scale_, weights_.scale.data(), weights_.scale.size(), stream);
    }
    upload(canonical_, map.table.data(), map.table.size(), stream);
    desc.compute = reference_type(dtype);
    const auto reference_weights = gemm_core::cuda::upload_conv_weights(desc);
    Features reference_input = features(map.inputs, cin, desc.compute, true, dtype);
    auto reference = arguments();
    reference.input = reference_input.const_view();
    reference.weights = &reference_weights;
    reference.epilogue = {};
    reference.output = expected_.view();
    reference.canonical = canonical_.data();
    reference.canonical_pitch = map.rows;
    const gemm_core::cuda::GatherConv conv(reference);
    report("simt", conv, 0);
  }

  void run(const gemm_core::cuda::Sm90Instance& instance, const HostTable& host, DeviceTable& table,
           bool planes) {
    auto a = arguments();
    a.instance = &instance;
    a.table = table.view();
    const int lists = gemm_core::cuda::lists_for(instance, cout_, base::cuda::device_info(0));
    a.centre = table.schedule(TilePart::centre, instance.tile_m, lists, stream_);
    Buffer<float> partials;
    if (planes) {
      a.outer = table.schedule(TilePart::outer, instance.tile_m, lists, stream_);
      partials = Buffer<float>(
          static_cast<std::size_t>(gemm_core::cuda::partial_floats(instance, map_.rows, cout_)));
      a.partials = partials.data();
    }
    for (const bool overlap : {false, true}) {
      if (is_short_ && !overlap) continue;
      a.overlap = overlap;
      CUDA_CHECK(cudaMemsetAsync(output_.data.data(), 0xff, output_.data.size(), stream_));
      const gemm_core::cuda::GatherConv conv(a);
      report(conv.kernel_name() + (overlap ? " overlap" : ""), conv,
             executed_per_row(host, map_.rows));
    }
  }

 private:
  gemm_core::cuda::GatherConvArguments arguments() {
    gemm_core::cuda::GatherConvArguments a;
    a.input = input_.const_view();
    a.weights = &weights_;
    a.output = output_.view();
    if (weight_scale_.size() > 0) a.epilogue.scale_shift(weight_scale_.data(), nullptr);
    return a;
  }

  void report(const std::string& name, const gemm_core::cuda::GatherConv& conv, double executed) {
    conv.run(stream_);
    CUDA_CHECK(cudaStreamSynchronize(stream_));
    const bool is_reference = executed == 0;
    if (is_reference && is_short_) return;
    const double error = is_reference ? 0 : relative_error(output_, expected_);
    const double us = benchmarks::graph_microseconds(stream_, [&] { conv.run(stream_); });
    const double useful = 2.0 * static_cast<double>(map_.pairs()) * cin_ * cout_ / us * 1e-6;
    const double share =
        is_reference ? 0 : static_cast<double>(map_.pairs()) / map_.rows / executed;
    std::printf(
        "%6d rows %3d->%3d %-32s %8.2f us  %6.1f TFLOP/s useful  share %.2f  error %.1e%s\n",
        map_.rows, cin_, cout_, name.c_str(), us, useful, share, error,
        error < (is_eight_bit(dtype_) ? 6.5e-2 : 4e-3) ? "" : "  WRONG");
    std::fflush(stdout);
  }

  const HostMap& map_;
  int cin_, cout_;
  DType dtype_;
  bool is_short_;
  cudaStream_t stream_;
  Features input_, expected_, output_;
  gemm_core::cuda::ConvWeights weights_;
  Buffer<float> weight_scale_;
  Buffer<std::int32_t> canonical_;
};

void run(const Options& options) {
  Coords cells = options.cells.empty() ? surface_cells(96000, 1) : read_cells(options.cells);
  for (int i = 0; i < options.parents; ++i) cells = stride_two_parents(cells);
  const HostMap map = build_map(cells, cells, {3, 3, 3}, 1, 1);
  const auto stream = base::cuda::Stream::create();
  const HostTable single = order_rows(map), planes = order_planes(map);
  DeviceTable device_single(map, single, stream.get()), device_planes(map, planes, stream.get());
  for (std::size_t i = 0; i < options.cin.size(); ++i) {
    const int cin = options.cin[i], cout = options.cout[i];
    Layer layer(map, cin, cout, options.dtype, !options.use.empty(), stream.get());
    const auto chosen = gemm_core::cuda::choose_instance(
        {.compute = options.dtype, .cin = cin, .cout = cout, .rows = map.rows, .taps = map.taps});
    for (const auto* instance : gemm_core::cuda::sm90_instances()) {
      const bool is_whole =
          cout % instance->tile_n == 0 && (cin % instance->stage_k == 0 || cin > cout);
      const bool fits = is_whole && instance->element == options.dtype &&
                        instance->tile_n < cout + 32 &&
                        instance->tile_n * (cout > 96 ? 4 : 1) >= cout;
      const bool is_used = is_whole && std::find(options.use.begin(), options.use.end(),
                                                 instance->name) != options.use.end();
      const bool is_wanted = options.use.empty() ? instance == chosen.instance : is_used;
      if (!is_wanted && !(options.every && fits)) continue;
      const bool is_free = options.every || is_used;
      if (is_free || !chosen.planes) layer.run(*instance, single, device_single, false);
      if (is_free || chosen.planes) layer.run(*instance, planes, device_planes, true);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(parse(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gather_conv_bench: %s\n", error.what());
    return 1;
  }
}
