// Option texts to values. Numbers never depend on the locale; a UsageError names the option, the
// text and what was expected.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/command.hpp"

namespace apps {

double parse_number(std::string_view option, std::string_view text);
std::int64_t parse_integer(std::string_view option, std::string_view text);
std::vector<double> parse_numbers(std::string_view option, std::string_view text);  // "1,2.5,-3"
std::vector<std::int64_t> parse_integers(std::string_view option, std::string_view text);
std::vector<std::string> split_list(std::string_view text, char separator = ',');  // "" gives none
std::array<double, 3> parse_triple(std::string_view option,
                                   std::string_view text);  // exactly three
std::array<double, 3> parse_voxel_size(std::string_view option,
                                       std::string_view text);  // "v" or "vx,vy,vz", > 0
std::array<double, 6> parse_range(std::string_view option,
                                  std::string_view text);  // x0,y0,z0,x1,y1,z1

// An integer option within [low, high], or `otherwise` where it is not given.
std::int64_t integer_option(const Arguments& arguments, const std::string& option,
                            std::int64_t otherwise, std::int64_t low, std::int64_t high);
// UsageError listing the choices.
std::string choice_option(const Arguments& arguments, const std::string& option,
                          const std::string& otherwise, const std::vector<std::string>& choices);

}  // namespace apps
