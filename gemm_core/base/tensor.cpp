#include "gemm_core/base/tensor.hpp"

#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>

namespace base {
namespace {

constexpr std::size_t kAlignment = 64;

void* allocate_cpu(int, std::size_t bytes) {
  return ::operator new (bytes, std::align_val_t{kAlignment});
}
void release_cpu(int, void* pointer) { ::operator delete (pointer, std::align_val_t{kAlignment}); }

const DeviceMemory kCpuMemory{
    allocate_cpu, release_cpu,
    [](void* to, Device, const void* from, Device, std::size_t n) { std::memcpy(to, from, n); },
    [](int, void* p, std::size_t n) { std::memset(p, 0, n); }};
DeviceMemory cuda_memory{};

const DeviceMemory& memory_of(Device device) {
  if (device.is_cpu()) return kCpuMemory;
  ENSURE(cuda_memory.allocate != nullptr, "device ", to_string(device),
         ": sparseconv was built without CUDA");
  return cuda_memory;
}

template <class From, class To>
void convert(const From* from, To* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    if constexpr (std::is_same_v<To, half_t> || std::is_same_v<To, bf16_t> ||
                  std::is_same_v<To, tf32_t>) {
      to[i] = To(static_cast<float>(from[i]));
    } else {
      to[i] = static_cast<To>(from[i]);
    }
  }
}

}  // namespace

void register_device_memory(Device::Kind kind, const DeviceMemory& memory) {
  ENSURE(kind == Device::Kind::cuda, "register_device_memory: only CUDA memory can be registered");
  cuda_memory = memory;
}

Device parse_device(std::string_view text) {
  if (text == "cpu") return {};
  if (text == "cuda") return {Device::Kind::cuda, 0};
  if (text.substr(0, 5) == "cuda:" && text.size() > 5 && text.size() < 9) {
    int index = 0;
    bool digits = true;
    for (const char c : text.substr(5)) {
      digits = digits && c >= '0' && c <= '9';
      index = index * 10 + (c - '0');
    }
    if (digits) return {Device::Kind::cuda, index};
  }
  fail("device '", text, "' is none of cpu, cuda, cuda:N");
}

std::string to_string(Device device) {
  return device.is_cpu() ? "cpu" : concat("cuda:", device.index);
}

DType parse_dtype(std::string_view text) {
  struct Alias {
    std::string_view name;
    DType type;
  };
  static constexpr Alias kAliases[] = {
      {"fp64", DType::f64},  {"f64", DType::f64},   {"fp32", DType::f32}, {"f32", DType::f32},
      {"fp16", DType::f16},  {"f16", DType::f16},   {"half", DType::f16}, {"bf16", DType::bf16},
      {"tf32", DType::tf32}, {"e4m3", DType::e4m3}, {"fp8", DType::e4m3}, {"e5m2", DType::e5m2}};
  for (const auto& [alias, type] : kAliases) {
    if (text == alias) return type;
  }
  for (int i = 0; i <= static_cast<int>(DType::c128); ++i) {
    if (text == name(static_cast<DType>(i))) return static_cast<DType>(i);
  }
  fail("dtype '", text, "' is not known (fp32, tf32, fp16, bf16, ...)");
}

Dims::Dims(std::initializer_list<std::int64_t> values) {
  for (const auto v : values) push_back(v);
}

void Dims::push_back(std::int64_t v) {
  ENSURE(rank_ < kMaxRank, "a tensor has at most ", int{kMaxRank}, " axes");
  value_[static_cast<std::size_t>(rank_++)] = v;
}

bool operator==(const Dims& a, const Dims& b) {
  return a.rank_ == b.rank_ && std::equal(a.begin(), a.end(), b.begin());
}

std::string to_string(const Dims& dims) {
  std::string text = "[";
  for (int i = 0; i < dims.rank(); ++i) text += (i ? ", " : "") + std::to_string(dims[i]);
  return text + "]";
}

Dims row_major_strides(const Dims& shape) {
  Dims stride = shape;
  std::int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    stride[i] = step;
    step *= shape[i];
  }
  return stride;
}

std::int64_t checked_product(const Dims& shape) {
  std::int64_t product = 1;
  for (const auto extent : shape) {
    ENSURE(extent >= 0, "tensor shape ", to_string(shape), " has a negative extent");
    ENSURE(extent == 0 || product <= (std::int64_t{1} << 62) / extent, "tensor shape ",
           to_string(shape), " has more than 2^62 elements");
    product *= extent;
  }
  return product;
}

