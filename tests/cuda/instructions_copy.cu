#include "gemm_core/atom/ptx.cuh"
#include "gemm_core/atom/sm80_mma.cuh"
#include "gemm_core/atom/sm90_im2col.cuh"
#include "gemm_core/atom/sm90_tma.cuh"
#include "gemm_core/base/cuda/launch.cuh"
#include "tests/cuda/instructions.hpp"

namespace cuda_tests {
namespace {

namespace ptx = gemm_core::ptx;

constexpr std::uint32_t kTileBytes = 16 << 10;

template <class Copy>
__global__ void copy_by_lane(Copy copy, int bytes_a_lane, char* to) {
  __shared__ __align__(16) char shared[32 * 16];
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = lane; i < 32 * 16; i += 32) shared[i] = 0x5a;
  __syncwarp();
  copy(ptx::shared_address(shared) + static_cast<std::uint32_t>(lane * bytes_a_lane), lane);
  ptx::commit_copies();
  ptx::wait_copies<0>();
  __syncwarp();
  for (int i = lane; i < 32 * bytes_a_lane; i += 32) to[i] = shared[i];
}

struct Copy16OrZero {
  const char* from;
  const int* index;
  __device__ void operator()(std::uint32_t to, int lane) const {
    const int i = index[lane];
    ptx::copy_16_or_zero(to, from + (i < 0 ? 0 : i) * 16, i);
  }
};
struct Copy4OrZero {
  const char* from;
  const int* present;
  __device__ void operator()(std::uint32_t to, int lane) const {
    ptx::copy_4_or_zero(to, from + lane * 4, present[lane] != 0);
  }
};
struct Copy16Partly {
  const char* from;
  const int* bytes;
  __device__ void operator()(std::uint32_t to, int lane) const {
    ptx::copy_16_partly(to, from + lane * 16, bytes[lane]);
  }
};

__global__ void copies_with_barrier(const char* from, const int* index, char* to) {
  __shared__ __align__(16) char shared[32 * 16];
  __shared__ __align__(8) std::uint64_t full;
  const std::uint32_t barrier = ptx::shared_address(&full);
  if (threadIdx.x == 0) {
    ptx::barrier_init(barrier, 32);
    ptx::barrier_init_fence();
  }
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (threadIdx.x < 32) {
    Copy16OrZero{from, index}(ptx::shared_address(shared) + static_cast<std::uint32_t>(lane * 16),
                              lane);
    ptx::barrier_arrive_after_copies(barrier);
    ptx::wait_all_copies();
  } else {
    ptx::barrier_wait(barrier, 0);
    for (int i = lane; i < 32 * 16; i += 32) to[i] = shared[i];
  }
}

__global__ void load_matrices(const uint4* rows, std::uint32_t* registers) {
  __shared__ uint4 shared[32];
  shared[threadIdx.x] = rows[threadIdx.x];
  __syncwarp();
  std::uint32_t r[4];
  ptx::load_matrices(r, ptx::shared_address(shared + threadIdx.x));
  for (int i = 0; i < 4; ++i) registers[threadIdx.x * 4 + static_cast<unsigned>(i)] = r[i];
}

__global__ void store_matrices(const std::uint32_t* registers, uint4* rows) {
  __shared__ uint4 shared[32];
  const std::uint32_t* r = registers + threadIdx.x * 4;
  ptx::store_matrices(ptx::shared_address(shared + threadIdx.x), r[0], r[1], r[2], r[3]);
  __syncwarp();
  rows[threadIdx.x] = shared[threadIdx.x];
}

__device__ void copy_out(const char* shared, std::uint32_t bytes, void* to) {
  for (std::uint32_t i = threadIdx.x; i < bytes; i += blockDim.x)
    static_cast<char*>(to)[i] = shared[i];
}

template <class Load>
__device__ void load_box(const CUtensorMap* map, std::uint32_t bytes, void* to, const Load& load) {
  __shared__ __align__(1024) char shared[kTileBytes];
  __shared__ __align__(8) std::uint64_t full;
  const std::uint32_t barrier = ptx::shared_address(&full);
  if (threadIdx.x == 0) {
    ptx::tma_prefetch_descriptor(map);
    ptx::barrier_init(barrier, 1);
    ptx::barrier_init_fence();
    ptx::fence_proxy_async();
    ptx::barrier_arrive_expect(barrier, bytes);
    load(ptx::shared_address(shared), barrier);
  }
  __syncthreads();
  ptx::barrier_wait(barrier, 0);
  copy_out(shared, bytes, to);
}

__global__ void tma_load(const __grid_constant__ CUtensorMap map, std::uint32_t bytes, int c0,
                         int c1, int c2, void* to) {
  load_box(&map, bytes, to, [&](std::uint32_t shared, std::uint32_t barrier) {
    ptx::tma_load_3d(shared, &map, barrier, c0, c1, c2);
  });
}

struct Pixel {
  int axes, channel, x[3], batch, offset[3];
};

__global__ void tma_load_im2col(const __grid_constant__ CUtensorMap map, std::uint32_t bytes,
                                Pixel p, void* to) {
  load_box(&map, bytes, to, [&](std::uint32_t shared, std::uint32_t barrier) {
    ptx::tma_load_im2col(shared, &map, barrier, p.axes, p.channel, p.x, p.batch, p.offset);
  });
}

__global__ void tma_store(const __grid_constant__ CUtensorMap map, std::uint32_t bytes,
                          const char* from, int c0, int c1, int c2) {
  __shared__ __align__(1024) char shared[kTileBytes];
  for (std::uint32_t i = threadIdx.x; i < bytes; i += blockDim.x) shared[i] = from[i];
  ptx::fence_proxy_async();
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::tma_store_3d(&map, ptx::shared_address(shared), c0, c1, c2);
    ptx::bulk_commit();
    ptx::bulk_wait_read<0>();
    ptx::bulk_wait_all();
  }
}

