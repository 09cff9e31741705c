// Where the time of MinkUNet42 goes on CUDA: its convolutions in order, each from buffers that the
// ones before it wrote, replayed as one graph. A layer's time is what the graph of the first n
// layers takes beyond that of the first n - 1, so that launch gaps, cold weights and what is still
// in the L2 cache count where they occur; beside it, the layer repeated alone.
//   layer_profile_bench [--cells FILE] [--dtype fp16] [--use RULE]... [--alone]
// RULE: level/cin/cout/instance/order, e.g. L3/256/256/64x256/planes; replaces the choice for the
// submanifold layers of that level and those channels (several rules: the last that fits). S3/...
// is for strided and inverse layers, P3/... for pointwise ones. Order: single or planes. Without a
// file: procedural surfaces.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <sstream>
#include <string>

#include "gemm_core/device/cuda/gather/gather_conv.hpp"
#include "tests/cuda/host_map.hpp"

namespace {

using base::DType;
using base::cuda::Buffer;
using gemm_core::cuda::GatherConv;
using gemm_core::cuda::Sm90Instance;
using gemm_core::cuda::TilePart;
using namespace cuda_tests;

constexpr int kLevels = 5, kRepeats = 21;

struct Rule {
  int taps = 27, level = 0, cin = 0, cout = 0;
  std::string instance;
  bool planes = false;
};

struct Options {
  std::string cells;
  DType dtype = DType::f16;
  bool alone = false;
  std::vector<Rule> rules;
};

Rule parse_rule(std::string text) {
  std::replace(text.begin(), text.end(), '/', ' ');
  std::istringstream words(text.substr(1));
  Rule rule;
  rule.taps = text[0] == 'P' ? 1 : text[0] == 'S' ? 8 : 27;
  std::string order;
  ENSURE(words >> rule.level >> rule.cin >> rule.cout >> rule.instance >> order, "rule ", text,
         " is not level/cin/cout/instance/order");
  rule.planes = order == "planes";
  return rule;
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--alone") {
      options.alone = true;
    } else {
      ENSURE(i + 1 < argc, "option ", name, " needs a value");
      const std::string value = argv[++i];
      if (name == "--cells")
        options.cells = value;
      else if (name == "--dtype")
        options.dtype = base::parse_dtype(value);
      else if (name == "--use")
        options.rules.push_back(parse_rule(value));
      else
        base::fail("option ", name, " is not known");
    }
  }
  return options;
}

// A map with both orders, made when first asked for.
class LayerMap {
 public:
  LayerMap(HostMap map, cudaStream_t stream) : map_(std::move(map)), stream_(stream) {}
  DeviceTable& table(bool planes) {
    auto& slot = planes ? planes_ : single_;
    if (!slot) {
      const HostTable host = planes ? order_planes(map_) : order_rows(map_);
      slot = std::make_unique<DeviceTable>(map_, host, stream_);
      executed_[planes] = executed_per_row(host, map_.rows);
    }
    return *slot;
  }
  double executed(bool planes) const { return executed_[planes]; }
  const HostMap& map() const { return map_; }

 private:
  HostMap map_;
  cudaStream_t stream_;
  std::unique_ptr<DeviceTable> single_, planes_;
  double executed_[2] = {};
};

// A matrix of a level's rows; layers use slices of it.
struct Matrix {
  int level = 0, width = 0;
  Buffer<std::uint8_t> data;
};
struct Slice {
  Matrix* matrix = nullptr;
  int first = 0, channels = 0;
};

