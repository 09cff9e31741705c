#include "gemm_core/device/cuda/gather/pack_weights.hpp"

#include <vector>

#include "gemm_core/atom/ptx.cuh"
#include "gemm_core/base/cuda/launch.cuh"
#include "gemm_core/epilogue/cuda/device_epilogue.cuh"

namespace gemm_core::cuda {
namespace {

using Job = WeightPacker::Job;
constexpr int kTile = 32, kThreadRows = 8;

// A tile of kTile x kTile channels of one tap and group.
template <class Element>
__global__ void __launch_bounds__(kTile* kThreadRows) pack_weights(const Job* jobs, int count) {
  ptx::wait_for_predecessor();
  ptx::allow_successor();
  const auto block = static_cast<int>(blockIdx.x);
  int low = 0, high = count;  // the last job that begins at or before the block
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (jobs[middle].first_block <= block ? low : high) = middle;
  }
  const Job job = jobs[low];
  int at = block - job.first_block;
  const int column = at % job.column_tiles * kTile;
  at /= job.column_tiles;
  const int row = at % job.row_tiles * kTile;
  at /= job.row_tiles;
  const int tap = at % job.taps, group = at / job.taps;
  const int x = threadIdx.x % kTile, y = threadIdx.x / kTile;
  __shared__ float tile[kTile][kTile + 1];
  for (int r = y; r < kTile; r += kThreadRows) {
    const int co = row + r, ci = column + x;
    if (co >= job.group_cout || ci >= job.group_cin) continue;
    const std::int64_t line =
        (static_cast<std::int64_t>(group) * job.group_cout + co) * job.taps + tap;
    const float v = job.weight[line * job.group_cin + ci];
    tile[r][x] = v;
    if (job.forward != nullptr)
      DeviceElement<Element>::store(job.forward, line * job.forward_pitch + ci, v);
  }
  if (job.backward == nullptr) return;
  __syncthreads();
  const int back_tap = job.reverses_taps != 0 ? job.taps - 1 - tap : tap;
  for (int c = y; c < kTile; c += kThreadRows) {
    const int ci = column + c, co = row + x;
    if (co >= job.group_cout || ci >= job.group_cin) continue;
    const std::int64_t line =
        (static_cast<std::int64_t>(group) * job.group_cin + ci) * job.taps + back_tap;
    DeviceElement<Element>::store(job.backward, line * job.backward_pitch + co, tile[x][c]);
  }
}

void check(const PackWeightsJob& job, const ConvWeights* to, std::int64_t cout, std::int64_t cin,
           base::DType compute) {
  if (to == nullptr) return;
  ENSURE(to->compute == compute, "pack weights: operands of ", base::name(to->compute), " and ",
         base::name(compute));
  ENSURE(to->taps == job.taps && to->groups == job.groups, "pack weights: ", to->taps, " taps in ",
         to->groups, " groups, expected ", job.taps, " in ", job.groups);
  const bool may_be_wider = job.groups == 1;
  ENSURE(may_be_wider ? to->cout >= cout && to->cin >= cin : to->cout == cout && to->cin == cin,
         "pack weights: room for ", to->cin, " -> ", to->cout, " channels, there are ", cin, " -> ",
         cout);
}

}  // namespace

ConvWeights zero_conv_weights(std::int64_t cout, std::int64_t taps, std::int64_t cin,
                              std::int64_t groups, base::DType compute) {
  ENSURE(cout > 0 && taps > 0 && cin > 0 && groups > 0 && cin % groups == 0 && cout % groups == 0,
         "conv weights: ", cout, " x ", taps, " x ", cin, " in ", groups, " groups");
  ConvWeights w;
  w.cout = cout;
  w.taps = taps;
  w.cin = cin;
  w.groups = groups;
  w.compute = compute;
  const std::int64_t bytes = base::bytes(compute == base::DType::tf32 ? base::DType::f32 : compute);
  const std::int64_t chunk = 16 / bytes;
  w.pitch = (cin / groups + chunk - 1) / chunk * chunk;
  w.data =
      base::cuda::Buffer<std::uint8_t>(static_cast<std::size_t>(cout * taps * w.pitch * bytes));
  CUDA_CHECK(cudaMemset(w.data.data(), 0, w.data.nbytes()));
  return w;
}

WeightPacker::WeightPacker(std::span<const PackWeightsJob> all) {
  std::vector<Job> jobs;
  for (const PackWeightsJob& job : all) {
    const ConvWeights* some = job.forward != nullptr ? job.forward : job.backward;
    if (some == nullptr) continue;
    if (jobs.empty()) compute_ = some->compute;
    check(job, job.forward, job.cout, job.cin, compute_);
    check(job, job.backward, job.cin, job.cout, compute_);
    const std::int64_t group_cout = job.cout / job.groups, group_cin = job.cin / job.groups;
    Job j{};
    j.weight = job.weight;
    j.group_cout = static_cast<std::int32_t>(group_cout);
    j.group_cin = static_cast<std::int32_t>(group_cin);
    j.taps = static_cast<std::int32_t>(job.taps);
    j.row_tiles = static_cast<std::int32_t>((group_cout + kTile - 1) / kTile);
    j.column_tiles = static_cast<std::int32_t>((group_cin + kTile - 1) / kTile);
    j.reverses_taps = job.reverses_taps ? 1 : 0;
    j.first_block = blocks_;
    if (job.forward != nullptr) {
      j.forward = job.forward->data.data();
      j.forward_pitch = static_cast<std::int32_t>(job.forward->pitch);
    }
    if (job.backward != nullptr) {
      j.backward = job.backward->data.data();
      j.backward_pitch = static_cast<std::int32_t>(job.backward->pitch);
    }
    blocks_ += static_cast<std::int32_t>(job.groups * job.taps) * j.row_tiles * j.column_tiles;
    jobs.push_back(j);
  }
  count_ = static_cast<std::int32_t>(jobs.size());
  jobs_ = base::cuda::Buffer<Job>(jobs.size());
  if (!jobs.empty())
    CUDA_CHECK(cudaMemcpy(jobs_.data(), jobs.data(), jobs_.nbytes(), cudaMemcpyHostToDevice));
}

void WeightPacker::run(cudaStream_t stream) const {
  base::visit_dtype<float, base::tf32_t, base::half_t, base::bf16_t>(
      compute_, "pack weights", [&]<class T>() {
        base::cuda::launch(pack_weights<T>,
                           {.grid = dim3(static_cast<unsigned>(blocks_)),
                            .block = dim3(kTile * kThreadRows),
                            .overlap = true},
                           stream, jobs_.data(), count_);
      });
}

}  // namespace gemm_core::cuda
