#include "io/lzf.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "gemm_core/base/error.hpp"

namespace io {
namespace {

constexpr std::int64_t kWindow = 8192;  // how far back references reach
constexpr std::int64_t kPiece = 1 << 17;
constexpr std::int64_t kLongestMatch = 264;
constexpr std::int64_t kLongestRun = 32;

// Compressed bytes with enough of them at hand for one instruction (at most 33).
class Input {
 public:
  explicit Input(ByteStream& stream) : stream_(stream), total_(stream.remaining()) {}
  bool is_empty() {
    if (filled_ - position_ < kLongestRun + 1) refill();
    return position_ == filled_;
  }
  unsigned byte() {
    need(1);
    return static_cast<unsigned char>(buffer_[static_cast<std::size_t>(position_++)]);
  }
  const char* take(std::int64_t count) {
    need(count);
    position_ += count;
    return buffer_.data() + position_ - count;
  }
  std::int64_t offset() const { return total_ - stream_.remaining() - (filled_ - position_); }

 private:
  void need(std::int64_t count) const {
    ENSURE(filled_ - position_ >= count,
           "compressed data are damaged: they end inside an instruction, at byte ", offset(),
           " of ", total_);
  }
  void refill() {
    const std::int64_t kept = filled_ - position_,
                       more = std::min<std::int64_t>(kPiece, stream_.remaining());
    if (more == 0) return;
    if (static_cast<std::int64_t>(buffer_.size()) < kept + more)
      buffer_.resize(static_cast<std::size_t>(kept + more));
    std::memmove(buffer_.data(), buffer_.data() + position_, static_cast<std::size_t>(kept));
    stream_.read(buffer_.data() + kept, more);
    position_ = 0;
    filled_ = kept + more;
  }
  ByteStream& stream_;
  std::int64_t total_;
  std::vector<char> buffer_;
  std::int64_t position_ = 0, filled_ = 0;
};

}  // namespace

void lzf_decompress(ByteStream& in, std::int64_t expected,
                    const std::function<void(std::string_view)>& out) {
  std::vector<char> buffer(static_cast<std::size_t>(kWindow + kPiece + kLongestMatch + 8));
  std::int64_t filled = 0, flushed = 0,
               produced = 0;  // positions in buffer; bytes before `flushed` are history
  Input input(in);
  const auto flush = [&] {
    out({buffer.data() + flushed, static_cast<std::size_t>(filled - flushed)});
    const std::int64_t kept = std::min(kWindow, filled);
    std::memmove(buffer.data(), buffer.data() + filled - kept, static_cast<std::size_t>(kept));
    filled = flushed = kept;
  };
  const auto check = [&](std::int64_t length) {
    produced += length;
    ENSURE(produced <= expected, "compressed data are damaged: they give more than the ", expected,
           " bytes that the header claims");
  };
  while (!input.is_empty()) {
    const unsigned control = input.byte();
    if (control < 32) {
      const std::int64_t length = control + 1;
      check(length);
      std::memcpy(buffer.data() + filled, input.take(length), static_cast<std::size_t>(length));
      filled += length;
    } else {
      std::int64_t length = control >> 5;
      if (length == 7) length += input.byte();
      length += 2;
      const std::int64_t distance = ((control & 31) << 8) + input.byte() + 1;
      ENSURE(distance <= filled, "compressed data are damaged: byte ", input.offset(), " refers ",
             distance, " bytes back, ", produced, " are there");
      check(length);
      // Source and target may overlap: the copy repeats what it has just written. The buffer has
      // room for the last step.
      char* target = buffer.data() + filled;
      if (distance >= 8) {
        for (std::int64_t done = 0; done < length; done += 8)
          std::memcpy(target + done, target + done - distance, 8);
      } else {
        for (std::int64_t done = 0; done < length; ++done) target[done] = target[done - distance];
      }
      filled += length;
    }
    if (filled >= kWindow + kPiece) flush();
  }
  flush();
  ENSURE(produced == expected, "compressed data give ", produced, " bytes, the header claims ",
         expected);
}

std::string lzf_compress(std::string_view bytes) {
  constexpr int kHashBits = 15;
  std::vector<std::int64_t> last(std::size_t{1} << kHashBits, -1);
  const auto size = static_cast<std::int64_t>(bytes.size());
  const auto at = [&](std::int64_t i) {
    return static_cast<std::uint32_t>(
        static_cast<unsigned char>(bytes[static_cast<std::size_t>(i)]));
  };
  std::string out;
  out.reserve(bytes.size() / 2 + 64);
  std::int64_t literal_begin = 0;
  const auto emit_literals = [&](std::int64_t end) {
    while (literal_begin < end) {
      const std::int64_t length = std::min(kLongestRun, end - literal_begin);
      out += static_cast<char>(length - 1);
      out +=
          bytes.substr(static_cast<std::size_t>(literal_begin), static_cast<std::size_t>(length));
      literal_begin += length;
    }
  };
  for (std::int64_t i = 0; i + 2 < size;) {
    const std::uint32_t key = (at(i) << 16 | at(i + 1) << 8 | at(i + 2)) * 2654435761u;
    std::int64_t& slot = last[key >> (32 - kHashBits)];
    const std::int64_t candidate = slot;
    slot = i;
    const bool usable = candidate >= 0 && i - candidate <= kWindow && at(candidate) == at(i) &&
                        at(candidate + 1) == at(i + 1) && at(candidate + 2) == at(i + 2);
    if (!usable) {
      ++i;
      continue;
    }
    emit_literals(i);
    std::int64_t length = 3;
    while (length < kLongestMatch && i + length < size && at(candidate + length) == at(i + length))
      ++length;
    const std::int64_t distance = i - candidate - 1, code = length - 2;
    out += static_cast<char>(std::min<std::int64_t>(code, 7) << 5 | distance >> 8);
    if (code >= 7) out += static_cast<char>(code - 7);
    out += static_cast<char>(distance & 255);
    i += length;
    literal_begin = i;
  }
  emit_literals(size);
  return out;
}

}  // namespace io
