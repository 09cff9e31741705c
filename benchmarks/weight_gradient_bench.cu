// Times the gradient of a convolution's weights on CUDA, layer by layer, every compiled
// configuration beside the forward pass, and checks each against the SIMT kernel first.
//   weight_gradient_cuda_bench [--cells FILE] [--parents N] [--dtype fp16|bf16|tf32]
//   [--channels 32,64] [--out-channels ...]
// Without a file: procedural surfaces. Times are graph replays of 20 launches, divided;
// median of 15.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <random>
#include <string>

#include "benchmarks/support/graph_timing.hpp"
#include "gemm_core/device/cuda/gather/gather_conv.hpp"
#include "gemm_core/device/cuda/gather/pair_lists.hpp"
#include "gemm_core/device/cuda/gather/weight_gradient.hpp"
#include "tests/cuda/host_map.hpp"

namespace {

using base::DType;
using base::cuda::Buffer;
using namespace cuda_tests;
using gemm_core::cuda::WeightGradient;

constexpr base::Device kDevice{base::Device::Kind::cuda, 0};

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

DType storage(DType dtype) { return dtype == DType::tf32 ? DType::f32 : dtype; }

// Values that the type holds exactly.
Buffer<std::uint8_t> random_rows(int rows, int channels, DType dtype, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1);
  const auto count = index(std::int64_t{rows} * channels);
  std::vector<std::uint8_t> host(count * index(base::bytes(storage(dtype))));
  base::visit_dtype<base::tf32_t, base::half_t, base::bf16_t>(dtype, "bench", [&]<class T>() {
    for (std::size_t i = 0; i < count; ++i)
      reinterpret_cast<T*>(host.data())[i] = T(normal(random));
  });
  Buffer<std::uint8_t> buffer(host.size());
  CUDA_CHECK(cudaMemcpy(buffer.data(), host.data(), host.size(), cudaMemcpyHostToDevice));
  return buffer;
}

// The map's pair lists on the device.
struct Pairs {
  Buffer<std::int32_t> table, memory;
  gemm_core::cuda::PairListJob job;
  Pairs(const HostMap& map, cudaStream_t stream) : table(map.table.size()) {
    upload(table, map.table.data(), map.table.size(), stream);
    const auto capacity = gemm_core::cuda::pair_capacity(map.rows, map.taps);
    memory =
        Buffer<std::int32_t>(index(2 * capacity + gemm_core::cuda::pair_scratch(map.taps) + 64));
    job.table = table.data();
    job.pitch = job.rows = map.rows;
    job.taps = map.taps;
    job.inputs = memory.data();
    job.outputs = memory.data() + capacity;
    job.tap_begin = memory.data() + 2 * capacity;
    job.scratch = memory.data() + 2 * capacity + 64;
    std::printf("pair lists: %.1f us\n", benchmarks::graph_microseconds(stream, [&] {
                  gemm_core::cuda::build_pair_lists({&job, 1}, stream);
                }));
  }
};

double forward_time(const HostMap& map, DeviceTable& table, int cin, int cout, DType dtype,
                    const Buffer<std::uint8_t>& x, cudaStream_t stream) {
  const std::vector<float> w(index(std::int64_t{cout} * map.taps * cin), 0.01f);
  const auto weights = gemm_core::cuda::upload_conv_weights(
      {.weight = w.data(), .cout = cout, .taps = map.taps, .cin = cin, .compute = dtype});
  const DType type = storage(dtype);
  Buffer<std::uint8_t> y(index(base::bytes(type, std::int64_t{map.rows} * cout)));
  gemm_core::cuda::GatherConvArguments a;
  a.input = {x.data(), type, kDevice, {map.inputs, cin}, {cin, 1}};
  a.output = {y.data(), type, kDevice, {map.rows, cout}, {cout, 1}};
  a.weights = &weights;
  a.overlap = true;
  const auto choice = gemm_core::cuda::choose_instance({dtype, cin, cout, map.rows, map.taps});
  if (choice.instance == nullptr) return 0;
  a.instance = choice.instance;
  a.table = table.view();
  a.centre = table.schedule(
      gemm_core::cuda::TilePart::centre, choice.instance->tile_m,
      gemm_core::cuda::lists_for(*choice.instance, cout, base::cuda::device_info(0)), stream);
  const gemm_core::cuda::GatherConv conv(a);
  return benchmarks::graph_microseconds(stream, [&] { conv.run(stream); });
}

