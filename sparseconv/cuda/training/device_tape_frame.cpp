// Frames of DeviceTape: memory and launches for a size of frames, copies, maps, what is checked
// when a frame is done.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "sparseconv/cuda/plan_sets.hpp"
#include "sparseconv/cuda/room.hpp"
#include "sparseconv/cuda/training/device_tape.hpp"
#include "sparseconv/cuda/training/move_gradients.hpp"

namespace sparseconv::cuda {

using Kind = PlanStep::Kind;

namespace {

void send(void* to, const void* from, std::size_t bytes, cudaStream_t stream) {
  if (bytes > 0) CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream));
}

}  // namespace

void DeviceTape::begin(const FrameInput& input) {
  ENSURE(input.voxels.coordinates != nullptr, "tape: the input has no coordinates");
  ENSURE(!input.has_points, "tape: training on CUDA takes voxels, not points");
  input.voxels.check("tape");
  ENSURE(input.voxels.channels() == plan_.input.channels || plan_.input.buffer < 0,
         "tape: the input has ", input.voxels.channels(), " channels, the model takes ",
         plan_.input.channels);
  const base::cuda::DeviceGuard guard(device_);
  const Shape wanted = shape_for(input);
  if (!is_prepared_for(wanted))
    prepare(wanted);
  else if (is_roomy_)
    tighten();
  const cudaStream_t stream = stream_.get();
  if (after_launch) {
    copy_keys(input);
    begin_.record(stream);
    packer_.run(stream);
    launch_maps();
    after_maps_.record(stream);
    copy_features(input);
    launch_forward();
    after_forward_.record(stream);
    return;
  }
  if (!maps_graph_) {
    maps_graph_ = base::cuda::Graph::capture(stream, [&] {
      begin_.record_in_graph(stream);
      fork(forks_.front());
      packer_.run(beside_.get());
      launch_maps();
      join(joins_.front());
      after_maps_.record_in_graph(stream);
    });
    forward_graph_ = base::cuda::Graph::capture(stream, [&] {
      launch_forward();
      after_forward_.record_in_graph(stream);
    });
  }
  // The host stages features while the device builds maps.
  copy_keys(input);
  maps_graph_.launch(stream);
  copy_features(input);
  forward_graph_.launch(stream);
}

void DeviceTape::launch_forward() {
  const cudaStream_t stream = stream_.get();
  load_features();
  run_all(forward_);
  for (std::size_t i = 0; i < plan_.outputs.size(); ++i) {
    if (!plan_.outputs[i].is_dense) {
      zero_rows(output_gradient(i), rows_of(plan_.outputs[i].level), stream);
    } else if (dense_[i].gradients.size() > 0) {
      CUDA_CHECK(
          cudaMemsetAsync(dense_[i].gradients.data(), 0, dense_[i].gradients.nbytes(), stream));
    }
  }
}

void DeviceTape::backward() {
  const base::cuda::DeviceGuard guard(device_);
  const auto launch = [&] {
    if (after_launch)
      run_all(backward_);
    else
      run_beside(backward_);
    for (const PlanSlice& part : planned_.input_cleared)
      zero_rows(view(part), rows_of(0), stream_.get());
  };
  if (after_launch) return launch();
  if (!backward_graph_) backward_graph_ = base::cuda::Graph::capture(stream_.get(), launch);
  backward_graph_.launch(stream_.get());
}

bool DeviceTape::finish() {
  const base::cuda::DeviceGuard guard(device_);
  const cudaStream_t stream = stream_.get();
  const std::size_t of_maps = maps_->status_size();
  after_backward_.record(stream);
  CUDA_CHECK(cudaMemcpyAsync(host_status_.data(), maps_->status(), of_maps * sizeof(std::int32_t),
                             cudaMemcpyDeviceToHost, stream));
  if (!plan_.checks.empty())
    CUDA_CHECK(cudaMemcpyAsync(host_status_.data() + of_maps, mismatches_.data(),
                               plan_.checks.size() * sizeof(std::int32_t), cudaMemcpyDeviceToHost,
                               stream));
  stream_.synchronize();
  const FrameMaps::Sizes sizes = maps_->check({host_status_.data(), of_maps});
  if (sizes.exceeds) {
    Shape larger = shape_;
    for (std::size_t set = 0; set < sizes.rows.size(); ++set) {
      std::int64_t& rows = larger.rows[at(levels_of_sets_[set])];
      if (sizes.rows[set] > rows) rows = with_room(sizes.rows[set]);
    }
    prepare(larger);
    return false;
  }
  check_levels(sizes);
  bounds_.learn(sizes.rows, levels_of_sets_);
  const auto sum = [](const std::vector<std::int64_t>& of) {
    return std::accumulate(of.begin(), of.end(), std::int64_t{0});
  };
  const std::int64_t rows = shape_.rows[0];
  is_roomy_ = sum(shape_.rows) > 2 * sum(bounds_(rows, rows, shape_.batch_size));
  maps_ms_ = base::cuda::elapsed_ms(begin_, after_maps_);
  forward_ms_ = base::cuda::elapsed_ms(after_maps_, after_forward_);
  backward_ms_ = base::cuda::elapsed_ms(after_forward_, after_backward_);
  return true;
}

