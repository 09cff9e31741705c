#include "sparseconv/device_timing.hpp"

#include <algorithm>
#include <random>

#include "gemm_core/device/cuda/gather/gather_conv.hpp"
#include "gemm_core/device/cuda/gather/tile_schedule.hpp"
#include "sparseconv/cuda/maps/frame_maps.hpp"
#include "sparseconv/cuda/room.hpp"
#include "sparseconv/cuda/voxels/voxelizer.hpp"

namespace sparseconv {
namespace {

using base::DType;
using cuda::at;
using gemm_core::cuda::TilePart;

constexpr int kLaunches = 20, kWarmup = 3;

// Milliseconds of each launch of a graph.
std::vector<double> replay(const base::cuda::Graph& graph, cudaStream_t stream, int rounds) {
  const auto begin = base::cuda::Event::create(), end = base::cuda::Event::create();
  std::vector<double> times;
  for (int round = -kWarmup; round < rounds; ++round) {
    begin.record(stream);
    graph.launch(stream);
    end.record(stream);
    end.synchronize();
    if (round >= 0) times.push_back(base::cuda::elapsed_ms(begin, end));
  }
  return times;
}

const base::cuda::DeviceInfo& device_of(base::Device device) {
  ENSURE(base::cuda::device_count() > 0, "device ", base::to_string(device),
         ": no CUDA device was found");
  return base::cuda::device_info(device.index);
}

// Matrix products of 8192 by 8192 by 8192, dense, on an H200 (cuBLAS of CUDA 13.0, 2026-11).
double dense_flops(const base::cuda::DeviceInfo& device, DType dtype) {
  if (!device.has_wgmma()) return 0;
  return dtype == DType::f32 ? 60e12 : dtype == DType::tf32 ? 410e12 : 767e12;
}

base::cuda::Buffer<std::uint8_t> random_features(std::int64_t values, DType type) {
  base::cuda::Buffer<std::uint8_t> data(at(base::bytes(type, values)));
  std::vector<std::uint8_t> host(data.size());
  std::mt19937 random(1);
  base::visit_dtype<float, base::half_t, base::bf16_t>(type, "time_layer", [&]<class T>() {
    for (std::int64_t i = 0; i < values; ++i) {
      reinterpret_cast<T*>(host.data())[i] =
          T(static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 1000);
    }
  });
  if (!host.empty())
    CUDA_CHECK(cudaMemcpy(data.data(), host.data(), host.size(), cudaMemcpyHostToDevice));
  return data;
}

// A frame's maps of one layer, built and kept.
class LayerMaps {
 public:
  LayerMaps(const LayerTiming& layer, cuda::RowOrder order, cudaStream_t stream)
      : maps_(spec_of(layer, order)) {
    const auto keys = layer.input->keys();
    const auto rows = static_cast<std::int64_t>(keys.size());
    const bool is_strided = layer.geometry.stride != std::array{1, 1, 1};
    cuda::FrameCapacity capacity{.rows = {rows}, .is_input_sorted = layer.input->is_sorted()};
    if (is_strided) capacity.rows.push_back(8 * rows);
    maps_.reserve(capacity);
    maps_.build({.keys = keys.data(),
                 .rows = rows,
                 .batch_size = layer.input->batch_size(),
                 .spatial_shape = layer.input->spatial_shape()},
                stream);
    CUDA_CHECK(cudaStreamSynchronize(stream));
  }
  cuda::DeviceMapView view() const { return maps_.view(0); }

 private:
  static cuda::FrameSpec spec_of(const LayerTiming& layer, cuda::RowOrder order) {
    cuda::FrameSpec spec;
    spec.sets.push_back({});
    const bool is_strided = layer.geometry.stride != std::array{1, 1, 1};
    if (is_strided) spec.sets.push_back({cuda::SetSpec::Kind::strided, 0, layer.geometry, {}});
    spec.maps.push_back({.geometry = layer.geometry,
                         .input = 0,
                         .output = is_strided ? 1 : 0,
                         .order = order,
                         .needs_canonical = order == cuda::RowOrder::none});
    return spec;
  }
  cuda::FrameMaps maps_;
};

struct Schedules {
  std::vector<base::cuda::Buffer<gemm_core::TileRecord>> records;
  std::vector<base::cuda::Buffer<std::int32_t>> scratch;

