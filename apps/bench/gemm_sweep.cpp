#include "apps/bench/gemm_sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <random>
#include <string_view>

#include "apps/values.hpp"
#include "gemm_core/collective/cpu_element.hpp"

namespace apps {
namespace {

using base::DType;

struct TypeSet {
  const char* name;
  DType a, b, d, compute;
};
constexpr TypeSet kTypes[] = {{"fp32", DType::f32, DType::f32, DType::f32, DType::f32},
                              {"tf32", DType::f32, DType::f32, DType::f32, DType::tf32},
                              {"fp16", DType::f16, DType::f16, DType::f16, DType::f16},
                              {"bf16", DType::bf16, DType::bf16, DType::bf16, DType::bf16},
                              {"fp64", DType::f64, DType::f64, DType::f64, DType::f64},
                              {"int8", DType::i8, DType::i8, DType::i32, DType::i8},
                              {"e4m3", DType::e4m3, DType::e4m3, DType::bf16, DType::e4m3},
                              {"e5m2", DType::e5m2, DType::e5m2, DType::bf16, DType::e5m2},
                              {"int4xfp16", DType::f16, DType::i4, DType::f16, DType::f16},
                              {"int4xbf16", DType::bf16, DType::i4, DType::bf16, DType::bf16},
                              {"int8xbf16", DType::bf16, DType::i8, DType::bf16, DType::bf16},
                              {"e4m3xbf16", DType::bf16, DType::e4m3, DType::bf16, DType::bf16}};

const TypeSet& types_of(const std::string& name) {
  for (const TypeSet& set : kTypes) {
    if (name == set.name) return set;
  }
  throw UsageError("--dtype: \"" + name + "\" is none of " + kGemmTypes);
}

double value_at(const std::uint8_t* data, DType type, std::int64_t at) {
  if (type == DType::f64) return reinterpret_cast<const double*>(data)[at];
  if (type == DType::i32) return reinterpret_cast<const std::int32_t*>(data)[at];
  return static_cast<double>(gemm_core::float_element(data, type, at));
}

std::vector<std::uint8_t> random_operand(std::int64_t count, DType type, std::mt19937_64& random) {
  std::vector<std::uint8_t> data(static_cast<std::size_t>(base::bytes(type, count)) + 8);
  std::uniform_real_distribution<float> spread(-1, 1);
  if (gemm_core::is_small_integer(type)) {
    for (auto& byte : data) byte = static_cast<std::uint8_t>(random());
    return data;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    if (type == DType::f64) {
      reinterpret_cast<double*>(data.data())[i] = static_cast<double>(spread(random));
    } else {
      gemm_core::store_element(data.data(), type, i, spread(random));
    }
  }
  return data;
}

// "*" stands for any text; the rest for itself.
bool looks_like(std::string_view name, std::string_view pattern) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return name == pattern;
  if (!name.starts_with(pattern.substr(0, star))) return false;
  name.remove_prefix(star);
  const std::string_view rest = pattern.substr(star + 1);
  for (std::size_t i = 0; i <= name.size(); ++i) {
    if (looks_like(name.substr(i), rest)) return true;
  }
  return false;
}

double roundoff(DType type) {
  switch (type) {
    case DType::f64:
      return 0x1p-53;
    case DType::f16:
      return 0x1p-11;
    case DType::bf16:
      return 0x1p-8;
    case DType::i32:
      return 0;
    default:
      return 0x1p-24;
  }
}

}  // namespace

double GemmTask::flop() const {
  return 2.0 * static_cast<double>(groups) * static_cast<double>(m) * static_cast<double>(n) *
         static_cast<double>(k);
}

double GemmTask::bytes() const {
  const TypeSet& t = types_of(type);
  return static_cast<double>(groups) *
         static_cast<double>(base::bytes(t.a, m * k) + base::bytes(t.b, n * k) +
                             base::bytes(t.d, m * n));
}

std::string GemmTask::name() const {
  return fmt::format("gemm_{}_{}_{}x{}x{}{}", type, layout, m, n, k,
                     groups > 1 ? fmt::format("_g{}", groups) : "");
}

