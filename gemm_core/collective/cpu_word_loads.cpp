#include "gemm_core/collective/cpu_word_loads.hpp"

#include <algorithm>
#include <cstring>

#include "gemm_core/base/host_device.hpp"
#include "gemm_core/collective/aligned_buffer.hpp"
#include "gemm_core/collective/cpu_element.hpp"

namespace gemm_core {
namespace {

using base::DType;

bool is_plain_bytes(const MatrixRef& m) {
  return m.access == nullptr && (m.dtype == DType::i8 || m.dtype == DType::u8);
}

const std::uint8_t* byte_at(const MatrixRef& m, std::int64_t row, std::int64_t column) {
  return static_cast<const std::uint8_t*>(m.data) + row * m.row_stride + column * m.column_stride;
}

int integer_at(const MatrixRef& m, const Locator& locate, std::int64_t row, std::int64_t column) {
  const std::int64_t at = locate(row, column);
  return at == kAbsent ? 0 : integer_element(m.data, m.dtype, at);
}

std::uint32_t high_half(float value) { return base::bit_cast<std::uint32_t>(value) >> 16; }

}  // namespace

void load_quads_along_rows(const MatrixRef& from, const BlockRange& w, std::int64_t limit,
                           bool raised, std::int32_t* to, std::int64_t ld) {
  const std::uint32_t flip = raised ? 0x80808080u : 0u;
  const Locator locate(from);
  for (std::int64_t i = 0; i < w.rows; ++i) {
    std::int64_t j = 0;
    if (is_plain_bytes(from) && from.column_stride == 1) {
      const std::int64_t whole = std::clamp<std::int64_t>(limit / 4 - w.column, 0, w.columns);
      const std::uint8_t* bytes = byte_at(from, w.row + i, 4 * w.column);
      for (; j < whole; ++j) {
        std::uint32_t word;
        std::memcpy(&word, bytes + 4 * j, 4);
        to[i * ld + j] = static_cast<std::int32_t>(word ^ flip);
      }
    }
    for (; j < w.columns; ++j) {
      std::uint32_t word = 0;
      for (std::int64_t q = 0; q < 4; ++q) {
        const std::int64_t k = 4 * (w.column + j) + q;
        const int value = k < limit ? integer_at(from, locate, w.row + i, k) : 0;
        word |= static_cast<std::uint32_t>(static_cast<std::uint8_t>(value)) << (8 * q);
      }
      to[i * ld + j] = static_cast<std::int32_t>(word ^ flip);
    }
  }
}

void load_quads_down_columns(const MatrixRef& from, const BlockRange& w, std::int64_t limit,
                             std::int32_t* to, std::int64_t ld) {
  const Locator locate(from);
  const bool plain = is_plain_bytes(from);
  for (std::int64_t i = 0; i < w.rows; ++i) {
    const std::int64_t k = 4 * (w.row + i);
    if (plain && k + 4 <= limit) {
      const std::int64_t down = from.row_stride, along = from.column_stride;
      const std::uint8_t* bytes = byte_at(from, k, w.column);
      for (std::int64_t j = 0; j < w.columns; ++j, bytes += along) {
        const std::uint32_t word = static_cast<std::uint32_t>(bytes[0]) |
                                   static_cast<std::uint32_t>(bytes[down]) << 8 |
                                   static_cast<std::uint32_t>(bytes[2 * down]) << 16 |
                                   static_cast<std::uint32_t>(bytes[3 * down]) << 24;
        to[i * ld + j] = static_cast<std::int32_t>(word);
      }
      continue;
    }
    for (std::int64_t j = 0; j < w.columns; ++j) {
      std::uint32_t word = 0;
      for (std::int64_t q = 0; q < 4; ++q) {
        const int value = k + q < limit ? integer_at(from, locate, k + q, w.column + j) : 0;
        word |= static_cast<std::uint32_t>(static_cast<std::uint8_t>(value)) << (8 * q);
      }
      to[i * ld + j] = static_cast<std::int32_t>(word);
    }
  }
}

void load_bf16_along_rows(const CpuAtoms& atoms, const MatrixRef& from, const BlockRange& w,
                          std::int64_t limit, std::uint32_t* to, std::int64_t ld) {
  const std::int64_t count = std::min(2 * w.columns, limit - 2 * w.column);
  if (from.access == nullptr && from.dtype == DType::bf16 && from.column_stride == 1) {
    for (std::int64_t i = 0; i < w.rows; ++i) {
      to[i * ld + w.columns - 1] = 0;
      const auto* halves =
          static_cast<const base::bf16_t*>(from.data) + (w.row + i) * from.row_stride;
      std::memcpy(to + i * ld, halves + 2 * w.column, static_cast<std::size_t>(count) * 2);
    }
    return;
  }
  thread_local AlignedBuffer kept;
  float* values = kept.reserve(w.rows * (count + 1));
  load_block(atoms, from, {w.row, w.rows, 2 * w.column, count}, DType::bf16, values, count + 1);
  for (std::int64_t i = 0; i < w.rows; ++i) {
    const float* row = values + i * (count + 1);
    for (std::int64_t j = 0; j < w.columns; ++j) {
      const std::uint32_t second = 2 * j + 1 < count ? high_half(row[2 * j + 1]) : 0;
      to[i * ld + j] = high_half(row[2 * j]) | second << 16;
    }
  }
}

void load_bf16_down_columns(const CpuAtoms& atoms, const MatrixRef& from, const BlockRange& w,
                            std::int64_t limit, std::uint32_t* to, std::int64_t ld) {
  const std::int64_t count = std::min(2 * w.rows, limit - 2 * w.row);
  thread_local AlignedBuffer kept;
  float* values = kept.reserve(count * w.columns);
  load_block(atoms, from, {2 * w.row, count, w.column, w.columns}, DType::bf16, values, w.columns);
  for (std::int64_t i = 0; i < w.rows; ++i) {
    const float* first = values + 2 * i * w.columns;
    const bool has_second = 2 * i + 1 < count;
    for (std::int64_t j = 0; j < w.columns; ++j) {
      to[i * ld + j] =
          high_half(first[j]) | (has_second ? high_half(first[w.columns + j]) << 16 : 0);
    }
  }
}

}  // namespace gemm_core
