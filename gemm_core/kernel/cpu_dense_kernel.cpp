#include "gemm_core/kernel/cpu_dense_kernel.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "gemm_core/base/parallel.hpp"

namespace gemm_core {
namespace {

// Units of all problems in one loop over threads.
template <class Count, class Run>
void for_all_units(const std::vector<PackedProblem>& problems, const Count& count, const Run& run) {
  std::vector<std::int64_t> first(problems.size() + 1, 0);
  for (std::size_t i = 0; i < problems.size(); ++i)
    first[i + 1] = first[i] + count(problems[i].problem);
  base::parallel_blocks(first.back(), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const auto next = std::upper_bound(first.begin(), first.end(), unit);
      const auto i = static_cast<std::size_t>(next - first.begin() - 1);
      run(problems[i], unit - first[i]);
    }
  });
}

void pack_all(const std::vector<PackedProblem>& problems) {
  const CpuAtoms& atoms = cpu_atoms();
  for_all_units(
      problems, [&](const DenseProblem& p) { return pack_units(atoms, p); },
      [&](const PackedProblem& p, std::int64_t unit) {
        pack_unit(atoms, p.problem, p.packed, unit);
      });
}

kernel::StreamKPlan plan_of(const CpuAtoms& atoms, const DenseProblem& p, const CpuSplit& split) {
  return kernel::plan_stream_k({.tiles = dense_tiles(atoms, p),
                                .k_tiles = dense_k_blocks(atoms, p),
                                .processors = split.processors},
                               {.decomposition = split.decomposition, .splits = split.splits});
}

std::int64_t bytes_of_sums(const CpuAtoms& atoms, const DenseProblem& p) {
  const std::int64_t each = sum_type(atoms, p) == SumType::f64 ? 8 : 4;
  return (sums_count(atoms, p) * each + 63) / 64 * 64;
}

// A unit's first and last pieces may be parts of tiles: two slots a unit. Without an order, one a
// tile.
std::int64_t slots_of(const kernel::StreamKPlan& plan, const CpuSplit& split) {
  if (plan.stream_units() == 0) return 0;
  return split.deterministic ? 2 * plan.stream_units() : plan.stream_tiles() + plan.stream_units();
}

template <class T>
void add_to(T* to, const T* from, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] += from[i];
}

void add_sums(SumType type, void* to, const void* from, std::int64_t count) {
  switch (type) {
    case SumType::f64:
      return add_to(static_cast<double*>(to), static_cast<const double*>(from), count);
    case SumType::i32:  // unsigned: sums wrap
      return add_to(static_cast<std::uint32_t*>(to), static_cast<const std::uint32_t*>(from),
                    count);
    default:
      return add_to(static_cast<float*>(to), static_cast<const float*>(from), count);
  }
}

class SplitRun {
 public:
  SplitRun(const PackedProblem& p, const CpuSplit& split, void* workspace)
      : atoms_(cpu_atoms()),
        p_(p.problem),
        packed_(p.packed),
        split_(split),
        plan_(plan_of(atoms_, p_, split)),
        slots_(static_cast<char*>(workspace)),
        slot_bytes_(bytes_of_sums(atoms_, p_)),
        tiles_(split.deterministic ? 0 : static_cast<std::size_t>(plan_.stream_tiles())) {}

