// What the two HDF5 files share: closing handles, the one lock, and errors. Included by
// io/hdf5_*.cpp only.
#pragma once
#include <hdf5.h>

#include <algorithm>

#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "gemm_core/base/dtype.hpp"
#include "gemm_core/base/error.hpp"

namespace io::hdf5 {

// The distributions' HDF5 is not thread safe, so every call happens under one lock, destructors
// included. HDF5 prints its error stack by itself unless told otherwise, per thread in some builds.
class Lock {
 public:
  Lock() : lock_(mutex()) {
    // A file that could not be flushed (disk full) stays open inside HDF5, which would crash on it
    // when the process exits. Files are closed one by one, so nothing is left for that last call to
    // do.
    [[maybe_unused]] static const herr_t is_left_alone_at_exit = H5dont_atexit();
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  // What went wrong last is kept for each thread and would be lost with it.
  ~Lock() { H5Eclear2(H5E_DEFAULT); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  // In the child of a fork, whose only thread is another than the one that holds the lock.
  static void forget_in_child() { new (&mutex()) std::recursive_mutex; }

 private:
  static std::recursive_mutex& mutex() {
    static std::recursive_mutex instance;
    return instance;
  }
  std::lock_guard<std::recursive_mutex> lock_;
};

// "file write failed: time = ..., errno = 28, error message = 'No space left on device', buf =
// 0x..., ..." and "unable to open file: name = '...tmp', errno = 13, error message = ..." without
// the times, addresses and temporary names that differ from run to run.
inline std::string without_addresses(const std::string& text) {
  constexpr std::string_view kReason = "error message = '";
  const auto begin = std::min(text.find(": time = "), text.find(": name = '"));
  const auto reason = text.find(kReason);
  if (begin == std::string::npos || reason == std::string::npos || reason < begin) return text;
  const auto from = reason + kReason.size(), end = text.find('\'', from);
  return text.substr(0, begin) + ": " +
         text.substr(from, end == std::string::npos ? end : end - from);
}

// Innermost description of HDF5's error stack, "" when there is none.
inline std::string last_error() {
  std::string text;
  H5Ewalk2(
      H5E_DEFAULT, H5E_WALK_UPWARD,
      [](unsigned n, const H5E_error2_t* error, void* out) -> herr_t {
        if (n == 0 && error->desc != nullptr) *static_cast<std::string*>(out) = error->desc;
        return 0;
      },
      &text);
  std::replace(text.begin(), text.end(), '\n', ' ');  // an error is one line
  return without_addresses(text);
}

template <class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  const std::string reason = last_error();
  base::fail("HDF5: ", parts..., reason.empty() ? "" : ": ", reason);
}

class Handle {
 public:
  using Close = herr_t (*)(hid_t);
  Handle() = default;
  Handle(hid_t id, Close close) : id_(id), close_(close) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~Handle() { reset(); }

  operator hid_t() const { return id_; }
  bool valid() const { return id_ >= 0; }
  // False when HDF5 could not close it, e.g. when the disk is full.
  bool reset() {
    if (id_ < 0) return true;
    const Lock lock;
    return close_(std::exchange(id_, -1)) >= 0;
  }

 private:
  hid_t id_ = -1;
  Close close_ = nullptr;
};

// HDF5 has no built-in 16-bit float; this is IEEE binary16, little endian as on every machine
// supported.
inline Handle make_float16() {
  Handle type(H5Tcopy(H5T_IEEE_F32LE), H5Tclose);
  if (H5Tset_fields(type, 15, 10, 5, 0, 10) < 0 || H5Tset_size(type, 2) < 0 ||
      H5Tset_ebias(type, 15) < 0) {
    fail("cannot make the 16-bit float type");
  }
  return type;
}

// The memory type of an element type. Error for types that HDF5 files do not hold here.
inline Handle memory_type(base::DType type) {
  const auto copy = [](hid_t native) { return Handle(H5Tcopy(native), H5Tclose); };
  switch (type) {
    case base::DType::f64:
      return copy(H5T_NATIVE_DOUBLE);
    case base::DType::f32:
      return copy(H5T_NATIVE_FLOAT);
    case base::DType::f16:
      return make_float16();
    case base::DType::i64:
      return copy(H5T_NATIVE_INT64);
    case base::DType::i32:
      return copy(H5T_NATIVE_INT32);
    case base::DType::i16:
      return copy(H5T_NATIVE_INT16);
    case base::DType::i8:
      return copy(H5T_NATIVE_INT8);
    case base::DType::u64:
      return copy(H5T_NATIVE_UINT64);
    case base::DType::u32:
      return copy(H5T_NATIVE_UINT32);
    case base::DType::u16:
      return copy(H5T_NATIVE_UINT16);
    case base::DType::u8:
      return copy(H5T_NATIVE_UINT8);
    default:
      base::fail("HDF5: element type ", base::name(type), " is not stored in HDF5 files");
  }
}

}  // namespace io::hdf5