class Network {
 public:
  Network(const Options& options, cudaStream_t stream) : options_(options), stream_(stream) {
    levels_[0] = options.cells.empty() ? surface_cells(96000, 1) : read_cells(options.cells);
    for (int l = 1; l < kLevels; ++l) levels_[l] = stride_two_parents(levels_[l - 1]);
    for (int l = 0; l < kLevels; ++l) {
      const Coords& cells = levels_[l];
      same_.emplace_back(build_map(cells, cells, {3, 3, 3}, 1, 1), stream);
      HostMap identity{1, rows_of(l), rows_of(l), {}};
      for (int i = 0; i < identity.rows; ++i) identity.table.push_back(i);
      point_.emplace_back(std::move(identity), stream);
      if (l == 0) continue;
      down_.emplace_back(build_map(levels_[l - 1], cells, {2, 2, 2}, 2, 0), stream);
      up_.emplace_back(inverse_of(down_.back().map()), stream);
    }
    build();
    prepare();
  }

  void profile() {
    std::printf("%-24s %6s %-9s %-24s %8s %8s %8s %8s %6s\n", "layer", "rows", "channels", "kernel",
                "us", "alone", "GFLOP", "executed", "TFLOP/s");
    double before = 0, useful_sum = 0, executed_sum = 0, alone_sum = 0;
    for (std::size_t n = 1; n <= layers_.size(); ++n) {
      const double until = time([&] {
        for (std::size_t i = 0; i < n; ++i) layers_[i].conv->run(stream_);
      });
      const Layer& layer = layers_[n - 1];
      const double alone = options_.alone ? time([&] {
                                              for (int k = 0; k < 20; ++k) layer.conv->run(stream_);
                                            }) / 20
                                          : 0;
      const double flop = 2e-9 * layer.cin * layer.cout;
      const double useful = flop * static_cast<double>(layer.map->map().pairs());
      const double executed = flop * layer.map->executed(layer.planes) * layer.map->map().rows;
      std::printf("%-24s %6d %3d->%-3d  %-24s %8.2f %8.2f %8.2f %8.2f %6.0f\n", layer.name.c_str(),
                  layer.map->map().rows, layer.cin, layer.cout, layer.conv->kernel_name().c_str(),
                  until - before, alone, useful, executed, executed / (until - before) * 1e3);
      before = until;
      useful_sum += useful;
      executed_sum += executed;
      alone_sum += alone;
    }
    std::printf("network %.1f us, layers alone %.1f us, %.1f GFLOP, %.1f executed\n", before,
                alone_sum, useful_sum, executed_sum);
  }

 private:
  struct Layer {
    std::string name;
    LayerMap* map = nullptr;
    int level = 0, cin = 0, cout = 0;
    Slice input, output, residual;
    bool relu = true, planes = false;
    const Sm90Instance* instance = nullptr;
    gemm_core::cuda::ConvWeights weights;
    std::optional<GatherConv> conv;
  };

  Slice make(int level, int width) {
    const auto bytes = base::bytes(storage(), std::int64_t{rows_of(level)} * width);
    matrices_.push_back({level, width, Buffer<std::uint8_t>(static_cast<std::size_t>(bytes))});
    CUDA_CHECK(cudaMemset(matrices_.back().data.data(), 0, static_cast<std::size_t>(bytes)));
    return {&matrices_.back(), 0, width};
  }
  // Matrices of a level that blocks use in turn, as an arena would give them out again.
  Slice scratch(int level, int width) {
    for (std::size_t i = 0; i < scratch_.size(); ++i) {
      if (scratch_[i].matrix->level == level && scratch_[i].matrix->width == width) {
        const Slice found = scratch_[i];
        scratch_.erase(scratch_.begin() + static_cast<std::ptrdiff_t>(i));
        return found;
      }
    }
    return make(level, width);
  }

  void conv(const std::string& name, LayerMap& map, Slice in, Slice out, bool relu = true,
            Slice residual = {}) {
    Layer layer;
    layer.name = name;
    layer.map = &map;
    layer.level = out.matrix->level;
    layer.cin = in.channels;
    layer.cout = out.channels;
    layer.input = in;
    layer.output = out;
    layer.residual = residual;
    layer.relu = relu;
    layers_.push_back(std::move(layer));
  }

