#include "gemm_core/device/gemm_config.hpp"

#include <algorithm>
#include <fstream>

#include "gemm_core/base/error.hpp"

namespace gemm_core {
namespace {

using base::DType;
using kernel::Decomposition;

constexpr std::int64_t kRows[] = {96, 48, 24, 192}, kColumns[] = {512, 256, 128, 1024};
constexpr std::int64_t kSplits[] = {2, 4, 8};

std::string config_name(const DenseTiling& t, const GemmSchedule& s) {
  std::string name = base::concat(t.tile_m, "x", t.tile_n);
  switch (s.decomposition) {
    case Decomposition::split_k:
      name += base::concat("_split_", s.splits);
      break;
    case Decomposition::stream_k:
      name += base::concat("_stream_", s.processors);
      break;
    default:
      name += "_data_parallel";
      break;
  }
  return t.dot_products ? name : name + "_no_dot";
}

bool has_dot_products(const GemmArguments& g) {
  return (g.compute == DType::bf16 && cpu_atoms().multiply_bf16) ||
         (g.compute == DType::i8 && cpu_atoms().multiply_u8i8);
}

// Multiply-adds of one lane in the time of an fp32 one.
double speed_of(const GemmArguments& g, const DenseTiling& t) {
  if (g.compute == DType::f64 || g.compute == DType::c64)
    return g.compute == DType::c64 ? 0.25 : 0.5;
  if (g.compute == DType::c128) return 0.125;
  if (t.dot_products && has_dot_products(g)) return g.compute == DType::i8 ? 4 : 2;
  return g.compute == DType::i8 ? 2 : 1;
}

std::int64_t ceil_div(std::int64_t x, std::int64_t y) { return (x + y - 1) / y; }

double cost_of(const DenseTiling& tiling, const GemmSchedule& schedule, const GemmArguments& g,
               const MachineModel& machine) {
  const std::int64_t rows = std::min(tiling.tile_m, std::max<std::int64_t>(1, g.m)),
                     columns = std::min(tiling.tile_n, std::max<std::int64_t>(1, g.n));
  const double k = static_cast<double>(std::max<std::int64_t>(1, g.k));
  const double area = static_cast<double>(rows * columns);
  // A tile multiplies, streams B once, loads its rows of A, and starts.
  const double multiply = area * k / (machine.fma_per_ns * speed_of(g, tiling));
  const double stream = static_cast<double>(columns) * k / machine.l2_floats_per_ns;
  const double load = static_cast<double>(rows) * k / machine.load_floats_per_ns / 8;
  const double store = area / machine.l2_floats_per_ns;
  const std::int64_t tiles = ceil_div(g.m, tiling.tile_m) * ceil_div(g.n, tiling.tile_n) *
                             std::max<std::int64_t>(1, g.batch);
  const double whole = multiply + stream + load + store + machine.tile_ns;
  if (schedule.decomposition == Decomposition::data_parallel)
    return static_cast<double>(ceil_div(tiles, machine.threads)) * whole;
  // Cut along k: even shares, and each share's sums are written, read and added once more.
  const double units = schedule.decomposition == Decomposition::split_k
                           ? static_cast<double>(tiles * schedule.splits)
                           : static_cast<double>(std::max(tiles, schedule.processors));
  const double share = (whole - machine.tile_ns) * static_cast<double>(tiles) / units;
  return static_cast<double>(ceil_div(static_cast<std::int64_t>(units), machine.threads)) *
         (share + 3 * store + machine.tile_ns);
}

}  // namespace

std::vector<GemmConfig> gemm_configs(const GemmArguments& g) {
  std::vector<GemmConfig> configs;
  const auto add = [&](std::int64_t rows, std::int64_t columns, const GemmSchedule& schedule,
                       bool dots) {
    const DenseTiling tiling{rows, columns, dots};
    configs.push_back({config_name(tiling, schedule), tiling, schedule});
  };
  for (const bool dots : {true, false}) {
    if (!dots && !has_dot_products(g)) continue;
    for (const std::int64_t rows : kRows) {
      for (const std::int64_t columns : kColumns) {
        add(rows, columns, {}, dots);
        if (g.k < 4 * 256) continue;  // nothing to share out along k
        for (const std::int64_t splits : kSplits)
          add(rows, columns, {.decomposition = Decomposition::split_k, .splits = splits}, dots);
        add(rows, columns, {.decomposition = Decomposition::stream_k}, dots);
      }
    }
  }
  return configs;
}

double estimate_ns(const GemmConfig& config, const GemmArguments& g, const MachineModel& machine) {
  return cost_of(config.tiling, config.schedule, g, machine);
}

GemmConfig select_config(const GemmArguments& g, bool may_split, const MachineModel& machine) {
  GemmConfig best;
  double least = 0;
  for (const GemmConfig& config : gemm_configs(g)) {
    const bool splits = config.schedule.decomposition != Decomposition::data_parallel;
    if ((splits && !may_split) || !config.tiling.dot_products) continue;
    const double cost = estimate_ns(config, g, machine);
    if (best.name.empty() || cost < least) {
      best = config;
      least = cost;
    }
  }
  return best;
}

DenseTiling select_tiling(const GemmArguments& g, const MachineModel& machine) {
  DenseTiling best = g.tiling;
  const bool is_wide =
      g.compute == DType::f64 || g.compute == DType::c64 || g.compute == DType::c128;
  if (best.tile_m != 0 || best.tile_n != 0 || is_wide) return best;
  double least = 0;
  for (const std::int64_t rows : kRows) {
    for (const std::int64_t columns : kColumns) {
      const DenseTiling tiling{rows, columns, g.tiling.dot_products};
      const double cost = cost_of(tiling, {}, g, machine);
      if (best.tile_m != 0 && cost >= least) continue;
      best = tiling;
      least = cost;
    }
  }
  return best;
}

void apply(const GemmConfig& config, GemmArguments& g) {
  g.tiling = config.tiling;
  g.schedule = config.schedule;
}

std::string tuning_key(const GemmArguments& g, const std::string& machine) {
  const auto layout = [](const GemmOperand& o) {
    return o.column_stride == 1 ? "rows" : "columns";
  };
  return base::concat(machine.empty() ? cpu_atoms().name : machine, " ", base::name(g.a.dtype),
                      " x ", base::name(g.b.dtype), " -> ", base::name(g.d.dtype), " as ",
                      base::name(g.compute), " A ", layout(g.a), " B ", layout(g.b), " m ", g.m,
                      " n ", g.n, " k ", g.k, " batch ", g.batch);
}

TuningTable TuningTable::read(const std::filesystem::path& path) {
  std::ifstream file(path);
  ENSURE(file.good(), path.string(), ": cannot be read");
  TuningTable table;
  std::string line;
  for (std::int64_t number = 1; std::getline(file, line); ++number) {
    if (line.empty() || line[0] == '#') continue;
    const std::size_t tab = line.find('\t');
    ENSURE(tab != std::string::npos && tab > 0 && tab + 1 < line.size() &&
               line.find('\t', tab + 1) == std::string::npos,
           path.string(), ": line ", number, " is not \"problem<tab>configuration\"");
    table.entries_[line.substr(0, tab)] = line.substr(tab + 1);
  }
  ENSURE(file.eof(), path.string(), ": cannot be read to its end");
  return table;
}

void TuningTable::write(const std::filesystem::path& path) const {
  std::filesystem::path part = path;
  part += ".part";
  {
    std::ofstream file(part);
    file << "# problem<tab>configuration: the fastest measured\n";
    for (const auto& [key, name] : entries_) file << key << '\t' << name << '\n';
    file.flush();
    ENSURE(file.good(), part.string(), ": cannot be written");
  }
  std::filesystem::rename(part, path);
}

void TuningTable::set(const GemmArguments& g, const std::string& config) {
  entries_[tuning_key(g)] = config;
}
std::string TuningTable::find(const std::string& key) const {
  const auto entry = entries_.find(key);
  return entry == entries_.end() ? "" : entry->second;
}
bool TuningTable::has(const GemmArguments& g) const { return entries_.contains(tuning_key(g)); }

GemmConfig TuningTable::select(const GemmArguments& g) const {
  const auto entry = entries_.find(tuning_key(g));
  if (entry != entries_.end()) {
    for (const GemmConfig& config : gemm_configs(g)) {
      if (config.name == entry->second) return config;
    }
  }
  return select_config(g);
}

}  // namespace gemm_core