std::vector<std::int64_t> parse_sweep(const std::string& option, const std::string& text,
                                      std::int64_t limit) {
  std::vector<std::int64_t> values;
  constexpr std::size_t kMost = 10000;
  for (const std::string& part : split_list(text)) {
    const auto range = split_list(part, ':');
    ENSURE_USAGE(range.size() == 1 || range.size() == 3, "--", option,
                 ": expected N or LOW:HIGH:STEP, got \"", part, "\"");
    const std::int64_t low = parse_integer(option, range[0]);
    const std::int64_t high = range.size() == 3 ? parse_integer(option, range[1]) : low;
    const std::int64_t step = range.size() == 3 ? parse_integer(option, range[2]) : 1;
    ENSURE_USAGE(low >= 1 && low <= high && high <= limit && step >= 1, "--", option, ": \"", part,
                 "\" is no rising range within 1..", limit);
    for (std::int64_t v = low; v <= high; v += step) {
      values.push_back(v);
      ENSURE_USAGE(values.size() <= kMost, "--", option, ": more than ", kMost, " values");
    }
  }
  ENSURE_USAGE(!values.empty(), "--", option, ": nothing given");
  return values;
}

bool has_pattern(const std::string& name, const std::vector<std::string>& patterns) {
  bool is_included = false, has_included = false;
  for (std::string_view pattern : patterns) {
    const bool excludes = pattern.starts_with('!');
    if (excludes) pattern.remove_prefix(1);
    const bool matches = pattern.find('*') == std::string_view::npos
                             ? name.find(pattern) != std::string::npos
                             : looks_like(name, pattern);
    if (excludes && matches) return false;
    has_included |= !excludes;
    is_included |= !excludes && matches;
  }
  return is_included || !has_included;
}

Tolerance gemm_tolerance(const Arguments& arguments) {
  Tolerance t;
  const auto number = [&](const char* option) {
    return parse_number(option, arguments.get<std::string>(option));
  };
  if (arguments.has("epsilon")) {
    t.epsilon = number("epsilon");
    ENSURE_USAGE(std::isfinite(*t.epsilon) && *t.epsilon >= 0, "--epsilon: ", *t.epsilon,
                 " is not at least 0");
  }
  if (arguments.has("nonzero-floor")) {
    ENSURE_USAGE(t.epsilon, "--nonzero-floor: goes with --epsilon");
    t.nonzero_floor = number("nonzero-floor");
    ENSURE_USAGE(std::isfinite(t.nonzero_floor) && t.nonzero_floor > 0,
                 "--nonzero-floor: ", t.nonzero_floor, " is not above 0");
  }
  return t;
}

std::vector<GemmTask> gemm_tasks(const Arguments& arguments) {
  const auto sweep = [&](const char* option, const char* otherwise, std::int64_t limit) {
    return parse_sweep(option, arguments.get_or<std::string>(option, otherwise), limit);
  };
  const std::int64_t groups = integer_option(arguments, "groups", 1, 1, 1 << 20);
  const std::string how =
      choice_option(arguments, "accumulation", "blocked", {"blocked", "promoted", "fast"});
  const auto accumulation = how == "fast"       ? gemm_core::Accumulation::fast
                            : how == "promoted" ? gemm_core::Accumulation::promoted
                                                : gemm_core::Accumulation::blocked;
  std::vector<GemmTask> tasks;
  for (const std::string& type : split_list(arguments.get_or<std::string>("dtype", "fp32"))) {
    types_of(type);
    for (const std::string& layout : split_list(arguments.get_or<std::string>("layout", "nt"))) {
      ENSURE_USAGE(layout == "nn" || layout == "nt" || layout == "tn" || layout == "tt",
                   "--layout: \"", layout, "\" is none of nn, nt, tn, tt");
      for (const std::int64_t m : sweep("m", "100000", 1 << 30)) {
        for (const std::int64_t n : sweep("n", "64", 1 << 20)) {
          for (const std::int64_t k : sweep("k", "1728", 1 << 20)) {
            tasks.push_back({m, n, k, groups, layout, type, accumulation});
            constexpr double kMostBytes = 0x1p60;
            ENSURE_USAGE(tasks.back().bytes() < kMostBytes, "--groups: ", groups, " of ", m, " x ",
                         n, " x ", k, " have operands of more than 2^60 bytes");
          }
        }
      }
    }
  }
  ENSURE_USAGE(!tasks.empty(), "--dtype, --layout: nothing given");
  return tasks;
}

GemmInputs::GemmInputs(const GemmTask& task, int workspaces, std::uint64_t seed)
    : task_(task),
      a_type_(types_of(task.type).a),
      b_type_(types_of(task.type).b),
      d_type_(types_of(task.type).d),
      compute_(types_of(task.type).compute) {
  std::mt19937_64 random(seed);
  for (int i = 0; i < workspaces; ++i) {
    sets_.push_back(
        {random_operand(task.groups * task.m * task.k, a_type_, random),
         random_operand(task.groups * task.n * task.k, b_type_, random),
         std::vector<std::uint8_t>(
             static_cast<std::size_t>(base::bytes(d_type_, task.groups * task.m * task.n)) + 8)});
  }
}

