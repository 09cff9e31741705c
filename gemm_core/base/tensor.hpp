// Device, TensorView (no ownership, 64-bit strides in elements) and Tensor (owning, reference
// counted storage).
//   auto x = base::Tensor::zeros({rows, channels}, base::DType::f32);
//   float* p = x.data<float>();
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "gemm_core/base/block_cache.hpp"
#include "gemm_core/base/dtype.hpp"
#include "gemm_core/base/numeric.hpp"

namespace base {

struct Device {
  enum class Kind : std::uint8_t { cpu, cuda } kind = Kind::cpu;
  int index = 0;
  bool is_cpu() const { return kind == Kind::cpu; }
  bool is_cuda() const { return kind == Kind::cuda; }
  friend bool operator==(const Device&, const Device&) = default;
};
Device parse_device(std::string_view text);  // "cpu", "cuda", "cuda:1"; anything else is an Error
std::string to_string(Device device);

// Up to kMaxRank extents or strides.
class Dims {
 public:
  static constexpr int kMaxRank = 6;
  Dims() = default;
  Dims(std::initializer_list<std::int64_t> values);
  int rank() const { return rank_; }
  std::int64_t operator[](int i) const { return value_[static_cast<std::size_t>(i)]; }
  std::int64_t& operator[](int i) { return value_[static_cast<std::size_t>(i)]; }
  void push_back(std::int64_t v);
  const std::int64_t* begin() const { return value_.data(); }
  const std::int64_t* end() const { return value_.data() + rank_; }
  friend bool operator==(const Dims& a, const Dims& b);

 private:
  std::array<std::int64_t, kMaxRank> value_{};
  int rank_ = 0;
};
std::string to_string(const Dims& dims);  // "[3, 4]"
Dims row_major_strides(const Dims& shape);
std::int64_t checked_product(const Dims& shape);  // Error when negative or past 2^62

template <class Pointer>  // void* or const void*
struct BasicView {
  Pointer data = nullptr;
  DType dtype = DType::f32;
  Device device;
  Dims shape, stride;  // stride in elements
  template <class T>
  auto as() const {
    if constexpr (std::is_const_v<std::remove_pointer_t<Pointer>>)
      return static_cast<const T*>(data);
    else
      return static_cast<T*>(data);
  }
};
using TensorView = BasicView<void*>;
using ConstTensorView = BasicView<const void*>;

class Tensor {
 public:
  Tensor() = default;
  // Contents undefined; 64-byte aligned. Zero elements allocate nothing. Error names the shape when
  // it cannot be had.
  static Tensor empty(const Dims& shape, DType dtype, Device device = {});
  static Tensor zeros(const Dims& shape, DType dtype, Device device = {});
  // On the CPU, in memory that goes back to `cache` with the last tensor that shares it; null: as
  // above.
  static Tensor empty(const Dims& shape, DType dtype, const BlockCachePtr& cache);

  const Dims& shape() const { return shape_; }
  std::int64_t size(int axis) const { return shape_[axis]; }
  std::int64_t numel() const { return numel_; }
  std::int64_t nbytes() const { return bytes(dtype_, numel_); }
  DType dtype() const { return dtype_; }
  Device device() const { return device_; }
  bool defined() const { return shape_.rank() > 0; }

  void* data() { return storage_.get(); }
  const void* data() const { return storage_.get(); }
  template <class T>
  T* data() {
    check_type(dtype_v<T>);
    return static_cast<T*>(storage_.get());
  }
  template <class T>
  const T* data() const {
    check_type(dtype_v<T>);
    return static_cast<const T*>(storage_.get());
  }

  TensorView view();
  ConstTensorView view() const;
  // Same storage, another shape of as many elements.
  Tensor reshaped(const Dims& shape) const;
  Tensor to(DType dtype) const;    // converts on the CPU
  Tensor to(Device device) const;  // copies between devices, synchronously
  Tensor clone() const;

 private:
  void check_type(DType wanted) const;
  static Tensor described(const Dims& shape, DType dtype, Device device);
  [[noreturn]] void fail_out_of_memory() const;
  std::shared_ptr<void> storage_;
  Dims shape_;
  std::int64_t numel_ = 0;
  DType dtype_ = DType::f32;
  Device device_;
};

// Where a kind of device gets its memory. The CUDA library registers itself; without it every use
// of Kind::cuda is an Error that says the build has no CUDA.
struct DeviceMemory {
  void* (*allocate)(int index, std::size_t bytes);
  void (*release)(int index, void* pointer);
  void (*copy)(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes);
  void (*fill_zero)(int index, void* pointer, std::size_t bytes);
};
void register_device_memory(Device::Kind kind, const DeviceMemory& memory);

}  // namespace base
