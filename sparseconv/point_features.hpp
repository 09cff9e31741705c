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

// use(i, element of point begin + i as double), i < count. One type switch a call. The column has
// one element a point.
template <class Use>
void for_each_value(const io::Column& column, std::int64_t begin, std::int64_t count,
                    const Use& use) {
  base::visit_dtype<float, double, std::int64_t, std::int32_t, std::int16_t, std::int8_t,
                    std::uint64_t, std::uint32_t, std::uint16_t, std::uint8_t>(
      column.values.dtype(), "voxelize", [&]<class T>() {
        const T* from = column.values.data<T>() + begin;
        for (std::int64_t i = 0; i < count; ++i) use(i, static_cast<double>(from[i]));
      });
}
inline void read_column(const io::Column& column, std::int64_t begin, std::int64_t count,
                        double* values) {
  for_each_value(column, begin, count, [&](std::int64_t i, double value) { values[i] = value; });
}

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
