// Bytes to read: a file, or memory. Only regular files are opened; every read is checked against
// the size.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace io {

// What readers take at a time: small enough to stay in the second level cache until it is unpacked.
inline constexpr std::int64_t kChunkBytes = 1 << 18;

class Source {
 public:
  // Error: absent, a folder, a FIFO or device, unreadable.
  explicit Source(const std::filesystem::path& path);
  // Refers to `bytes`, which must outlive it; `name` stands for the file name.
  Source(std::span<const char> bytes, std::filesystem::path name);
  ~Source();
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  std::int64_t size() const { return size_; }
  const std::filesystem::path& path() const { return path_; }
  bool is_file() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }  // -1: memory
  // Exactly `bytes` bytes from `offset`; Error when the file ends before.
  void read(std::int64_t offset, void* out, std::int64_t bytes) const;
  std::string read_text(std::int64_t offset, std::int64_t bytes) const;
  // The first bytes, at most 4096.
  std::string_view head() const { return head_; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::span<const char> memory_;
  std::int64_t size_ = 0;
  std::string head_;
};

// Bytes that come one after the other: part of a file, or what a decompressor makes of it.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  virtual std::int64_t remaining() const = 0;  // claimed by the container for compressed data
  virtual void read(void* out, std::int64_t bytes) = 0;  // exactly as many; Error otherwise
};

class FileStream final : public ByteStream {
 public:
  FileStream(const Source& source, std::int64_t begin, std::int64_t bytes)
      : source_(source), position_(begin), end_(begin + bytes) {}
  std::int64_t remaining() const override { return end_ - position_; }
  std::int64_t position() const { return position_; }
  void read(void* out, std::int64_t bytes) override;

 private:
  const Source& source_;
  std::int64_t position_, end_;
};

// Lines of text without their ends: LF, CRLF, or CR where the file has no LF. A byte order mark is
// skipped.
class LineReader {
 public:
  explicit LineReader(const Source& source, std::int64_t offset = 0, std::int64_t first_line = 1);
  // False at the end. The view is valid until the next call. Error when a line is longer than 1
  // MiB.
  bool next(std::string_view& line);
  // Whole lines with their ends that are in memory already; "" where next() has to fetch more. For
  // callers that take many lines at once and say so with advance().
  std::string_view buffered_lines() const;
  void advance(std::size_t bytes, std::int64_t lines);
  std::int64_t line() const { return line_; }  // number of the line given last
  std::int64_t next_offset() const { return base_ + static_cast<std::int64_t>(position_); }
  char line_end() const { return end_char_; }

 private:
  bool refill();

  const Source& source_;
  std::vector<char> buffer_;
  std::int64_t base_ = 0;  // file offset of buffer_[0]
  std::size_t position_ = 0, filled_ = 0;
  std::int64_t line_ = 0;
  char end_char_ = '\n';
};

}  // namespace io
