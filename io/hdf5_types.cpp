#include "io/hdf5_types.hpp"

namespace io::hdf5 {
namespace {

std::optional<base::DType> float_type(hid_t type) {
  const std::size_t size = H5Tget_size(type);
  std::size_t sign = 0, exponent = 0, exponent_bits = 0, mantissa = 0, mantissa_bits = 0;
  if (H5Tget_fields(type, &sign, &exponent, &exponent_bits, &mantissa, &mantissa_bits) < 0)
    return {};
  if (size == 2 && exponent_bits == 5 && mantissa_bits == 10) return base::DType::f16;
  if (size == 4 && exponent_bits == 8 && mantissa_bits == 23) return base::DType::f32;
  if (size == 8 && exponent_bits == 11 && mantissa_bits == 52) return base::DType::f64;
  return {};
}

std::optional<base::DType> integer_type(hid_t type) {
  using enum base::DType;
  const bool is_signed = H5Tget_sign(type) == H5T_SGN_2;
  switch (H5Tget_size(type)) {
    case 1:
      return is_signed ? i8 : u8;
    case 2:
      return is_signed ? i16 : u16;
    case 4:
      return is_signed ? i32 : u32;
    case 8:
      return is_signed ? i64 : u64;
    default:
      return {};
  }
}

}  // namespace

std::optional<base::DType> element_type(hid_t type) {
  switch (H5Tget_class(type)) {
    case H5T_FLOAT:
      return float_type(type);
    case H5T_INTEGER:
      return integer_type(type);
    case H5T_ENUM: {  // how h5py stores booleans
      const Handle super(H5Tget_super(type), H5Tclose);
      return super.valid() ? integer_type(super) : std::nullopt;
    }
    default:
      return {};
  }
}

std::string describe_type(hid_t type) {
  if (const auto known = element_type(type)) return std::string(base::name(*known));
  switch (H5Tget_class(type)) {
    case H5T_STRING:
      return "text";
    case H5T_COMPOUND:
      return "compound";
    case H5T_VLEN:
      return "variable length";
    case H5T_ARRAY:
      return "array";
    case H5T_REFERENCE:
      return "reference";
    default:
      return base::concat("a type of ", H5Tget_size(type), " bytes");
  }
}

std::vector<std::int64_t> extents(hid_t space) {
  const int rank = H5Sget_simple_extent_ndims(space);
  if (rank < 0) fail("cannot read the shape of a dataset");
  std::vector<hsize_t> sizes(static_cast<std::size_t>(rank));
  if (rank > 0 && H5Sget_simple_extent_dims(space, sizes.data(), nullptr) < 0) {
    fail("cannot read the shape of a dataset");
  }
  std::vector<std::int64_t> shape;
  for (const hsize_t size : sizes) {
    ENSURE(size <= hsize_t{1} << 62, "HDF5: a dataset claims an extent of ", size);
    shape.push_back(static_cast<std::int64_t>(size));
  }
  return shape;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + ")";
}

std::uint64_t element_count(const std::string& path, const std::vector<std::int64_t>& shape) {
  std::uint64_t count = 1;
  for (const std::int64_t extent : shape) {
    const auto size = static_cast<std::uint64_t>(extent);
    ENSURE(size == 0 || count <= (std::uint64_t{1} << 58) / size, "HDF5: ", path, ": shape ",
           shape_text(shape), " has more than 2^58 elements");
    count *= size;
  }
  return count;
}

}  // namespace io::hdf5