__global__ void __cluster_dims__(2, 1, 1)
    tma_multicast(const __grid_constant__ CUtensorMap map, std::uint32_t bytes, char* to) {
  __shared__ __align__(1024) char shared[2][kTileBytes / 2];
  __shared__ __align__(8) std::uint64_t full;
  const std::uint32_t barrier = ptx::shared_address(&full), rank = ptx::cluster_rank();
  if (threadIdx.x == 0) {
    ptx::barrier_init(barrier, 1);
    ptx::barrier_init_fence();
    ptx::barrier_arrive_expect(barrier, 2 * bytes);
  }
  ptx::cluster_sync();
  if (threadIdx.x == 0)
    ptx::tma_multicast_3d(ptx::shared_address(shared[rank]), &map, barrier, 3, 0, 0,
                          static_cast<int>(rank));
  ptx::barrier_wait(barrier, 0);
  for (int half = 0; half < 2; ++half)
    copy_out(shared[half], bytes, to + (rank * 2 + static_cast<std::uint32_t>(half)) * bytes);
  ptx::cluster_sync();
}

// The first warpgroup consumes, the last produces, the one between only takes registers. One
// arrival a warp frees a stage.
__global__ void __launch_bounds__(384, 1) pipeline(int stages, int count, std::uint32_t* to) {
  constexpr int kMost = 8;
  __shared__ std::uint32_t ring[kMost];
  __shared__ __align__(8) std::uint64_t full[kMost], empty[kMost];
  __shared__ std::uint32_t seen[128];
  if (threadIdx.x == 0) {
    for (int s = 0; s < stages; ++s) {
      ptx::barrier_init(ptx::shared_address(full + s), 1);
      ptx::barrier_init(ptx::shared_address(empty + s), 4);
    }
    ptx::barrier_init_fence();
  }
  __syncthreads();
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  if (warp >= 8) {
    ptx::release_registers_to<40>();
    if (warp > 8 || lane > 0) return;
    for (int i = 0; i < count; ++i) {
      const int s = i % stages;
      if (i >= stages)
        ptx::barrier_wait(ptx::shared_address(empty + s),
                          static_cast<std::uint32_t>((i / stages - 1) & 1));
      ring[s] = static_cast<std::uint32_t>(i) * 3 + 1;
      ptx::barrier_arrive(ptx::shared_address(full + s));
    }
  } else {
    ptx::claim_registers_to<232>();
    if (warp >= 4) return;
    for (int i = 0; i < count; ++i) {
      const int s = i % stages;
      ptx::barrier_wait(ptx::shared_address(full + s), static_cast<std::uint32_t>(i / stages & 1));
      seen[threadIdx.x] = ring[s];
      __syncwarp();
      if (lane == 0) ptx::barrier_arrive(ptx::shared_address(empty + s));
      ptx::named_barrier(1, 128);
      if (threadIdx.x == 0) {
        std::uint32_t sum = 0;
        for (const std::uint32_t value : seen) sum += value;
        to[i] = sum;
      }
      ptx::named_barrier(1, 128);
    }
  }
}