Tensor Tensor::described(const Dims& shape, DType dtype, Device device) {
  Tensor t;
  t.numel_ = checked_product(shape);
  t.shape_ = shape;
  t.dtype_ = dtype;
  t.device_ = device;
  ENSURE(t.numel_ <= std::numeric_limits<std::int64_t>::max() / 16, "tensor shape ",
         to_string(shape), " is too large");
  return t;
}

void Tensor::fail_out_of_memory() const {
  fail("out of memory: a tensor ", to_string(shape_), " of ", name(dtype_), " needs ", nbytes(),
       " bytes on ", to_string(device_));
}

Tensor Tensor::empty(const Dims& shape, DType dtype, const BlockCachePtr& cache) {
  if (!cache) return empty(shape, dtype);
  Tensor t = described(shape, dtype, {});
  if (t.numel_ == 0) return t;
  void* pointer = nullptr;
  try {
    pointer = cache->allocate(static_cast<std::size_t>(t.nbytes()));
  } catch (const std::bad_alloc&) {
    t.fail_out_of_memory();
  }
  t.storage_ = std::shared_ptr<void>(pointer, [cache](void* p) { cache->release(p); });
  return t;
}

Tensor Tensor::empty(const Dims& shape, DType dtype, Device device) {
  const DeviceMemory& memory = memory_of(device);
  Tensor t = described(shape, dtype, device);
  if (t.numel_ == 0) return t;
  void* pointer = nullptr;
  try {
    pointer = memory.allocate(device.index, static_cast<std::size_t>(t.nbytes()));
  } catch (const std::bad_alloc&) {
    t.fail_out_of_memory();
  }
  t.storage_ = std::shared_ptr<void>(
      pointer, [&memory, index = device.index](void* p) { memory.release(index, p); });
  return t;
}

Tensor Tensor::zeros(const Dims& shape, DType dtype, Device device) {
  Tensor t = empty(shape, dtype, device);
  if (t.numel_ > 0)
    memory_of(device).fill_zero(device.index, t.data(), static_cast<std::size_t>(t.nbytes()));
  return t;
}

TensorView Tensor::view() { return {data(), dtype_, device_, shape_, row_major_strides(shape_)}; }
ConstTensorView Tensor::view() const {
  return {data(), dtype_, device_, shape_, row_major_strides(shape_)};
}

Tensor Tensor::reshaped(const Dims& shape) const {
  ENSURE(checked_product(shape) == numel_, "reshape: ", to_string(shape_),
         " has not as many elements as ", to_string(shape));
  Tensor t = *this;
  t.shape_ = shape;
  return t;
}

Tensor Tensor::to(DType dtype) const {
  if (dtype == dtype_) return *this;
  ENSURE(device_.is_cpu(), "Tensor::to(dtype): convert on the CPU, tensor is on ",
         to_string(device_));
  Tensor t = empty(shape_, dtype);
  visit_dtype<double, float, half_t, bf16_t, tf32_t, std::int32_t, std::int64_t>(
      dtype_, "Tensor::to", [&]<class From>() {
        visit_dtype<double, float, half_t, bf16_t, tf32_t, std::int32_t, std::int64_t>(
            dtype, "Tensor::to", [&]<class To>() { convert(data<From>(), t.data<To>(), numel_); });
      });
  return t;
}

Tensor Tensor::to(Device device) const {
  if (device == device_) return *this;
  Tensor t = empty(shape_, dtype_, device);
  const DeviceMemory& memory = memory_of(device.is_cpu() ? device_ : device);
  if (numel_ > 0)
    memory.copy(t.data(), device, data(), device_, static_cast<std::size_t>(nbytes()));
  return t;
}

Tensor Tensor::clone() const {
  Tensor t = empty(shape_, dtype_, device_);
  if (numel_ > 0)
    memory_of(device_).copy(t.data(), device_, data(), device_, static_cast<std::size_t>(nbytes()));
  return t;
}

void Tensor::check_type(DType wanted) const {
  ENSURE(wanted == dtype_, "tensor holds ", name(dtype_), ", asked for as ", name(wanted));
}

}  // namespace base