  void run() {
    base::parallel_blocks(plan_.units(), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t unit = begin; unit < end; ++unit) run_unit(unit);
    });
    if (!split_.deterministic) return;
    base::parallel_blocks(plan_.stream_tiles(), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t tile = begin; tile < end; ++tile) join(tile);
    });
  }

 private:
  struct Tile {
    std::atomic<bool> busy{false};
    std::int64_t k_blocks = 0;  // added so far
  };

  char* slot(std::int64_t i) const { return slots_ + i * slot_bytes_; }
  std::int64_t count() const { return sums_count(atoms_, p_); }

  void run_unit(std::int64_t unit) {
    const std::int64_t pieces = plan_.piece_count(unit);
    for (std::int64_t i = 0; i < pieces; ++i) {
      const kernel::StreamKPiece piece = plan_.piece(unit, i);
      if (piece.starts_tile && piece.finishes_tile) {
        run_dense_tile(atoms_, p_, packed_, piece.tile);
      } else if (split_.deterministic) {
        accumulate(piece, slot(2 * unit + (i == 0 ? 0 : 1)));
      } else {
        char* own = slot(plan_.stream_tiles() + unit);
        accumulate(piece, own);
        add_as_it_comes(piece, own);
      }
    }
  }

  void accumulate(const kernel::StreamKPiece& piece, void* sums) {
    accumulate_dense_tile(atoms_, p_, packed_, piece.tile, piece.k_begin, piece.k_end, sums);
  }

  void add_as_it_comes(const kernel::StreamKPiece& piece, const void* sums) {
    Tile& tile = tiles_[static_cast<std::size_t>(piece.tile)];
    while (tile.busy.exchange(true, std::memory_order_acquire)) std::this_thread::yield();
    char* total = slot(piece.tile);
    if (tile.k_blocks == 0) {
      std::memcpy(total, sums, static_cast<std::size_t>(slot_bytes_));
    } else {
      add_sums(sum_type(atoms_, p_), total, sums, count());
    }
    tile.k_blocks += piece.k_end - piece.k_begin;
    if (tile.k_blocks == dense_k_blocks(atoms_, p_))
      finish_dense_tile(atoms_, p_, packed_, piece.tile, total);
    tile.busy.store(false, std::memory_order_release);
  }

  struct Part {
    std::int64_t k_begin;
    char* sums;
  };

  // Adds the pieces of a tile in the order of k.
  void join(std::int64_t tile) {
    std::vector<Part> parts;
    for (std::int64_t unit = 0; unit < plan_.stream_units(); ++unit) {
      const std::int64_t pieces = plan_.piece_count(unit), first = plan_.piece(unit, 0).tile;
      if (tile < first || tile >= first + pieces) continue;
      const kernel::StreamKPiece piece = plan_.piece(unit, tile - first);
      if (piece.starts_tile && piece.finishes_tile) return;  // done where it was multiplied
      parts.push_back({piece.k_begin, slot(2 * unit + (tile == first ? 0 : 1))});
    }
    std::sort(parts.begin(), parts.end(),
              [](const Part& x, const Part& y) { return x.k_begin < y.k_begin; });
    for (std::size_t i = 1; i < parts.size(); ++i)
      add_sums(sum_type(atoms_, p_), parts[0].sums, parts[i].sums, count());
    finish_dense_tile(atoms_, p_, packed_, tile, parts[0].sums);
  }

  const CpuAtoms& atoms_;
  const DenseProblem& p_;
  void* packed_;
  CpuSplit split_;
  kernel::StreamKPlan plan_;
  char* slots_;
  std::int64_t slot_bytes_;
  std::vector<Tile> tiles_;
};

}  // namespace

void run_problems(const std::vector<PackedProblem>& problems) {
  const CpuAtoms& atoms = cpu_atoms();
  pack_all(problems);
  for_all_units(
      problems, [&](const DenseProblem& p) { return dense_tiles(atoms, p); },
      [&](const PackedProblem& p, std::int64_t tile) {
        run_dense_tile(atoms, p.problem, p.packed, tile);
      });
}

std::int64_t split_bytes(const CpuAtoms& atoms, const DenseProblem& problem,
                         const CpuSplit& split) {
  return slots_of(plan_of(atoms, problem, split), split) * bytes_of_sums(atoms, problem);
}

void run_split_problems(const std::vector<PackedProblem>& problems, const CpuSplit& split,
                        void* workspace) {
  if (problems.empty() || split_bytes(cpu_atoms(), problems.front().problem, split) == 0)
    return run_problems(problems);
  pack_all(problems);
  for (const PackedProblem& p : problems) SplitRun(p, split, workspace).run();
}

}  // namespace gemm_core