void DeviceTape::check_levels(const FrameMaps::Sizes& sizes) const {
  for (std::size_t i = 0; i < plan_.checks.size(); ++i) {
    const std::int32_t mismatch = host_status_.data()[maps_->status_size() + i];
    if (mismatch == 0) continue;
    const LevelCheck& check = plan_.checks[i];
    const auto rows = [&](int level) { return sizes.rows[at(set_of_level_[at(level)])]; };
    const std::string where =
        rows(check.first) != rows(check.second)
            ? base::concat(rows(check.first), " and ", rows(check.second), " rows")
            : base::concat("they differ from row ", 0x7fffffff - mismatch);
    base::fail("node '", check.node, "': its inputs stand on different coordinates: ", where);
  }
}

DeviceTape::Shape DeviceTape::shape_for(const FrameInput& input) const {
  const Coordinates& coordinates = *input.voxels.coordinates;
  const std::int64_t rows = with_room(input.voxels.rows());
  return {.rows = bounds_(rows, rows, coordinates.batch_size()),
          .batch_size = coordinates.batch_size(),
          .spatial_shape = coordinates.spatial_shape(),
          .is_sorted = coordinates.is_sorted(),
          .features = input.voxels.features.dtype()};
}

// The rows asked for have room to spare, so what is there may be smaller, as long as the frame
// itself fits.
bool DeviceTape::is_prepared_for(const Shape& shape) const {
  return is_prepared_ && shape.batch_size == shape_.batch_size &&
         shape.spatial_shape == shape_.spatial_shape && shape.is_sorted == shape_.is_sorted &&
         shape.features == shape_.features && shape.rows[0] <= shape_.rows[0];
}

// Once for a shape: bounds only grow. Memory and launches follow them.
void DeviceTape::tighten() {
  Shape tight = shape_;
  tight.rows = bounds_(shape_.rows[0], shape_.rows[0], shape_.batch_size);
  maps_.emplace(make_spec());
  arena_.reset();
  partials_.reset();
  prepare(tight);
}

