#include "io/hdf5_message.hpp"

namespace io::hdf5 {

Message& Message::put_bytes(const char* bytes, std::size_t size) {
  bytes_.insert(bytes_.end(), bytes, bytes + size);
  return *this;
}

const char* Message::advance(std::uint64_t bytes) {
  ENSURE(bytes <= bytes_.size() - position_, "HDF5: the reading process answers with ",
         bytes_.size() - position_, " bytes where ", bytes, " are due");
  const char* const at = bytes_.data() + position_;
  position_ += bytes;
  return at;
}

}  // namespace io::hdf5
