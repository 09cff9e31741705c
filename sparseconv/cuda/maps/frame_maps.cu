#include "sparseconv/cuda/device_runner.cuh"
#include "sparseconv/cuda/maps/clear_frame.cuh"
#include "sparseconv/cuda/maps/frame_build.cuh"

namespace sparseconv::cuda {
struct FrameMaps::Impl {
  FrameSpec spec;
  FrameLayout frame;
  base::cuda::Buffer<std::uint8_t> memory;
  Scratch scratch;
};

FrameMaps::FrameMaps(FrameSpec spec) : impl_(std::make_unique<Impl>()) {
  check_spec(spec);
  impl_->spec = std::move(spec);
}
FrameMaps::~FrameMaps() = default;
FrameMaps::FrameMaps(FrameMaps&&) noexcept = default;
FrameMaps& FrameMaps::operator=(FrameMaps&&) noexcept = default;

void FrameMaps::reserve(const FrameCapacity& capacity) {
  const auto sizes = lay_out(impl_->spec, capacity, Arena()).arena.used();
  std::size_t bytes = 0;
  for (const std::size_t size : sizes) bytes += size;
  if (bytes > impl_->memory.size()) {
    impl_->memory.reset();  // before the larger one is asked for
    impl_->memory = base::cuda::Buffer<std::uint8_t>(bytes);
  }
  impl_->frame = lay_out(impl_->spec, capacity, Arena(impl_->memory.data(), sizes));
  allow_orders();
  allow_sample_sort();
  impl_->scratch.is_dry = true;
  DeviceRunner runner(impl_->scratch, nullptr);
  build_frame(runner, impl_->spec, impl_->frame, {});
  impl_->scratch.is_dry = false;
  impl_->scratch.allocate();
}

void FrameMaps::build(const FrameKeys& input, cudaStream_t stream) { build(input, stream, {}); }

void FrameMaps::build(const FrameKeys& input, cudaStream_t stream,
                      const std::function<bool()>& before_slots) {
  const FrameLayout& frame = impl_->frame;
  ENSURE(!frame.sets.empty(), "frame maps: build() before reserve()");
  const CoordinateView& first = frame.sets.front();
  ENSURE(input.rows >= 0 && input.rows <= first.capacity, "frame maps: ", input.rows,
         " rows, the capacity is ", first.capacity);
  ENSURE(input.batch_size >= 0 && input.batch_size <= kBatchMax + 1, "frame maps: batch size ",
         input.batch_size);
  if (input.rows > 0 && input.keys != nullptr) {
    CUDA_CHECK(cudaMemcpyAsync(input_keys(), input.keys,
                               static_cast<std::size_t>(input.rows) * sizeof(Key),
                               cudaMemcpyDefault, stream));
  }
  clear_frame_of(frame.arena,
                 {first.count, static_cast<std::int32_t>(input.rows), input.device_rows}, stream);
  DeviceRunner runner(impl_->scratch, stream);
  build_frame(runner, impl_->spec, frame, input, before_slots);
}

DeviceMapView FrameMaps::view(int map) const {
  const FrameLayout& frame = impl_->frame;
  const auto m = static_cast<std::size_t>(map);
  ENSURE(map >= 0 && m < frame.order_of_map.size(), "frame maps: no map ", map);
  const CoordinateView& output = frame.sets[static_cast<std::size_t>(impl_->spec.maps[m].output)];
  DeviceMapView view;
  view.row_capacity = output.capacity;
  view.row_count = output.count;
  view.canonical = frame.tables[m].table;
  view.table.taps = impl_->spec.maps[m].geometry.taps();
  if (frame.order_of_map[m] >= 0) {
    const OrderJob& order = frame.orders[static_cast<std::size_t>(frame.order_of_map[m])];
    view.table = {order.source.taps, order.capacity,    order.neighbours,
                  order.rows,        order.group_masks, order.plane_begin};
  }
  return view;
}

CoordinateView FrameMaps::set(int set) const {
  return impl_->frame.sets.at(static_cast<std::size_t>(set));
}
MergeView FrameMaps::merge(int set) const {
  for (const MergeStage& stage : impl_->frame.merges) {
    if (stage.set == set) return {stage.items_of_rows, stage.begin, stage.part_begin};
  }
  base::fail("frame maps: set ", set, " is not merged");
}
Key* FrameMaps::input_keys() {
  const CoordinateView& first = impl_->frame.sets.front();
  return first.rows != nullptr ? impl_->frame.input_keys : first.keys;
}
const Key* FrameMaps::keys(int set) const {
  return impl_->frame.sets.at(static_cast<std::size_t>(set)).keys;
}
const std::int32_t* FrameMaps::rank_to_row(int set) const {
  return impl_->frame.sets.at(static_cast<std::size_t>(set)).rows;
}
const std::int32_t* FrameMaps::status() const { return impl_->frame.status; }
std::size_t FrameMaps::status_size() const { return 2 * impl_->spec.sets.size(); }
std::int64_t FrameMaps::row_capacity(int set) const {
  return impl_->frame.sets.at(static_cast<std::size_t>(set)).capacity;
}
std::int64_t FrameMaps::nbytes() const {
  return static_cast<std::int64_t>(impl_->memory.nbytes() + impl_->scratch.nbytes());
}

FrameMaps::Sizes FrameMaps::check(std::span<const std::int32_t> status) const {
  ENSURE(status.size() == status_size(), "frame maps: a status of ", status.size(),
         " values, expected ", status_size());
  return read_status(impl_->frame, status);
}

}  // namespace sparseconv::cuda
