#include "apps/results.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "apps/messages.hpp"
#include "gemm_core/base/error.hpp"

namespace apps {

void print_text(std::string_view text) {
  wipe_progress();
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  ENSURE(written && std::fflush(stdout) == 0, "standard output: ", std::strerror(errno));
}

void print_json(const Json& document) {
  print_text(document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n');
}

}  // namespace apps
