#include "tests/cuda/sort_on_device.hpp"

#include "sparseconv/cuda/device_runner.cuh"
#include "tests/cuda/on_device.hpp"

namespace cuda_tests {

KeysAndValues sort_on_device(const KeysAndValues& items, std::int64_t capacity, int low, int from,
                             int high) {
  using sparseconv::cuda::Sorted;
  const auto room = static_cast<std::size_t>(capacity);
  KeysAndValues padded = items;
  padded.keys.resize(room);
  padded.values.resize(room);
  OnDevice<std::uint64_t> keys(padded.keys), other_keys(padded.keys);
  OnDevice<std::int32_t> values(padded.values), other_values(padded.values),
      count({static_cast<std::int32_t>(items.keys.size())});
  const sparseconv::cuda::ItemCount number{capacity, count.data()};
  const sparseconv::cuda::SortBits bits{low, from, high};
  sparseconv::cuda::Scratch scratch;
  const base::cuda::Stream stream = base::cuda::Stream::create();
  CUDA_CHECK(cudaDeviceSynchronize());  // copies of pageable memory may end after cudaMemcpy()
  sparseconv::cuda::allow_sample_sort();
  Sorted<std::uint64_t> sorted{};
  for (const bool is_dry : {true, false}) {
    scratch.is_dry = is_dry;
    sparseconv::cuda::DeviceRunner runner(scratch, stream.get());
    sorted =
        runner.sort(Sorted<std::uint64_t>{keys.data(), values.data()},
                    Sorted<std::uint64_t>{other_keys.data(), other_values.data()}, number, bits);
    if (is_dry) scratch.allocate();
  }
  stream.synchronize();
  const bool is_other = sorted.keys == other_keys.data();
  KeysAndValues result{is_other ? other_keys.values() : keys.values(),
                       is_other ? other_values.values() : values.values()};
  result.keys.resize(items.keys.size());
  result.values.resize(items.keys.size());
  return result;
}

}  // namespace cuda_tests