  // relu(conv(relu(conv(x))) + shortcut(x)) into `to`.
  void block(const std::string& name, int level, Slice in, Slice to) {
    const Slice hidden = scratch(level, to.channels);
    Slice shortcut = in;
    const bool is_projected = in.channels != to.channels;
    if (is_projected) {
      shortcut = scratch(level, to.channels);
      conv(name + ".shortcut", point_[index(level)], in, shortcut, false);
    }
    conv(name + ".conv1", same_[index(level)], in, hidden);
    conv(name + ".conv2", same_[index(level)], hidden, to, true, shortcut);
    scratch_.push_back(hidden);
    if (is_projected) scratch_.push_back(shortcut);
  }

  void build() {
    const int encoder[5] = {32, 32, 64, 128, 256}, decoder[4] = {256, 128, 96, 96};
    Slice concat[4];  // of levels 3, 2, 1, 0: [up, skip]
    for (int s = 0; s < 4; ++s) concat[s] = make(3 - s, decoder[s] + encoder[3 - s]);
    const auto skip = [&](int level) {
      return Slice{concat[3 - level].matrix, decoder[3 - level], encoder[level]};
    };
    input_ = make(0, 32);  // four channels and padding, as frames pad their input
    const Slice stem = make(0, 32);
    conv("stem.0", same_[0], input_, stem);
    conv("stem.1", same_[0], stem, skip(0));
    Slice x = skip(0);
    for (int l = 1; l < kLevels; ++l) {
      const std::string stage = "encoder" + std::to_string(l);
      const Slice down = make(l, x.channels), middle = make(l, encoder[l]);
      conv(stage + ".down", down_[index(l - 1)], x, down);
      block(stage + ".0", l, down, middle);
      const Slice to = l < 4 ? skip(l) : make(l, encoder[l]);
      block(stage + ".1", l, middle, to);
      x = to;
    }
    for (int s = 0; s < 4; ++s) {
      const std::string stage = "decoder" + std::to_string(s);
      const int l = 3 - s;
      conv(stage + ".up", up_[index(l)], x, Slice{concat[s].matrix, 0, decoder[s]});
      const Slice middle = make(l, decoder[s]), to = make(l, decoder[s]);
      block(stage + ".0", l, concat[s], middle);
      block(stage + ".1", l, middle, to);
      x = to;
    }
    conv("head", point_[0], x, make(0, 24), false);
  }

  void choose(Layer& layer) const {
    const auto choice = gemm_core::cuda::choose_instance({.compute = options_.dtype,
                                                          .cin = layer.cin,
                                                          .cout = layer.cout,
                                                          .rows = layer.map->map().rows,
                                                          .taps = layer.map->map().taps});
    layer.instance = choice.instance;
    layer.planes = choice.planes && layer.map->map().taps == 27;
    for (const Rule& rule : options_.rules) {
      const bool fits = rule.level == layer.level && rule.cin == layer.cin &&
                        rule.cout == layer.cout && rule.taps == layer.map->map().taps;
      if (!fits) continue;
      layer.planes = rule.planes;
      layer.instance = nullptr;
      for (const Sm90Instance* instance : gemm_core::cuda::sm90_instances()) {
        const std::string name = instance->name;
        if (instance->element == options_.dtype && name.substr(name.find('_') + 1) == rule.instance)
          layer.instance = instance;
      }
      ENSURE(layer.instance != nullptr, "there is no instance ", rule.instance);
    }
  }

  void prepare() {
    std::mt19937 random(3);
    std::int64_t partials = 0;
    for (Layer& layer : layers_) {
      choose(layer);
      const int taps = layer.map->map().taps;
      // Values stay near one: six neighbours on average.
      std::normal_distribution<float> normal(
          0, 1 / std::sqrt(static_cast<float>(std::min(taps, 6) * layer.cin)));
      std::vector<float> w(index(layer.cout * taps * layer.cin));
      for (float& v : w) v = normal(random);
      layer.weights = gemm_core::cuda::upload_conv_weights({.weight = w.data(),
                                                            .cout = layer.cout,
                                                            .taps = taps,
                                                            .cin = layer.cin,
                                                            .compute = options_.dtype});
      if (layer.planes)
        partials = std::max(partials, gemm_core::cuda::partial_floats(
                                          *layer.instance, layer.map->map().rows, layer.cout));
    }
    partials_ = Buffer<float>(index(partials));
    const std::vector<float> ones(512, 1.f);  // scale and shift of every layer
    ones_ = Buffer<float>(512);
    upload(ones_, ones.data(), 512, stream_);
    fill_input();
    for (Layer& layer : layers_) prepare_layer(layer);
  }

