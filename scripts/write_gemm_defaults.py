#!/usr/bin/env python3
"""Writes the table of default kernels from what `sparseconv bench gemm --device cuda --tune FILE` measured.

    scripts/write_gemm_defaults.py FILE... > gemm_core/device/cuda/gemm/gemm_defaults_h200.cpp

A product takes its sums whole unless it is asked to cut them, so problems whose fastest configuration cuts them are left
to the cost model. The last file wins where two name a problem.
"""
import sys

HEAD = '''// The fastest kernels on an H200, as `sparseconv bench gemm --device cuda --tune FILE` measured
// them and scripts/write_gemm_defaults.py wrote them; docs/performance_gpu.md says when and how.
// Sums are not cut here.
#include <algorithm>
#include <array>
#include <string_view>

#include "gemm_core/device/cuda/gemm/gemm_tuning.hpp"

namespace gemm_core::cuda {
namespace {

struct Entry {
  std::string_view key, kernel;
};
'''
TAIL = '''static_assert(std::is_sorted(kEntries.begin(), kEntries.end(),
                             [](const Entry& a, const Entry& b) { return a.key < b.key; }));

}  // namespace

std::string default_kernel(const std::string& key) {
  const auto found = std::lower_bound(
      kEntries.begin(), kEntries.end(), key,
      [](const Entry& entry, const std::string& wanted) { return entry.key < wanted; });
  return found != kEntries.end() && found->key == key ? std::string(found->kernel) : "";
}

}  // namespace gemm_core::cuda
'''


def main(paths):
    if not paths:
        sys.exit(__doc__)
    kernels = {}
    for path in paths:
        for number, line in enumerate(open(path, encoding="utf-8"), 1):
            if line.startswith("#") or not line.strip():
                continue
            parts = line.rstrip("\n").split("\t")
            if len(parts) != 2:
                sys.exit(f"{path}:{number}: not a problem, a tab and a configuration")
            kernels[parts[0]] = parts[1]
    entries = sorted((key, name) for key, name in kernels.items() if "+" not in name)
    lines = "".join(f'    {{"{key}",\n     "{name}"}},\n' for key, name in entries)
    body = f"constexpr std::array<Entry, {len(entries)}> kEntries{{{{\n{lines}}}}};\n" if entries else \
        "constexpr std::array<Entry, 0> kEntries{};\n"
    sys.stdout.write(HEAD + "// clang-format off\n" * bool(entries) + body + "// clang-format on\n" * bool(entries) + TAIL)


main(sys.argv[1:])