void time_layer(const HostMap& map, DeviceTable& table, const Pairs& pairs, int cin, int cout,
                DType dtype, cudaStream_t stream) {
  const auto x = random_rows(map.inputs, cin, dtype, 1), dy = random_rows(map.rows, cout, dtype, 2);
  const DType type = storage(dtype);
  const double forward = forward_time(map, table, cin, cout, dtype, x, stream);
  std::printf("%d -> %d, %d rows: forward in one order %.1f us\n", cin, cout, map.rows, forward);
  gemm_core::cuda::WeightGradientArguments a;
  a.input = {x.data(), type, kDevice, {map.inputs, cin}, {cin, 1}};
  a.gradient = {dy.data(), type, kDevice, {map.rows, cout}, {cout, 1}};
  a.pairs = pairs.job.view();
  a.cin = cin;
  a.cout = cout;
  std::vector<const gemm_core::cuda::Sm90PairInstance*> kernels{nullptr};
  for (const auto& instance : dtype == DType::f16    ? gemm_core::cuda::sm90_f16_pair_instances()
                              : dtype == DType::bf16 ? gemm_core::cuda::sm90_bf16_pair_instances()
                                                     : gemm_core::cuda::sm80_tf32_pair_instances())
    kernels.push_back(&instance);
  const auto* chosen = gemm_core::cuda::choose_pair_instance(dtype, cin, cout, 1, true, 0);
  std::vector<float> reference;
  for (const auto* kernel : kernels) {
    a.instance = kernel;
    Buffer<float> pieces(index(WeightGradient::piece_floats(a)));
    Buffer<float> to(index(std::int64_t{cout} * map.taps * cin));
    a.pieces = pieces.data();
    a.weight_gradient = to.data();
    const WeightGradient op(a);
    op.run(stream);
    std::vector<float> got(to.size());
    download(got.data(), to, got.size(), stream);
    CUDA_CHECK(cudaStreamSynchronize(stream));
    if (kernel == nullptr) reference = got;
    double worst = 0, largest = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double d = std::abs(double(got[i]) - reference[i]);
      worst = d <= worst ? worst : d;
      largest = std::max(largest, std::abs(double(reference[i])));
    }
    const double time = benchmarks::graph_microseconds(stream, [&] { op.run(stream); });
    const double work = 2.0 * static_cast<double>(map.pairs()) * cin * cout;
    std::printf("  %-22s%s %8.1f us  %5.2f x forward  %6.1f TFLOP/s  error %.1e\n",
                op.kernel_name(), kernel == chosen ? " *" : "  ", time,
                forward > 0 ? time / forward : 0.0, work / time * 1e-6, worst / largest);
  }
}

std::vector<int> parse_list(const std::string& text) {
  std::vector<int> values;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    values.push_back(std::stoi(text.substr(at, comma - at)));
    at = comma + 1;
  }
  return values;
}

int run(int argc, char** argv) {
  std::string cells_path;
  int parents = 0;
  DType dtype = DType::f16;
  std::vector<int> cin{32, 64, 128, 256}, cout;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--cells")
      cells_path = value;
    else if (name == "--parents")
      parents = std::stoi(value);
    else if (name == "--dtype")
      dtype = base::parse_dtype(value);
    else if (name == "--channels")
      cin = parse_list(value);
    else if (name == "--out-channels")
      cout = parse_list(value);
    else
      base::fail("option ", name, " is not known");
  }
  if (cout.empty()) cout = cin;
  ENSURE(cin.size() == cout.size(), "as many output channels as input channels, please");
  Coords cells = cells_path.empty() ? surface_cells(96768, 1) : read_cells(cells_path);
  for (int i = 0; i < parents; ++i) cells = stride_two_parents(cells);
  const HostMap map = build_map(cells, cells, {3, 3, 3}, 1, 1);
  std::printf("%d rows, %.2f pairs a row\n", map.rows,
              static_cast<double>(map.pairs()) / std::max(1, map.rows));
  const auto stream = base::cuda::Stream::create();
  const HostTable host = order_rows(map);
  DeviceTable table(map, host, stream.get());
  const Pairs pairs(map, stream.get());
  for (std::size_t i = 0; i < cin.size(); ++i)
    time_layer(map, table, pairs, cin[i], cout[i], dtype, stream.get());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
