#include "io/formats/packed_colour.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace io {
namespace {

constexpr std::int64_t kBlock = 1 << 18;  // points

// Gives the pages of bytes that nobody reads any more back, so that packed and unpacked colours of
// a large cloud are not held together.
void forget(char* bytes, std::int64_t count) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes),
             first = (begin + page - 1) / page * page,
             last = (begin + static_cast<std::uintptr_t>(count)) / page * page;
  if (first < last) ::madvise(bytes + (first - begin), last - first, MADV_DONTNEED);
}

}  // namespace

void unpack_colours(Cloud& cloud) {
  const bool has_alpha = cloud.find("rgba") != nullptr;
  const Column* packed = cloud.find(has_alpha ? "rgba" : "rgb");
  if (packed == nullptr || packed->field.count != 1 || base::bytes(packed->field.type) != 4) return;
  for (const char* name : {"r", "g", "b", "alpha"}) {
    if (cloud.find(name) != nullptr) return;
  }
  base::Tensor values = packed->values;
  auto* words = static_cast<char*>(values.data());
  struct Part {
    const char* name;
    int shift;
    base::Tensor channel;
  };
  std::vector<Part> parts{{"r", 16, {}}, {"g", 8, {}}, {"b", 0, {}}};
  if (has_alpha) parts.push_back({"alpha", 24, {}});
  for (Part& part : parts) part.channel = base::Tensor::empty({cloud.size()}, base::DType::u8);
  for (std::int64_t begin = 0; begin < cloud.size(); begin += kBlock) {
    const std::int64_t count = std::min(kBlock, cloud.size() - begin);
    for (Part& part : parts) {
      auto* out = part.channel.data<std::uint8_t>() + begin;
      for (std::int64_t i = 0; i < count; ++i) {
        std::uint32_t word;
        std::memcpy(&word, words + 4 * (begin + i), 4);
        out[i] = static_cast<std::uint8_t>(word >> part.shift);
      }
    }
    forget(words + 4 * begin, 4 * count);
  }
  for (Part& part : parts)
    cloud.add(Field{part.name, base::DType::u8, 1, ""}, std::move(part.channel));
  cloud.remove(has_alpha ? "rgba" : "rgb");
}

base::Tensor packed_colours(const Cloud& cloud, bool with_alpha) {
  base::Tensor packed = base::Tensor::empty({cloud.size()}, base::DType::u32);
  const auto* r = cloud.get("r").values.data<std::uint8_t>();
  const auto* g = cloud.get("g").values.data<std::uint8_t>();
  const auto* b = cloud.get("b").values.data<std::uint8_t>();
  const auto* alpha = with_alpha ? cloud.get("alpha").values.data<std::uint8_t>() : nullptr;
  auto* out = packed.data<std::uint32_t>();
  for (std::int64_t i = 0; i < cloud.size(); ++i) {
    const std::uint32_t a = alpha != nullptr ? alpha[i] : 0;
    out[i] = a << 24 | static_cast<std::uint32_t>(r[i]) << 16 |
             static_cast<std::uint32_t>(g[i]) << 8 | b[i];
  }
  return packed;
}

}  // namespace io
