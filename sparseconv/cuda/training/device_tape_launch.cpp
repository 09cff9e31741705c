// How DeviceTape's launches go onto its two streams.
#include <algorithm>

#include "sparseconv/cuda/training/device_tape.hpp"

namespace sparseconv::cuda {

void DeviceTape::run_all(const std::vector<NamedLaunch>& launches) {
  for (const NamedLaunch& launch : launches) {
    launch.run(stream_.get());
    if (!after_launch) continue;
    stream_.synchronize();
    after_launch(launch.what, plan_.steps[launch.step].node);
  }
}

// The second stream goes on from here.
void DeviceTape::fork(const base::cuda::Event& event) const {
  event.record(stream_.get());
  CUDA_CHECK(cudaStreamWaitEvent(beside_.get(), event.get(), 0));
}

// The first stream waits for what has been launched on the second.
void DeviceTape::join(const base::cuda::Event& event) const {
  event.record(beside_.get());
  CUDA_CHECK(cudaStreamWaitEvent(stream_.get(), event.get(), 0));
}

// In a graph. Steps come in descending order; what a launch beside them reads is there for kBeside
// steps more.
void DeviceTape::run_beside(const std::vector<NamedLaunch>& launches) {
  std::size_t begun = 0, joined = 0;
  std::vector<std::size_t> steps;                 // of launches beside others
  const auto wait_for = [&](std::size_t count) {  // of them; they end in their order
    if (count > joined) CUDA_CHECK(cudaStreamWaitEvent(stream_.get(), joins_[count - 1].get(), 0));
    joined = std::max(joined, count);
  };
  for (const NamedLaunch& launch : launches) {
    std::size_t over = joined;
    while (over < begun && steps[over] > launch.step + static_cast<std::size_t>(kBeside)) ++over;
    wait_for(over);
    if (!launch.is_beside) {
      launch.run(stream_.get());
      continue;
    }
    fork(forks_[begun]);
    launch.run(beside_.get());
    joins_[begun].record(beside_.get());
    steps.push_back(launch.step);
    ++begun;
  }
  wait_for(begun);
}

}  // namespace sparseconv::cuda
