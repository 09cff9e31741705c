// The element types that a point cloud's field may have.
#pragma once
#include "gemm_core/base/numeric.hpp"

namespace io {

//   visit_field_type(column.field.type, [&]<class T>() { ... column.values.data<T>() ... });
template <class F>
void visit_field_type(base::DType type, F&& body) {
  base::visit_dtype<float, double, std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t,
                    std::int8_t, std::int16_t, std::int32_t, std::int64_t>(type, "point field",
                                                                           std::forward<F>(body));
}

}  // namespace io
