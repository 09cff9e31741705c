// What voxelize() reads from a cloud: columns converted to double in blocks, and features by name.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "io/cloud.hpp"
#include "sparseconv/coord.hpp"

namespace sparseconv::detail {

// values[i * stride] = element of point begin + i, i < count. One type switch a call. The column
// has one element a point.
void read_column(const io::Column& column, std::int64_t begin, std::int64_t count, double* values,
                 std::int64_t stride = 1);

// x, y, z of a cloud; Error names a missing one. A cloud of zero points needs no columns.
std::array<const io::Column*, 3> position_columns(const io::Cloud& cloud);

// x y z and every other scalar field, in the order of the cloud.
std::vector<std::string> default_features(const io::Cloud& cloud);

// One feature: where its values come from.
struct FeatureSource {
  enum class Kind : std::uint8_t { position, offset, field, constant } kind = Kind::field;
  int axis = 0;                        // position, offset
  const io::Column* column = nullptr;  // all but constant
  double value = 0;                    // constant
  double scale = 1;                    // field: factor, e.g. 1/255 for r of uint8
};

// Error lists the fields there are when the cloud lacks one and `defaults` does not give it.
std::vector<FeatureSource> find_features(const io::Cloud& cloud,
                                         const std::vector<std::string>& names,
                                         const std::map<std::string, double>& defaults);

}  // namespace sparseconv::detail
