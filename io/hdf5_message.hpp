// What the two processes that read an HDF5 file say to each other: values one after the other.
// The one that has the file open may be damaged by it, so nothing that it says is trusted.
#pragma once
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "gemm_core/base/error.hpp"
#include "io/hdf5_container.hpp"

namespace io::hdf5 {

class Message {
 public:
  Message() = default;
  explicit Message(std::vector<char> bytes) : bytes_(std::move(bytes)) {}
  std::string_view bytes() const { return {bytes_.data(), bytes_.size()}; }

  template <class T>
  requires std::is_trivially_copyable_v<T> Message& put(const T& value) {
    return put_bytes(reinterpret_cast<const char*>(&value), sizeof value);
  }
  Message& put(const std::string& text) {
    put(std::uint64_t{text.size()});
    return put_bytes(text.data(), text.size());
  }
  template <class T>
  Message& put(const std::vector<T>& values) {
    put(std::uint64_t{values.size()});
    for (const T& value : values) put(value);
    return *this;
  }
  Message& put(const Hdf5Dataset& dataset) {
    return put(dataset.path)
        .put(dataset.shape)
        .put(dataset.numeric)
        .put(dataset.type)
        .put(dataset.type_name);
  }

  // The next value, in the order in which they were put. Error where the message ends before.
  template <class T>
  T take() {
    T value{};
    take(value);
    return value;
  }

 private:
  Message& put_bytes(const char* bytes, std::size_t size);
  const char* advance(std::uint64_t bytes);  // over the next bytes; Error where there are fewer
  template <class T>
  requires std::is_trivially_copyable_v<T>
  void take(T& value) { std::memcpy(&value, advance(sizeof value), sizeof value); }
  void take(bool& value) { value = take<char>() != 0; }
  void take(std::string& text) {
    const auto size = take<std::uint64_t>();
    text.assign(advance(size), size);
  }
  template <class T>
  void take(std::vector<T>& values) {
    const auto count = take<std::uint64_t>();
    ENSURE(count <= bytes_.size() - position_, "HDF5: the reading process answers with ",
           bytes_.size() - position_, " bytes for ", count, " values");
    values.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i) values.push_back(take<T>());
  }
  void take(Hdf5Dataset& dataset) {
    take(dataset.path);
    take(dataset.shape);
    take(dataset.numeric);
    take(dataset.type);
    take(dataset.type_name);
  }

  std::vector<char> bytes_;
  std::size_t position_ = 0;
};

}  // namespace io::hdf5