std::vector<gemm_core::GemmArguments> GemmInputs::arguments(int which) {
  Set& set = sets_[static_cast<std::size_t>(which)];
  const auto at = [](std::vector<std::uint8_t>& data, DType type, std::int64_t element) {
    return data.data() + element * base::bits(type) / 8;
  };
  std::vector<gemm_core::GemmArguments> groups;
  for (std::int64_t g = 0; g < task_.groups; ++g) {
    gemm_core::GemmArguments x{.m = task_.m, .n = task_.n, .k = task_.k, .compute = compute_};
    x.accumulation = task_.accumulation;
    x.a = {at(set.a, a_type_, g * task_.m * task_.k), a_type_, task_.k, 1};
    if (task_.layout[0] == 't') x.a.row_stride = 1, x.a.column_stride = task_.m;
    x.b = {at(set.b, b_type_, g * task_.n * task_.k), b_type_, task_.n, 1};
    if (task_.layout[1] == 't') x.b.row_stride = 1, x.b.column_stride = task_.k;
    x.d = {at(set.d, d_type_, g * task_.m * task_.n), d_type_, task_.n, 1};
    groups.push_back(x);
  }
  return groups;
}

double GemmInputs::sum_at(std::int64_t group, std::int64_t i, std::int64_t j, double& magnitude) {
  const auto& set = sets_[0];
  const bool turned_a = task_.layout[0] == 't', turned_b = task_.layout[1] == 't';
  const std::int64_t a0 = group * task_.m * task_.k, b0 = group * task_.n * task_.k;
  const auto rounded = [&](double v) {
    return compute_ == DType::f64 || compute_ == DType::i8
               ? v
               : static_cast<double>(gemm_core::rounded_to(static_cast<float>(v), compute_));
  };
  double sum = 0;
  magnitude = 0;
  for (std::int64_t x = 0; x < task_.k; ++x) {
    const double product = rounded(value_at(set.a.data(), a_type_,
                                            a0 + (turned_a ? x * task_.m + i : i * task_.k + x))) *
                           rounded(value_at(set.b.data(), b_type_,
                                            b0 + (turned_b ? j * task_.k + x : x * task_.n + j)));
    sum += product;
    magnitude += std::fabs(product);
  }
  return sum;
}

double GemmInputs::worst_error(const Tolerance& tolerance, std::optional<double> share,
                               std::span<const std::uint8_t> reference) {
  constexpr std::int64_t kMostElements = 4096;
  const std::int64_t size = task_.groups * task_.m * task_.n;
  const std::int64_t step =
      std::max<std::int64_t>(1, size / kMostElements) | 1;  // odd: meets every column in time
  const bool is_one_chain = task_.accumulation == gemm_core::Accumulation::fast;
  const double chain = static_cast<double>(
      (is_one_chain ? task_.k : std::min<std::int64_t>(task_.k, 256)) + task_.k / 256 + 4);
  const double unit = compute_ == DType::f64 ? 0x1p-53 : compute_ == DType::i8 ? 0 : 0x1p-24;
  constexpr double kFloor = 1e-30;  // an empty sum
  double worst = 0;
  for (std::int64_t at = 0; at < size; at += step) {
    const std::int64_t group = at / (task_.m * task_.n), within = at % (task_.m * task_.n);
    double magnitude = 0;
    const double sum = sum_at(group, within / task_.n, within % task_.n, magnitude);
    const double expected = reference.empty() ? sum : value_at(reference.data(), d_type_, at);
    double bound = share.value_or(chain * unit) * magnitude + roundoff(d_type_) * std::fabs(sum) +
                   (d_type_ == DType::f16 ? 0x1p-25 : 0) + kFloor;
    if (!reference.empty()) bound *= 2;
    if (tolerance.epsilon)
      bound = *tolerance.epsilon * std::max(std::fabs(expected), tolerance.nonzero_floor);
    const double off = std::fabs(value_at(sets_[0].d.data(), d_type_, at) - expected);
    const double error = off == 0 ? 0 : off / bound;
    worst = std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(worst, error);
  }
  return worst;
}

void GemmInputs::save(const std::string& stem) const {
  const auto write = [&](const char* suffix, const std::vector<std::uint8_t>& data) {
    const std::string path = stem + suffix;
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(data.data()),
               static_cast<std::streamsize>(data.size() - 8));
    ENSURE(file.good(), path, ": cannot be written");
  };
  write(".a", sets_[0].a);
  write(".b", sets_[0].b);
  write(".d", sets_[0].d);
}

}  // namespace apps
