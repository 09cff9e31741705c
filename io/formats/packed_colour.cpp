#include "io/formats/packed_colour.hpp"

#include <cstring>

namespace io {

void unpack_colours(Cloud& cloud) {
  const bool has_alpha = cloud.find("rgba") != nullptr;
  const Column* packed = cloud.find(has_alpha ? "rgba" : "rgb");
  if (packed == nullptr || packed->field.count != 1 || base::bytes(packed->field.type) != 4) return;
  for (const char* name : {"r", "g", "b", "alpha"}) {
    if (cloud.find(name) != nullptr) return;
  }
  const base::Tensor values = packed->values;
  const auto* words = static_cast<const unsigned char*>(values.data());
  struct Part {
    const char* name;
    int shift;
  };
  for (const Part part : {Part{"r", 16}, Part{"g", 8}, Part{"b", 0}, Part{"alpha", 24}}) {
    if (part.shift == 24 && !has_alpha) continue;
    base::Tensor channel = base::Tensor::empty({cloud.size()}, base::DType::u8);
    auto* out = channel.data<std::uint8_t>();
    for (std::int64_t i = 0; i < cloud.size(); ++i) {
      std::uint32_t word;
      std::memcpy(&word, words + 4 * i, 4);
      out[i] = static_cast<std::uint8_t>(word >> part.shift);
    }
    cloud.add(Field{part.name, base::DType::u8, 1, ""}, std::move(channel));
  }
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
