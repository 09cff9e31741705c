// A file that appears whole or not at all: bytes go to a temporary name beside it, commit()
// renames.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace io {

// A name beside `path` that no other process or thread uses.
std::filesystem::path temporary_beside(const std::filesystem::path& path);

class Sink {
 public:
  explicit Sink(const std::filesystem::path&
                    path);  // Error: folder missing, not writable, target no regular file
  ~Sink();                  // without commit() nothing is left behind
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  void write(std::string_view bytes);  // Error with the reason, e.g. "No space left on device"
  void write(const void* bytes, std::int64_t count) {
    write({static_cast<const char*>(bytes), static_cast<std::size_t>(count)});
  }
  std::int64_t written() const { return written_; }
  const std::filesystem::path& path() const { return target_; }
  void commit();

 private:
  void flush();
  void put(std::string_view bytes);

  std::filesystem::path target_, temporary_;
  int descriptor_ = -1;
  std::string buffer_;
  std::int64_t written_ = 0;
};

}  // namespace io
