#include "io/formats/own_process.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <vector>

#include "gemm_core/base/error.hpp"

namespace io {

HandedFile::HandedFile(const Source& source) : descriptor_(source.descriptor()) {
  if (source.is_file()) return;
  copy_ = ::memfd_create("points", MFD_CLOEXEC);
  descriptor_ = copy_;
  std::vector<char> buffer(static_cast<std::size_t>(std::min(kChunkBytes, source.size())));
  for (std::int64_t at = 0; at < source.size();) {
    const std::int64_t bytes = std::min(kChunkBytes, source.size() - at);
    source.read(at, buffer.data(), bytes);
    ENSURE(::pwrite(copy_, buffer.data(), static_cast<std::size_t>(bytes), at) == bytes,
           "cannot hand the bytes to another process");
    at += bytes;
  }
}

HandedFile::~HandedFile() {
  if (copy_ >= 0) ::close(copy_);
}

std::string path_of(int descriptor) { return base::concat("/proc/self/fd/", descriptor); }

void serve_library(const char* format, const hdf5::Channel& channel,
                   const std::function<void()>& action) {
  std::string reason;
  try {
    action();
    return;
  } catch (const std::bad_alloc&) {
    reason = base::concat(format, ": decoding takes more memory than a file of this size explains");
  } catch (const std::exception& error) {
    reason = error.what();
  }
  channel.send(hdf5::Tag::error, reason);
}

void ask_library(const char* format, const std::function<void()>& action) {
  try {
    action();
  } catch (const Hdf5Damage& damage) {
    const std::string_view text = damage.what();
    base::fail(format, text.substr(text.find(':')));
  }
}

}  // namespace io