  gemm_core::TileSchedule make(const gemm_core::GatherTable& table, TilePart part, int tile,
                               int lists, cudaStream_t stream) {
    const std::int32_t pitch = gemm_core::cuda::schedule_pitch(table.capacity, tile, lists);
    records.emplace_back(at(std::int64_t{pitch} * lists));
    scratch.emplace_back(at(table.capacity / tile + 1));
    const gemm_core::cuda::TileScheduleJob jobs[] = {
        {table, part, tile, lists, pitch, records.back().data(), scratch.back().data()}};
    gemm_core::cuda::build_tile_schedules(jobs, stream);
    return {tile, lists, pitch, records.back().data()};
  }
};

}  // namespace

DeviceLimits device_limits(base::Device device, DType dtype) {
  const auto& info = device_of(device);
  const base::cuda::DeviceGuard guard(device.index);
  constexpr std::size_t kBytes = std::size_t{1} << 30;
  base::cuda::Buffer<std::uint8_t> from(kBytes), to(kBytes);
  const auto stream = base::cuda::Stream::create();
  const auto graph = base::cuda::Graph::capture(stream.get(), [&] {
    CUDA_CHECK(
        cudaMemcpyAsync(to.data(), from.data(), kBytes, cudaMemcpyDeviceToDevice, stream.get()));
  });
  auto times = replay(graph, stream.get(), 9);
  std::sort(times.begin(), times.end());
  cudaDeviceProp properties{};
  CUDA_CHECK(cudaGetDeviceProperties(&properties, device.index));
  return {.name = properties.name,
          .bytes_per_second = 2.0 * kBytes / (times[4] * 1e-3),
          .flops = dense_flops(info, dtype)};
}

LayerTimes time_layer(const LayerTiming& layer, base::Device device, int rounds) {
  const auto& info = device_of(device);
  const base::cuda::DeviceGuard guard(device.index);
  const auto stream = base::cuda::Stream::create();
  const DType storage = layer.dtype == DType::tf32 ? DType::f32 : layer.dtype;
  const std::int64_t rows = layer.input->size(), taps = layer.geometry.taps();
  auto choice = gemm_core::cuda::choose_instance(
      {.compute = layer.dtype, .cin = layer.cin, .cout = layer.cout, .rows = rows, .taps = taps});
  const bool suits = info.has_wgmma() && taps <= gemm_core::kMaxMaskedTaps;
  if (!suits) choice = {};
  choice.planes = choice.planes && layer.geometry.kernel == std::array{3, 3, 3};
  const cuda::RowOrder order = taps > gemm_core::kMaxMaskedTaps ? cuda::RowOrder::none
                               : choice.planes                  ? cuda::RowOrder::planes
                                                                : cuda::RowOrder::single;
  const LayerMaps maps(layer, order, stream.get());
  const cuda::DeviceMapView map = maps.view();
  std::vector<float> weight(at(layer.cout * taps * layer.cin));
  for (std::size_t i = 0; i < weight.size(); ++i)
    weight[i] = static_cast<float>(i * 37 % 101) / 101 - 0.5f;
  const auto weights = gemm_core::cuda::upload_conv_weights({.weight = weight.data(),
                                                             .cout = layer.cout,
                                                             .taps = taps,
                                                             .cin = layer.cin,
                                                             .compute = layer.dtype});
  const auto input = random_features(rows * layer.cin, storage);
  auto output = random_features(map.row_capacity * layer.cout, storage);
  gemm_core::cuda::GatherConvArguments a;
  a.input = {input.data(), storage, device, {rows, layer.cin}, {layer.cin, 1}};
  a.weights = &weights;
  a.output = {output.data(), storage, device, {map.row_capacity, layer.cout}, {layer.cout, 1}};
  a.row_count = map.row_count;
  a.overlap = true;
  a.table = map.table;
  a.canonical = map.canonical;
  a.canonical_pitch = map.row_capacity;
  Schedules schedules;
  base::cuda::Buffer<float> partials;
  if (choice.instance != nullptr) {
    a.instance = choice.instance;
    const int lists = gemm_core::cuda::lists_for(*choice.instance, layer.cout, info);
    const int tile = choice.instance->tile_m;
    a.centre = schedules.make(a.table, TilePart::centre, tile, lists, stream.get());
    if (choice.planes) {
      a.outer = schedules.make(a.table, TilePart::outer, tile, lists, stream.get());
      partials = base::cuda::Buffer<float>(
          at(gemm_core::cuda::partial_floats(*choice.instance, map.row_capacity, layer.cout)));
      a.partials = partials.data();
    }
  }
  const gemm_core::cuda::GatherConv conv(a);
  stream.synchronize();
  const auto graph = base::cuda::Graph::capture(stream.get(), [&] {
    for (int i = 0; i < kLaunches; ++i) conv.run(stream.get());
  });
  LayerTimes times{replay(graph, stream.get(), rounds), conv.kernel_name()};
  for (double& ms : times.milliseconds) ms /= kLaunches;
  return times;
}

std::vector<double> time_maps(const MapTiming& timing, base::Device device, int rounds) {
  device_of(device);
  const base::cuda::DeviceGuard guard(device.index);
  const auto stream = base::cuda::Stream::create();
  const ConvGeometry half{.kernel = {2, 2, 2}, .stride = {2, 2, 2}};
  const auto order = timing.has_order ? cuda::RowOrder::single : cuda::RowOrder::none;
  cuda::FrameSpec spec;
  spec.sets.push_back({});
  for (int l = 0; l < timing.levels; ++l) {
    if (l > 0) {
      spec.sets.push_back({cuda::SetSpec::Kind::strided, l - 1, half, {}});
      const int down = static_cast<int>(spec.maps.size());
      spec.maps.push_back({.geometry = half,
                           .input = l - 1,
                           .output = l,
                           .order = order,
                           .needs_canonical = !timing.has_order});
      spec.maps.push_back(
          {KernelMap::Kind::inverse, half, l, l - 1, down, order, !timing.has_order});
    }
    spec.maps.push_back({.geometry = ConvGeometry::submanifold({3, 3, 3}),
                         .input = l,
                         .output = l,
                         .order = order,
                         .needs_canonical = !timing.has_order});
  }
  const auto keys = timing.input->keys();
  const auto rows = static_cast<std::int64_t>(keys.size());
  cuda::FrameMaps maps(spec);
  maps.reserve({.rows = std::vector<std::int64_t>(spec.sets.size(), rows),
                .is_input_sorted = timing.input->is_sorted()});
  // Sorted keys stay where a voxelizer writes them; others are sorted there, so that each build
  // needs them again.
  base::cuda::Buffer<Key> device_keys(keys.size());
  upload(device_keys, keys.data(), keys.size(), stream.get());
  if (rows > 0)
    CUDA_CHECK(cudaMemcpyAsync(maps.input_keys(), keys.data(), keys.size() * sizeof(Key),
                               cudaMemcpyHostToDevice, stream.get()));
  stream.synchronize();
  const Key* const fresh = timing.input->is_sorted() ? nullptr : device_keys.data();
  const auto graph = base::cuda::Graph::capture(stream.get(), [&] {
    maps.build({.keys = fresh, .rows = rows, .batch_size = timing.input->batch_size()},
               stream.get());
  });
  return replay(graph, stream.get(), rounds);
}

std::vector<double> time_voxelize(std::span<const io::Cloud* const> clouds,
                                  const VoxelizeOptions& options, base::Device device, int rounds) {
  device_of(device);
  const base::cuda::DeviceGuard guard(device.index);
  const auto stream = base::cuda::Stream::create();
  std::int64_t points = 0;
  for (const io::Cloud* cloud : clouds) points += cloud->size();
  const auto count = static_cast<std::int32_t>(clouds.size());
  cuda::DeviceVoxelizer voxelizer(options);
  voxelizer.reserve({.points = points, .clouds = count});
  voxelizer.upload(clouds, stream.get());
  stream.synchronize();
  const auto graph =
      base::cuda::Graph::capture(stream.get(), [&] { voxelizer.build(count, stream.get()); });
  return replay(graph, stream.get(), rounds);
}

}  // namespace sparseconv