void DeviceTape::prepare(const Shape& shape) {
  is_prepared_ = is_roomy_ = false;
  shape_ = shape;
  maps_graph_.reset();
  forward_graph_.reset();
  backward_graph_.reset();
  forward_.clear();
  backward_.clear();
  tables_.clear();
  pair_jobs_.clear();
  pair_memory_.clear();
  pairs_of_level_.clear();
  FrameCapacity capacity;
  for (const int level : levels_of_sets_) capacity.rows.push_back(shape_.rows[at(level)]);
  capacity.is_input_sorted = shape_.is_sorted;
  maps_->reserve(capacity);
  // What maps have room for is the bound: so they and the steps agree on what exceeds it.
  for (std::size_t set = 0; set < capacity.rows.size(); ++set)
    shape_.rows[at(levels_of_sets_[set])] = maps_->row_capacity(static_cast<int>(set));
  place_buffers(plan_, shape_.rows, static_cast<int>(base::bytes(storage_)), placement_);
  make_room(arena_, at(placement_.bytes));
  const std::int64_t rows = shape_.rows[0];
  const auto feature_bytes = at(rows * plan_.input.channels * base::bytes(shape_.features));
  make_room(features_, feature_bytes);
  make_room(host_features_, feature_bytes);
  make_room(host_keys_, at(rows));
  make_room(row_count_, 1);
  make_room(host_row_count_, 1);
  make_room(mismatches_, plan_.checks.size());
  make_room(host_status_, maps_->status_size() + plan_.checks.size());
  prepare_dense();
  prepare_pairs();
  prepare_scratch();
  const auto prepare_step = [&](std::size_t s, const char* what, auto&& body) {
    step_ = s;
    try {
      body();
    } catch (const base::cuda::OutOfMemory&) {
      throw;
    } catch (const base::Error& error) {
      base::fail(what, "node '", plan_.steps[s].node, "': ", error.what());
    }
  };
  for (std::size_t s = 0; s < plan_.steps.size(); ++s)
    prepare_step(s, "", [&] { prepare_forward(s); });
  for (std::size_t s = plan_.steps.size(); s-- > 0;) {
    if (planned_.backward[s].runs) prepare_step(s, "gradient of ", [&] { prepare_backward(s); });
  }
  const auto beside = std::count_if(backward_.begin(), backward_.end(),
                                    [](const NamedLaunch& launch) { return launch.is_beside; });
  while (std::ssize(forks_) < std::max<std::ptrdiff_t>(1, beside)) {
    forks_.push_back(base::cuda::Event::create());
    joins_.push_back(base::cuda::Event::create());
  }
  running_.clear();
  for (std::size_t s = 0; s < plan_.steps.size(); ++s) {
    if (offsets_[s].running_mean < 0) continue;
    running_.push_back({.mean = offsets_[s].running_mean,
                        .variance = offsets_[s].running_variance,
                        .channels = static_cast<std::int32_t>(plan_.steps[s].output.channels),
                        .rows = rows_of(plan_.steps[s].output_level)});
  }
  make_room(running_jobs_, running_.size());
  base::cuda::upload(running_jobs_, running_.data(), running_.size(), stream_.get());
  stream_.synchronize();
  is_prepared_ = true;
}

// One list a map that a product with weights reads, and one a level of those without a map.
void DeviceTape::prepare_pairs() {
  pairs_of_map_.assign(plan_.maps.size(), -1);
  const auto add = [&](gemm_core::cuda::PairListJob job) {
    const std::int64_t capacity = gemm_core::cuda::pair_capacity(job.rows, job.taps);
    const std::int64_t scratch = gemm_core::cuda::pair_scratch(job.taps);
    auto& memory = pair_memory_.emplace_back(at(2 * capacity + scratch + job.taps + 1));
    job.inputs = memory.data();
    job.outputs = job.inputs + capacity;
    job.tap_begin = job.outputs + capacity;
    job.scratch = job.tap_begin + job.taps + 1;
    pair_jobs_.push_back(job);
    return static_cast<int>(pair_jobs_.size()) - 1;
  };
  for (std::size_t s = 0; s < plan_.steps.size(); ++s) {
    const PlanStep& step = plan_.steps[s];
    if (step.kind != Kind::convolution || !planned_.backward[s].runs) continue;
    const RowCount rows = rows_of(step.output_level);
    if (step.map < 0) {
      if (!pairs_of_level_.contains(step.output_level))
        pairs_of_level_[step.output_level] =
            add({.taps = 1, .row_count = rows.count, .rows = rows.bound});
    } else if (pairs_of_map_[at(step.map)] < 0) {
      const DeviceMapView map = maps_->view(step.map);
      pairs_of_map_[at(step.map)] = add({.table = map.canonical,
                                         .pitch = map.row_capacity,
                                         .taps = static_cast<std::int32_t>(step.taps),
                                         .row_count = rows.count,
                                         .rows = rows.bound});
    }
  }
}

