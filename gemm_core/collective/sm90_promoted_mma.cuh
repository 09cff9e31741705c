// The mainloop of dense products on Hopper where the sum of each stage joins an fp32 sum outside
// the tensor cores: two partial sums in turn, so that one joins while the other is multiplied.
#pragma once
#include "gemm_core/collective/sm90_tma_mma.cuh"

namespace gemm_core {

// The same without promotion, for all that does not multiply.
template <class Config>
struct Unpromoted : Config {
  static constexpr bool kPromotes = false;
};

template <class Config>
requires(Config::kPromotes) struct Sm90TmaMma<Config> : Sm90TmaMma<Unpromoted<Config>> {
  using Plain = Sm90TmaMma<Unpromoted<Config>>;
  using typename Plain::Position, typename Plain::Sums, typename Plain::Mma;
  static_assert(Config::kAtoms == 1 && !Config::kAlternates);

  __device__ __forceinline__ explicit Sm90TmaMma(std::uint32_t shared) : Plain(shared) {}

  // As Sm90TmaMma::multiply.
  __device__ __forceinline__ void multiply(int k_count, int consumer, int lane, Position& at,
                                           Sums& sums) const {
    const int first_row = consumer * Config::kRows;
#pragma unroll
    for (auto& sum : sums[0]) sum = 0;
    if (k_count == 0) return;
    Sums first, second;
    int in_flight = at.stage;  // the stage whose products run
    const auto issue = [&](Sums& part) {
      ptx::barrier_wait(this->full(at.stage), at.parity);
      this->multiply_stage(at.stage, first_row, 0, part);
      at.advance();
    };
    // While the products issued last run on, those before them join the sums.
    const auto join = [&](const Sums& part) {
      this->release(in_flight, lane);
      in_flight = in_flight + 1 == Plain::kStages ? 0 : in_flight + 1;
#pragma unroll
      for (int v = 0; v < Mma::kAccumulators; ++v) sums[0][v] += part[0][v];
    };
    issue(first);
    int i = 1;
#pragma unroll 1
    for (; i + 1 < k_count; i += 2) {
      issue(second);
      ptx::wgmma_wait<1>();
      join(first);
      issue(first);
      ptx::wgmma_wait<1>();
      join(second);
    }
    if (i < k_count) {
      issue(second);
      ptx::wgmma_wait<1>();
      join(first);
      ptx::wgmma_wait<0>();
      join(second);
    } else {
      ptx::wgmma_wait<0>();
      join(first);
    }
  }
};

}  // namespace gemm_core
