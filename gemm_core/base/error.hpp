// Errors at public boundaries. `ENSURE(condition, parts...)` throws base::Error whose message is
// the parts joined: operation, expected, got. Inside a library use types and assert instead.
#pragma once
#include <sstream>
#include <stdexcept>
#include <string>

namespace base {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  (out << ... << parts);
  return out.str();
}

template <class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  throw Error(concat(parts...));
}

}  // namespace base

#define ENSURE(condition, ...)     \
  do {                             \
    if (!(condition)) [[unlikely]] \
      ::base::fail(__VA_ARGS__);   \
  } while (0)