// What steps use one at a time.
void DeviceTape::prepare_scratch() {
  std::int64_t partials = 0, sums = 0, winners = 0, pieces = 0, blends = 0, shares = 0;
  for (std::size_t s = 0; s < plan_.steps.size(); ++s) {
    const PlanStep& step = plan_.steps[s];
    if (step.output.buffer < 0) continue;
    const std::int64_t rows = shape_.rows[at(step.output_level)];
    sums = std::max(sums, sum_scratch(step.output.channels));
    if (step.kind == Kind::max_pool || step.kind == Kind::avg_pool || step.kind == Kind::global_max)
      winners = std::max(winners, rows * step.output.channels);
    if (step.kind == Kind::devoxelize && step.input_level != 0) {
      blends = shape_.rows[0];
      shares =
          std::max(shares, blend_scratch(shape_.rows[at(step.input_level)], step.output.channels));
    }
    const Product& product = products_[s];
    const auto planes = [&](const gemm_core::cuda::LayerChoice& choice, int level,
                            std::int64_t cout) {
      if (choice.instance == nullptr || !choice.planes) return;
      partials = std::max(partials, gemm_core::cuda::partial_floats(*choice.instance,
                                                                    shape_.rows[at(level)], cout));
    };
    planes(product.forward_choice, step.output_level, product.cout);
    planes(product.backward_choice, step.input_level, step.inputs[0].channels);
    if (step.kind == Kind::convolution && planned_.backward[s].runs)
      pieces = std::max(pieces, gemm_core::cuda::WeightGradient::piece_floats(weight_gradient(s)));
  }
  make_room(partials_, at(partials));
  make_room(pieces_, at(pieces));
  make_room(sums_, at(sums));
  make_room(winners_, at(winners));
  make_room(blends_, at(blends));
  make_room(shares_, at(shares));
  make_room(row_keys_, shape_.is_sorted || blends == 0 ? 0 : at(shape_.rows[0]));
}

void DeviceTape::prepare_dense() {
  for (std::size_t i = 0; i < plan_.outputs.size(); ++i) {
    if (!plan_.outputs[i].is_dense) continue;
    const auto shape = spatial_shape_of(plan_, plan_.outputs[i].level, shape_.spatial_shape);
    ENSURE(shape.has_value(), "node '", plan_.outputs[i].node,
           "': to_dense needs a spatial shape, and neither the model nor the input gives one");
    std::int64_t channels = 0;
    for (const PlanStep& step : plan_.steps) {
      if (step.dense_output == static_cast<int>(i)) channels = step.inputs[0].channels;
    }
    const std::int64_t size =
        base::checked_product({shape_.batch_size, channels, (*shape)[0], (*shape)[1], (*shape)[2]});
    make_room(dense_[i].values, at(size));
    make_room(dense_[i].gradients, at(size));
  }
}

void DeviceTape::copy_keys(const FrameInput& input) {
  const auto keys = input.voxels.coordinates->keys();
  std::copy(keys.begin(), keys.end(), host_keys_.data());
  send(maps_->input_keys(), host_keys_.data(), keys.size_bytes(), stream_.get());
  if (row_keys_.size() > 0)
    send(row_keys_.data(), host_keys_.data(), keys.size_bytes(), stream_.get());
  host_row_count_.data()[0] = static_cast<std::int32_t>(input.voxels.rows());
  send(row_count_.data(), host_row_count_.data(), sizeof(std::int32_t), stream_.get());
}

void DeviceTape::copy_features(const FrameInput& input) {
  const base::Tensor& features = input.voxels.features;
  const auto bytes = at(features.nbytes());
  if (bytes > 0) std::memcpy(host_features_.data(), features.data(), bytes);
  send(features_.data(), host_features_.data(), bytes, stream_.get());
}

void DeviceTape::launch_maps() {
  const cudaStream_t stream = stream_.get();
  maps_->build({.keys = nullptr,
                .rows = shape_.rows[0],
                .device_rows = row_count_.data(),
                .batch_size = shape_.batch_size,
                .spatial_shape = shape_.spatial_shape},
               stream);
  tables_.build([this](int level) { return rows_of(level); }, stream);
  gemm_core::cuda::build_pair_lists(pair_jobs_, stream);
  if (!plan_.checks.empty()) {
    CUDA_CHECK(cudaMemsetAsync(mismatches_.data(), 0, mismatches_.nbytes(), stream));
    for (std::size_t i = 0; i < plan_.checks.size(); ++i) {
      compare_levels(level_view(plan_.checks[i].first), level_view(plan_.checks[i].second),
                     mismatches_.data() + i, stream);
    }
  }
}

void DeviceTape::load_features() {
  if (plan_.input.buffer < 0) return;
  const base::Dims shape{shape_.rows[0], plan_.input.channels};
  const base::Device device{base::Device::Kind::cuda, device_};
  const bool fills_buffer = channels_[at(plan_.input.buffer)] == plan_.input.channels;
  const std::int64_t width =
      fills_buffer ? plan_.buffers[at(plan_.input.buffer)].channels : plan_.input.channels;
  load_rows({features_.data(), shape_.features, device, shape, base::row_major_strides(shape)},
            {view(plan_.input, width), rounds()}, rows_of(0), stream_.get());
}

}  // namespace sparseconv::cuda
