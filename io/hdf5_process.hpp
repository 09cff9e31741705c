// HDF5's library (1.10, as distributions ship it) crashes, loops or takes all memory on some
// damaged files. A file is therefore opened and read by a process of its own, which says what it
// found; the process that asks never hands the file to the library. Where the reading process dies,
// the file is an Error and all others go on. LAZ and E57 files are decoded in such a process, too.
#pragma once
#include <string>
#include <utility>

#include "io/hdf5_message.hpp"

namespace io::hdf5 {

// What a reading process may take beyond what this one has, before data are read.
struct Allowance {
  std::uint64_t memory = 0;  // bytes
  unsigned seconds = 1;      // of processor time
};
// Every 16 MiB of data, or of the file, are worth another second.
inline constexpr std::uint64_t kBytesASecond = 16 << 20;

enum class Tag : char { answer, error, block };

// One end of the connection. Calls give false where the other end is gone.
class Channel {
 public:
  Channel() = default;
  explicit Channel(int descriptor) : descriptor_(descriptor) {}
  Channel(Channel&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Channel& operator=(Channel&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Channel();

  bool send(Tag tag, std::string_view bytes) const;
  bool receive(Tag& tag, std::uint64_t& bytes) const;  // what comes next, and how long it is
  bool receive(void* out, std::uint64_t bytes) const;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

// In the reading process: memory and time for `bytes` of data of which `at_once` are held.
void allow_for(std::uint64_t bytes, std::uint64_t at_once);

// What a reading process does with its file. A plain function: the process is no copy of this one
// as it is now.
using Serve = void (*)(int file, const Channel& channel);

class Process {
 public:
  // `serve` runs in a new process, which ends when it returns. `file`: an open file, of which it
  // gets a descriptor of its own.
  Process(Serve serve, int file, const Allowance& allowance);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void ask(const Message& question);
  // The answer to a question. Error as the reading process gives it; Hdf5Damage where that died.
  Message answer();
  // Length of the next block of the data that were asked for, whose bytes receive() then gives; 0
  // where they end.
  std::uint64_t next_block();
  void receive(void* out, std::uint64_t bytes);

 private:
  [[noreturn]] void fail_as_dead();
  std::vector<char> receive_answer(std::uint64_t bytes);
  std::string describe_end(int status) const;

  Allowance allowance_;
  Channel channel_;
  int status_ = -1;  // tells how the reading process ended
  bool is_amid_data_ = false;
};

}  // namespace io::hdf5
