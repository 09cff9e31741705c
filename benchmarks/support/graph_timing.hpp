// What one run costs on a device: many in a CUDA graph, so that the host's launches do not count.
#pragma once
#include <algorithm>
#include <functional>
#include <vector>

#include "gemm_core/base/cuda/resources.hpp"

namespace benchmarks {

// Median over `repeats` replays of a graph of `launches` runs, in microseconds a run; three replays
// before are not counted.
inline double graph_microseconds(cudaStream_t stream, const std::function<void()>& run,
                                 int launches = 20, int repeats = 15) {
  const auto graph = base::cuda::Graph::capture(stream, [&] {
    for (int i = 0; i < launches; ++i) run();
  });
  const auto begin = base::cuda::Event::create(), end = base::cuda::Event::create();
  for (int i = 0; i < 3; ++i) graph.launch(stream);
  std::vector<float> times;
  for (int i = 0; i < repeats; ++i) {
    begin.record(stream);
    graph.launch(stream);
    end.record(stream);
    end.synchronize();
    times.push_back(base::cuda::elapsed_ms(begin, end) * 1000 / static_cast<float>(launches));
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

}  // namespace benchmarks