  void prepare_layer(Layer& layer) {
    gemm_core::cuda::GatherConvArguments a;
    a.weights = &layer.weights;
    a.input = view(layer.input);
    const auto out = view(layer.output);
    a.output = {const_cast<void*>(out.data), out.dtype, out.device, out.shape, out.stride};
    a.epilogue.scale_shift(ones_.data(), ones_.data());
    if (layer.residual.matrix != nullptr) a.epilogue.add(view(layer.residual));
    if (layer.relu) a.epilogue.activate(gemm_core::Activation::relu);
    a.overlap = true;
    a.instance = layer.instance;
    DeviceTable& table = layer.map->table(layer.planes);
    a.table = table.view();
    if (layer.instance == nullptr) {
      layer.conv.emplace(a);
      return;
    }
    const int lists =
        gemm_core::cuda::lists_for(*layer.instance, layer.cout, base::cuda::device_info(0));
    const auto schedule = [&](TilePart part) {
      return table.schedule(part, layer.instance->tile_m, lists, stream_);
    };
    a.centre = schedule(TilePart::centre);
    if (layer.planes) {
      a.outer = schedule(TilePart::outer);
      a.partials = partials_.data();
    }
    layer.conv.emplace(a);
  }

  void fill_input() {
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0, 1);
    std::vector<std::uint8_t> host(input_.matrix->data.size());
    base::visit_dtype<float, base::half_t, base::bf16_t>(storage(), "bench", [&]<class T>() {
      for (std::size_t i = 0; i < host.size() / sizeof(T); ++i)
        reinterpret_cast<T*>(host.data())[i] = T(normal(random));
    });
    CUDA_CHECK(
        cudaMemcpy(input_.matrix->data.data(), host.data(), host.size(), cudaMemcpyHostToDevice));
  }

  template <class Work>
  double time(const Work& work) {
    work();
    CUDA_CHECK(cudaStreamSynchronize(stream_));
    const auto graph = base::cuda::Graph::capture(stream_, work);
    const auto begin = base::cuda::Event::create(), end = base::cuda::Event::create();
    std::vector<double> times;
    for (int i = 0; i < kRepeats + 3; ++i) {
      begin.record(stream_);
      graph.launch(stream_);
      end.record(stream_);
      end.synchronize();
      if (i >= 3) times.push_back(base::cuda::elapsed_ms(begin, end) * 1000);
    }
    std::sort(times.begin(), times.end());
    return times[kRepeats / 2];
  }

  DType storage() const { return options_.dtype == DType::tf32 ? DType::f32 : options_.dtype; }
  base::ConstTensorView view(const Slice& slice) const {
    const Matrix& m = *slice.matrix;
    return {m.data.data() + base::bytes(storage(), slice.first),
            storage(),
            {base::Device::Kind::cuda, 0},
            {rows_of(m.level), slice.channels},
            {m.width, 1}};
  }
  int rows_of(int level) const { return static_cast<int>(levels_[level].size()); }
  static std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

  Options options_;
  cudaStream_t stream_;
  Coords levels_[kLevels];
  std::deque<LayerMap> same_, point_, down_, up_;
  std::deque<Matrix> matrices_;
  std::vector<Slice> scratch_;
  std::deque<Layer> layers_;
  Slice input_;
  Buffer<float> partials_, ones_;
};

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto stream = base::cuda::Stream::create();
    Network(parse(argc, argv), stream.get()).profile();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "layer_profile_bench: %s\n", error.what());
    return 1;
  }
}