__global__ void __cluster_dims__(2, 1, 1) cluster_arrivals(std::uint32_t* to) {
  __shared__ __align__(8) std::uint64_t told;
  const std::uint32_t barrier = ptx::shared_address(&told), rank = ptx::cluster_rank();
  if (threadIdx.x == 0) {
    ptx::barrier_init(barrier, 32);
    ptx::barrier_init_fence();
  }
  ptx::cluster_sync();
  // Round by round: a block whose arrivals went astray would wait for ever.
  for (std::uint32_t round = 0; round < 100; ++round) {
    ptx::barrier_arrive_at(barrier, rank ^ 1);
    ptx::barrier_wait(barrier, round & 1);
  }
  if (threadIdx.x == 0) to[rank] = 100 + rank;
  ptx::cluster_sync();
}

__global__ void dependent(std::uint32_t* value) {
  ptx::wait_for_predecessor();
  ptx::allow_successor();
  if (threadIdx.x == 0) *value = *value + 1;
}

template <class Kernel, class... Arguments>
void run(Kernel kernel, unsigned blocks, unsigned threads, const Arguments&... arguments) {
  base::cuda::launch(kernel, {.grid = dim3(blocks), .block = dim3(threads)}, nullptr, arguments...);
  CUDA_CHECK(cudaStreamSynchronize(nullptr));
}

const char* bytes_of(const void* p) { return static_cast<const char*>(p); }

}  // namespace

void run_copy_16_or_zero(const void* from, const int* index, void* to) {
  run(copy_by_lane<Copy16OrZero>, 1, 32, Copy16OrZero{bytes_of(from), index}, 16,
      static_cast<char*>(to));
}
void run_copy_4_or_zero(const void* from, const int* present, void* to) {
  run(copy_by_lane<Copy4OrZero>, 1, 32, Copy4OrZero{bytes_of(from), present}, 4,
      static_cast<char*>(to));
}
void run_copy_16_partly(const void* from, const int* bytes, void* to) {
  run(copy_by_lane<Copy16Partly>, 1, 32, Copy16Partly{bytes_of(from), bytes}, 16,
      static_cast<char*>(to));
}
void run_copies_with_barrier(const void* from, const int* index, void* to) {
  run(copies_with_barrier, 1, 64, bytes_of(from), index, static_cast<char*>(to));
}
void run_load_matrices(const void* rows, std::uint32_t* registers) {
  run(load_matrices, 1, 32, static_cast<const uint4*>(rows), registers);
}
void run_store_matrices(const std::uint32_t* registers, void* rows) {
  run(store_matrices, 1, 32, registers, static_cast<uint4*>(rows));
}
void run_tma_load(const CUtensorMap& map, std::uint32_t bytes, int c0, int c1, int c2, void* to) {
  run(tma_load, 1, 128, map, bytes, c0, c1, c2, to);
}
void run_tma_load_im2col(const CUtensorMap& map, std::uint32_t bytes, int axes, int channel,
                         const int (&x)[3], int batch, const int (&offset)[3], void* to) {
  const Pixel p{axes, channel, {x[0], x[1], x[2]}, batch, {offset[0], offset[1], offset[2]}};
  run(tma_load_im2col, 1, 128, map, bytes, p, to);
}
void run_tma_store(const CUtensorMap& map, std::uint32_t bytes, const void* from, int c0, int c1,
                   int c2) {
  run(tma_store, 1, 128, map, bytes, bytes_of(from), c0, c1, c2);
}
void run_tma_multicast(const CUtensorMap& map, std::uint32_t bytes, void* to) {
  run(tma_multicast, 2, 128, map, bytes, static_cast<char*>(to));
}
void run_pipeline(int stages, int count, std::uint32_t* to) {
  run(pipeline, 1, 384, stages, count, to);
}
void run_cluster_arrivals(std::uint32_t* to) { run(cluster_arrivals, 2, 32, to); }
void run_dependent_launches(int count, std::uint32_t* value) {
  for (int i = 0; i < count; ++i)
    base::cuda::launch(dependent, {.block = dim3(32), .overlap = true}, nullptr, value);
  CUDA_CHECK(cudaStreamSynchronize(nullptr));
}

}  // namespace cuda_tests
