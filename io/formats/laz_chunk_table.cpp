#include "io/formats/laz_chunk_table.hpp"

#include <algorithm>
#include <array>

#include "gemm_core/base/error.hpp"

namespace io {
namespace {

constexpr std::uint32_t kMinLength = 1U << 24, kScale = 1U << 31;

class ArithmeticDecoder {
 public:
  explicit ArithmeticDecoder(std::string_view bytes) : bytes_(bytes) {
    for (int i = 0; i < 4; ++i) value_ = value_ << 8 | next_byte();
  }

  // A symbol whose interval begins at `low` of `length() >> shift`, and ends at `high`.
  std::uint32_t length() const { return length_; }
  std::uint32_t value() const { return value_; }
  void take(std::uint32_t low, std::uint32_t high) {
    value_ -= low;
    length_ = high - low;
    while (length_ < kMinLength) {
      ENSURE(length_ > 0, "LAZ: the chunk table is no table");
      value_ = value_ << 8 | next_byte();
      length_ <<= 8;
    }
  }

  std::uint32_t bits(int count) {
    if (count > 19) {
      const std::uint32_t low = bits(16);
      return bits(count - 16) << 16 | low;
    }
    const std::uint32_t step = length_ >> count, symbol = value_ / step;
    ENSURE(symbol >> count == 0, "LAZ: the chunk table is no table");
    take(step * symbol, step * symbol + step);
    return symbol;
  }

 private:
  std::uint32_t next_byte() {
    ENSURE(at_ < bytes_.size(), "LAZ: the chunk table ends after ", bytes_.size(), " bytes");
    return static_cast<unsigned char>(bytes_[at_++]);
  }

  std::string_view bytes_;
  std::size_t at_ = 0;
  std::uint32_t value_ = 0, length_ = 0xffffffff;
};

// An adaptive binary model: 13 bits of probability.
class BitModel {
 public:
  std::uint32_t decode(ArithmeticDecoder& decoder) {
    const std::uint32_t middle = zero_share_ * (decoder.length() >> kShift);
    const bool one = decoder.value() >= middle;
    one ? decoder.take(middle, decoder.length()) : decoder.take(0, middle);
    zeros_ += one ? 0 : 1;
    if (--until_update_ == 0) update();
    return one ? 1 : 0;
  }

 private:
  static constexpr int kShift = 13;

  void update() {
    if ((count_ += cycle_) > 1U << kShift) {
      count_ = (count_ + 1) >> 1;
      zeros_ = (zeros_ + 1) >> 1;
      if (zeros_ == count_) ++count_;
    }
    zero_share_ = zeros_ * (kScale / count_) >> (31 - kShift);
    cycle_ = std::min(5 * cycle_ >> 2, 64U);
    until_update_ = cycle_;
  }

  std::uint32_t zeros_ = 1, count_ = 2, zero_share_ = 1U << (kShift - 1), cycle_ = 4,
                until_update_ = 4;
};

// An adaptive model of several symbols: 15 bits of probability.
class SymbolModel {
 public:
  explicit SymbolModel(std::uint32_t symbols) : counts_(symbols, 1), starts_(symbols) {
    cycle_ = symbols;
    update();
    cycle_ = until_update_ = (symbols + 6) >> 1;
  }

  std::uint32_t decode(ArithmeticDecoder& decoder) {
    const std::uint32_t step = decoder.length() >> kShift;
    const auto after =
        std::ranges::upper_bound(starts_, decoder.value(), {},
                                 [&](std::uint32_t start) { return start * step; });  // never first
    const auto symbol = static_cast<std::size_t>(after - starts_.begin()) - 1;
    decoder.take(starts_[symbol] * step, after == starts_.end() ? decoder.length() : *after * step);
    ++counts_[symbol];
    if (--until_update_ == 0) update();
    return static_cast<std::uint32_t>(symbol);
  }

 private:
  static constexpr int kShift = 15;

  void update() {
    if ((total_ += cycle_) > 1U << kShift) {
      total_ = 0;
      for (std::uint32_t& count : counts_) total_ += count = (count + 1) >> 1;
    }
    const std::uint32_t scale = kScale / total_;
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      starts_[i] = scale * sum >> (31 - kShift);
      sum += counts_[i];
    }
    cycle_ = std::min(5 * cycle_ >> 2, (static_cast<std::uint32_t>(counts_.size()) + 6) << 3);
    until_update_ = cycle_;
  }

  std::vector<std::uint32_t> counts_, starts_;
  std::uint32_t total_ = 0, cycle_ = 0, until_update_ = 0;
};

// Differences of 32-bit integers: how many bits one takes, by context, then the bits.
class IntegerDecoder {
 public:
  IntegerDecoder() {
    for (int bits = 1; bits <= 32; ++bits)
      correctors_.emplace_back(1U << std::min(bits, kModelledBits));
  }

  std::uint32_t decode(ArithmeticDecoder& decoder, std::uint32_t predicted, int context) {
    return predicted + correction(decoder, context);
  }

 private:
  static constexpr int kModelledBits = 8;

  std::uint32_t correction(ArithmeticDecoder& decoder, int context) {
    const auto bits = static_cast<int>(bits_[static_cast<std::size_t>(context)].decode(decoder));
    if (bits == 0) return one_bit_.decode(decoder);
    if (bits == 32) return 1U << 31;
    std::uint32_t c = correctors_[static_cast<std::size_t>(bits - 1)].decode(decoder);
    if (bits > kModelledBits) {
      const std::uint32_t low = decoder.bits(bits - kModelledBits);
      c = c << (bits - kModelledBits) | low;
    }
    return c >= 1U << (bits - 1) ? c + 1 : c - ((1U << bits) - 1);
  }

  std::array<SymbolModel, 2> bits_{SymbolModel(33), SymbolModel(33)};
  BitModel one_bit_;
  std::vector<SymbolModel> correctors_;
};

}  // namespace

std::vector<LazChunkSize> decode_chunk_sizes(std::string_view table, std::int64_t chunks) {
  ArithmeticDecoder decoder(table);
  IntegerDecoder integers;
  std::vector<LazChunkSize> sizes;
  LazChunkSize last;
  for (std::int64_t i = 0; i < chunks; ++i) {
    last.points = integers.decode(decoder, last.points, 0);
    last.bytes = integers.decode(decoder, last.bytes, 1);
    sizes.push_back(last);
  }
  return sizes;
}

}  // namespace io
