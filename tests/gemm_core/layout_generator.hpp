// Random small layouts for law tests, and brute force answers to check against. Seeds are fixed:
// failures repeat.
#pragma once
#include <algorithm>
#include <optional>
#include <random>
#include <set>

#include "gemm_core/layout/algebra.hpp"

namespace layout_test {

using layout::Index;
using layout::IntTree;
using layout::LayoutTree;
using layout::Mode;
using layout::Modes;

class Generator {
 public:
  explicit Generator(unsigned seed) : engine_(seed) {}

  Index pick(Index low, Index high) {
    return std::uniform_int_distribution<Index>(low, high)(engine_);
  }
  bool chance(int percent) { return pick(1, 100) <= percent; }

  // Up to `max_modes` leaves and about `max_size` values; strides are compact in some order, or
  // arbitrary.
  LayoutTree layout(int max_modes = 4, Index max_size = 96) {
    std::vector<Mode> modes;
    Index room = max_size;
    const Index count = pick(1, max_modes);
    for (Index k = 0; k < count; ++k) {
      const Index n = chance(15) ? 1 : pick(1, std::min<Index>(room, 8));
      room /= n;
      modes.push_back({n, 0});
    }
    set_strides(modes);
    return nest(modes, 0, modes.size());
  }

  // Every leaf on compact strides in a random order.
  LayoutTree compact(int max_modes = 4, Index max_size = 96) {
    force_compact_ = true;
    LayoutTree made = layout(max_modes, max_size);
    force_compact_ = false;
    return made;
  }

 private:
  void set_strides(std::vector<Mode>& modes) {
    const bool compact = force_compact_ || chance(60);
    std::vector<std::size_t> order(modes.size());
    for (std::size_t k = 0; k < order.size(); ++k) order[k] = k;
    if (chance(70)) std::shuffle(order.begin(), order.end(), engine_);
    Index next = 1;
    for (std::size_t k : order) {
      modes[k].stride = next;
      next *= modes[k].size.value();
      if (!compact && chance(40)) next *= pick(1, 3);
    }
    if (compact) return;
    for (Mode& m : modes) {
      if (chance(10))
        m.stride = 0;
      else if (chance(20))
        m.stride = pick(0, 20);
    }
  }

  LayoutTree nest(const std::vector<Mode>& modes, std::size_t begin, std::size_t end) {
    if (end - begin == 1)
      return chance(20) ? LayoutTree::tuple({modes[begin]}) : LayoutTree(modes[begin]);
    std::vector<LayoutTree> list;
    for (std::size_t at = begin; at < end;) {
      const std::size_t take = static_cast<std::size_t>(pick(1, static_cast<Index>(end - at)));
      if (take == end - begin) {
        list.push_back(modes[at++]);
        continue;
      }
      list.push_back(nest(modes, at, at + take));
      at += take;
    }
    return LayoutTree::tuple(std::move(list));
  }

  std::mt19937 engine_;
  bool force_compact_ = false;
};

// The modes of a list of values, if they are those of a layout: found from the definition, mode by
// mode, then compared.
inline std::optional<Modes> modes_of_values(const std::vector<Index>& values) {
  Modes modes;
  std::size_t covered = 1;
  while (covered < values.size()) {
    const Index stride = values[covered];
    std::size_t count = 1;
    while (count * covered < values.size() &&
           values[count * covered] == static_cast<Index>(count) * stride)
      ++count;
    if (values.size() % (count * covered) != 0) return std::nullopt;
    modes.push_back({static_cast<Index>(count), stride});
    covered *= count;
  }
  for (std::size_t i = 0; i < values.size(); ++i)
    if (layout::value_at(modes, static_cast<Index>(i)) != values[i]) return std::nullopt;
  return modes;
}

// Whether some layout that refines b, leaf by leaf, has these values.
inline bool refinement_exists(const LayoutTree& b, const std::vector<Index>& values) {
  const Modes leaves = layout::leaves(b);
  Modes all;
  std::size_t unit = 1;
  for (const Mode& leaf : leaves) {
    std::vector<Index> column;
    for (Index c = 0; c < leaf.size.value(); ++c)
      column.push_back(values[static_cast<std::size_t>(c) * unit]);
    const auto found = modes_of_values(column);
    if (!found) return false;
    all.insert(all.end(), found->begin(), found->end());
    unit *= static_cast<std::size_t>(leaf.size.value());
  }
  for (std::size_t i = 0; i < values.size(); ++i)
    if (layout::value_at(all, static_cast<Index>(i)) != values[i]) return false;
  return true;
}

inline std::set<Index> image(const LayoutTree& a) {
  const auto values = table(a);
  return {values.begin(), values.end()};
}

}  // namespace layout_test
