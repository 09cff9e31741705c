// A stage of operands for mma.sync in shared memory: 128 rows of 64 bytes of k each (128 bytes of
// doubles), padded so that neither ldmatrix nor loads of doubles meet in a bank. Operands that lie
// as they are multiplied, rows aligned to 16 bytes, are copied by cp.async; all others are read
// element by element, converted and left in the same place.
#pragma once
#include "gemm_core/atom/sm80_mma.cuh"
#include "gemm_core/collective/cuda_operand_loads.cuh"

namespace gemm_core {

template <class Element_>
struct Sm80GemmConfig {
  using Element = Element_;
  using Mma = Sm80Mma<Element>;
  using Sum = typename Mma::Sum;
  static constexpr int kTileM = 128, kTileN = 128, kThreads = 256, kStages = 3;
  static constexpr int kElementBytes = static_cast<int>(sizeof(Element));
  static constexpr bool kIsDouble = std::is_same_v<Element, double>;
  static constexpr int kSpanBytes = kIsDouble ? 128 : 64, kStageK = kSpanBytes / kElementBytes;
  // 8 rows of an ldmatrix, 4 rows of four doubles, fall into different banks.
  static constexpr int kPitch = kSpanBytes + (kIsDouble ? 32 : 16);
  static constexpr int kOperandBytes = kTileM * kPitch, kStageBytes = 2 * kOperandBytes;
  static constexpr int kSharedBytes = kStages * kStageBytes;
  static constexpr int kSumPitch = kTileN + 4;  // of the sums on their way out, 64 rows at a time
  static_assert(64 * kSumPitch * static_cast<int>(sizeof(Sum)) <= kSharedBytes && kTileM == kTileN);
};

template <class Config>
struct Sm80Stage {
  using Element = typename Config::Element;
  static constexpr int kPerChunk = 16 / Config::kElementBytes;

  using Bits =
      std::conditional_t<sizeof(Element) == 1, std::uint8_t,
                         std::conditional_t<sizeof(Element) == 2, std::uint16_t, std::uint32_t>>;

  static __device__ __forceinline__ std::uint32_t converted_bits(const DenseOperand& o,
                                                                 const void* data, std::int64_t at,
                                                                 std::int64_t row, std::int64_t k) {
    if constexpr (Config::kIsDouble)
      return 0;  // never converted
    else if constexpr (std::is_same_v<Element, std::int8_t>)
      return static_cast<std::uint8_t>(converted_operand<std::int32_t>(o, data, at, row, k));
    else if constexpr (std::is_same_v<Element, base::tf32_t>)
      return __float_as_uint(converted_operand<float>(o, data, at, row, k));
    else
      return DeviceElement<Element>::pack(converted_operand<float>(o, data, at, row, k), 0.f) &
             0xffffu;
  }

  // 16 bytes of `o` to shared memory, from element k of `row` on; zeros where there are none.
  static __device__ __forceinline__ void convert(const DenseOperand& o, const void* data,
                                                 std::int64_t row, std::int64_t k,
                                                 std::int64_t k_count, std::int64_t batch,
                                                 std::uint32_t to) {
    const std::int64_t first = o.offset_of(row, k, batch);
    const std::int64_t left = row < o.rows ? k_count - k : 0;
    if constexpr (Config::kIsDouble) {
      const auto* const from = static_cast<const double*>(data) + first;
      asm volatile("st.shared.v2.f64 [%0], {%1, %2};" ::"r"(to), "d"(left > 0 ? from[0] : 0.0),
                   "d"(left > 1 ? from[o.k_stride] : 0.0)
                   : "memory");
      return;
    }
    std::uint32_t words[4] = {};
    constexpr int kPerWord = kPerChunk < 4 ? 1 : kPerChunk / 4;
    if (o.is_plain) {
#pragma unroll
      for (int i = 0; i < kPerChunk; ++i) {
        if (i >= left) continue;
        const Bits bits = static_cast<const Bits*>(data)[first + i * o.k_stride];
        words[i / kPerWord] |= static_cast<std::uint32_t>(bits)
                               << 8 * Config::kElementBytes * (i % kPerWord);
      }
    } else {
#pragma unroll
      for (int w = 0; w < 4; ++w) {
#pragma unroll 1
        for (int i = 0; i < kPerWord; ++i) {
          const int at = w * kPerWord + i;
          if (at < left)
            words[w] |= converted_bits(o, data, first + at * o.k_stride, row, k + at)
                        << 8 * Config::kElementBytes * i;
        }
      }
    }
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(words[0]), "r"(words[1]),
                 "r"(words[2]), "r"(words[3])
                 : "memory");
  }

  static __device__ __forceinline__ void fill(const DenseOperand& o, const void* data,
                                              std::int64_t first, std::int64_t k,
                                              std::int64_t k_count, std::int64_t batch,
                                              std::uint32_t to) {
    constexpr int kChunks = Config::kSpanBytes / 16;
#pragma unroll
    for (int i = 0; i < Config::kTileM * kChunks / Config::kThreads; ++i) {
      const int at = static_cast<int>(threadIdx.x) + i * Config::kThreads;
      // Neighbouring threads read neighbouring memory.
      const int row = o.k_stride == 1 ? at / kChunks : at % Config::kTileM;
      const int chunk = o.k_stride == 1 ? at % kChunks : at / Config::kTileM;
      const std::uint32_t target = to + row * Config::kPitch + chunk * 16;
      const std::int64_t k_at = k + chunk * kPerChunk;
      if (o.vectors) {
        const std::int64_t left = first + row < o.rows ? k_count - k_at : 0;
        const int bytes = left >= kPerChunk ? 16
                          : left > 0        ? static_cast<int>(left) * Config::kElementBytes
                                            : 0;
        const std::int64_t offset = bytes > 0 ? o.offset_of(first + row, k_at, batch) : 0;
        ptx::copy_16_partly(target, static_cast<const char*>(data) + offset * Config::kElementBytes,
                            bytes);
      } else {
        convert(o, data, first + row, k_at, k_count, batch, target);
      }
    }
  }
};

}  // namespace gemm_core
