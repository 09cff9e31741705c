#include "io/source.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "gemm_core/base/error.hpp"

namespace io {
namespace {

constexpr std::size_t kMaxLine = 1 << 20;

std::string system_error_text() { return std::generic_category().message(errno); }

std::string read_head(const Source& source) {
  return source.read_text(0, std::min<std::int64_t>(source.size(), 4096));
}

}  // namespace

Source::Source(const std::filesystem::path& path) : path_(path) {
  // O_NONBLOCK: opening a FIFO for reading would otherwise wait for a writer.
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ENSURE(descriptor_ >= 0, "cannot open: ", system_error_text());
  struct stat status {};
  const bool known = ::fstat(descriptor_, &status) == 0;
  if (!known || !S_ISREG(status.st_mode)) {
    const char* what = !known                     ? "a file of unknown kind"
                       : S_ISDIR(status.st_mode)  ? "a folder"
                       : S_ISFIFO(status.st_mode) ? "a FIFO"
                                                  : "a device";
    ::close(descriptor_);
    base::fail("not a regular file but ", what);
  }
  size_ = status.st_size;
  try {
    head_ = read_head(*this);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

Source::Source(std::span<const char> bytes, std::filesystem::path name)
    : path_(std::move(name)), memory_(bytes), size_(static_cast<std::int64_t>(bytes.size())) {
  head_ = read_head(*this);
}

Source::~Source() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void Source::read(std::int64_t offset, void* out, std::int64_t bytes) const {
  ENSURE(offset >= 0 && bytes >= 0 && offset <= size_ && bytes <= size_ - offset,
         "the file ends at byte ", size_, ", ", bytes, " bytes from byte ", offset, " are needed");
  if (bytes == 0) return;
  if (descriptor_ < 0) {
    std::memcpy(out, memory_.data() + offset, static_cast<std::size_t>(bytes));
    return;
  }
  auto* target = static_cast<char*>(out);
  while (bytes > 0) {
    const ssize_t got = ::pread(descriptor_, target, static_cast<std::size_t>(bytes), offset);
    if (got < 0 && errno == EINTR) continue;
    ENSURE(got >= 0, "cannot read at byte ", offset, ": ", system_error_text());
    ENSURE(got > 0, "the file became shorter while it was read, at byte ", offset);
    target += got;
    offset += got;
    bytes -= got;
  }
}

std::string Source::read_text(std::int64_t offset, std::int64_t bytes) const {
  std::string text(static_cast<std::size_t>(std::max<std::int64_t>(bytes, 0)), '\0');
  read(offset, text.data(), bytes);
  return text;
}

void FileStream::read(void* out, std::int64_t bytes) {
  ENSURE(bytes <= remaining(), "data end at byte ", end_, ", ", bytes, " bytes from byte ",
         position_, " are needed");
  source_.read(position_, out, bytes);
  position_ += bytes;
}

LineReader::LineReader(const Source& source, std::int64_t offset, std::int64_t first_line)
    : source_(source), base_(offset), line_(first_line - 1) {
  if (offset == 0 && source.head().starts_with("\xEF\xBB\xBF")) base_ = 3;
  refill();
  const std::string_view start(buffer_.data(), filled_);
  if (start.find('\n') == std::string_view::npos && start.find('\r') != std::string_view::npos) {
    end_char_ = '\r';
  }
}

bool LineReader::refill() {
  const std::size_t kept = filled_ - position_;
  ENSURE(kept <= kMaxLine, "line ", line_ + 1, " is longer than ", kMaxLine,
         " bytes: not a text of points");
  if (position_ > 0) std::memmove(buffer_.data(), buffer_.data() + position_, kept);
  base_ += static_cast<std::int64_t>(position_);
  position_ = 0;
  filled_ = kept;
  const std::int64_t next = base_ + static_cast<std::int64_t>(kept);
  const std::int64_t bytes = std::min<std::int64_t>(kChunkBytes, source_.size() - next);
  if (bytes <= 0) return false;
  buffer_.resize(std::max(buffer_.size(), kept + static_cast<std::size_t>(bytes)));
  source_.read(next, buffer_.data() + kept, bytes);
  filled_ += static_cast<std::size_t>(bytes);
  return true;
}

std::string_view LineReader::buffered_lines() const {
  const std::string_view rest(buffer_.data() + position_, filled_ - position_);
  const auto last = rest.rfind(end_char_);
  return last == std::string_view::npos ? std::string_view{} : rest.substr(0, last + 1);
}

void LineReader::advance(std::size_t bytes, std::int64_t lines) {
  position_ += bytes;
  line_ += lines;
}

bool LineReader::next(std::string_view& line) {
  std::size_t searched = 0;
  for (;;) {
    const char* begin = buffer_.data() + position_;
    const std::size_t available = filled_ - position_;
    const void* found = available > searched
                            ? std::memchr(begin + searched, end_char_, available - searched)
                            : nullptr;
    if (found != nullptr) {
      const auto length = static_cast<std::size_t>(static_cast<const char*>(found) - begin);
      position_ += length + 1;
      line = {begin, length};
      break;
    }
    searched = available;
    if (refill()) continue;
    if (available == 0) return false;
    line = {buffer_.data() + position_, filled_ - position_};
    position_ = filled_;
    break;
  }
  ++line_;
  if (line.ends_with('\r')) line.remove_suffix(1);
  return true;
}

}  // namespace io
