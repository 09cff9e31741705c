// How a product is cut, as data: the configurations that this build has, what each would cost by a
// model of the machine, and tables of measured choices. A configuration never changes a result
// beyond rounding.
//
//   for (const GemmConfig& c : gemm_configs(args)) ...         // every legal one, by name
//   apply(select_config(args), args);                          // the cheapest by the model
//   const TuningTable table = TuningTable::read("cpu.tuning"); // used only where it is named
//   apply(table.select(args), args);                           // the measured one, else the
//   model's
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "gemm_core/device/gemm.hpp"

namespace gemm_core {

struct GemmConfig {
  std::string name;  // "96x512_data_parallel", "48x128_split_4", "..._no_dot": unique
  DenseTiling tiling;
  GemmSchedule schedule;
};

// What the cost model knows of a machine. Threads are a number of its own, never the caller's, so
// that the same problem is cut the same way everywhere.
struct MachineModel {
  std::int64_t threads = 8;
  double fma_per_ns = 32;           // fp32 multiply-adds of one thread
  double l2_floats_per_ns = 16;     // B, asked for ahead, and sums streaming past a tile
  double load_floats_per_ns = 0.5;  // converting and packing A
  double tile_ns = 400;             // starting a tile
};

std::vector<GemmConfig> gemm_configs(const GemmArguments& arguments);
double estimate_ns(const GemmConfig& config, const GemmArguments& arguments,
                   const MachineModel& machine = {});
// Ties go to the earlier one of gemm_configs. Data-parallel unless `may_split`: splits change
// rounding.
GemmConfig select_config(const GemmArguments& arguments, bool may_split = false,
                         const MachineModel& machine = {});
void apply(const GemmConfig& config, GemmArguments& arguments);
// What Gemm does with arguments that leave the tiling open: the tile of the cheapest data-parallel
// configuration; what is given stays as it is, and so do wide types, for which there is one tile.
// Allocates nothing.
DenseTiling select_tiling(const GemmArguments& arguments, const MachineModel& machine = {});

// Problem -> name of a configuration. One line each in a file: key, tab, name.
class TuningTable {
 public:
  static TuningTable read(const std::filesystem::path& path);  // base::Error names file and line
  void write(const std::filesystem::path& path) const;         // whole or not at all
  void set(const GemmArguments& arguments, const std::string& config);
  // The table's choice where it has one that is still legal, else the model's.
  GemmConfig select(const GemmArguments& arguments) const;
  bool has(const GemmArguments& arguments) const;
  // By key, for configurations of another backend.
  void set(const std::string& key, const std::string& config) { entries_[key] = config; }
  std::string find(const std::string& key) const;  // "" where there is none
  std::size_t size() const { return entries_.size(); }

 private:
  std::map<std::string, std::string> entries_;
};
// `machine`: what the choice holds for; by default this CPU's instruction set.
std::string tuning_key(const GemmArguments& arguments, const std::string& machine = {});

}  // namespace gemm_core
