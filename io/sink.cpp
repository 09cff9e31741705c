#include "io/sink.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <system_error>

#include "gemm_core/base/error.hpp"

namespace io {
namespace {

constexpr std::size_t kBufferBytes = 1 << 20;

std::string system_error_text() { return std::generic_category().message(errno); }

}  // namespace

std::filesystem::path temporary_beside(const std::filesystem::path& path) {
  static std::atomic<int> counter{0};
  auto name = path;
  name.replace_filename(
      base::concat('.', path.filename().string(), '.', ::getpid(), '-', counter++, ".tmp"));
  return name;
}

Sink::Sink(const std::filesystem::path& path) : target_(path), temporary_(temporary_beside(path)) {
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  ENSURE(!std::filesystem::exists(status) || std::filesystem::is_regular_file(status),
         "cannot write: the name is taken by something that is no regular file");
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  ENSURE(descriptor_ >= 0, "cannot write: ", system_error_text());
  buffer_.reserve(kBufferBytes);
}

Sink::~Sink() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
    ::unlink(temporary_.c_str());
  }
}

void Sink::put(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(descriptor_, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    ENSURE(done >= 0, "cannot write at byte ", written_, ": ", system_error_text());
    bytes.remove_prefix(static_cast<std::size_t>(done));
    written_ += done;
  }
}

void Sink::flush() {
  const std::string pending = std::move(buffer_);
  buffer_.clear();
  put(pending);
}

void Sink::write(std::string_view bytes) {
  if (buffer_.size() + bytes.size() > kBufferBytes) {
    put(buffer_);
    buffer_.clear();
  }
  if (bytes.size() >= kBufferBytes)
    put(bytes);
  else
    buffer_ += bytes;
}

void Sink::commit() {
  flush();
  // A full disk or quota may show only here.
  const int closed = ::close(descriptor_);
  descriptor_ = -1;
  if (closed != 0 || ::rename(temporary_.c_str(), target_.c_str()) != 0) {
    const std::string reason = system_error_text();
    ::unlink(temporary_.c_str());
    base::fail("cannot write: ", reason);
  }
}

}  // namespace io
