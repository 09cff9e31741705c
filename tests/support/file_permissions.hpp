// Root may read and write every file, by two capabilities. Tests of what permissions forbid lay
// them down for a while, so that they hold whoever runs them.
#pragma once
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

namespace test_support {

constexpr std::uint32_t kAboveFilePermissions =
    (1u << CAP_DAC_OVERRIDE) | (1u << CAP_DAC_READ_SEARCH);

// While one lives, this thread and those that it starts obey the permissions of files.
class ObeyFilePermissions {
 public:
  ObeyFilePermissions() {
    call(SYS_capget);
    before_ = sets_[0].effective;
    sets_[0].effective &= ~kAboveFilePermissions;
    call(SYS_capset);
  }
  ~ObeyFilePermissions() {
    sets_[0].effective = before_;
    syscall(SYS_capset, &header_, sets_);
  }
  ObeyFilePermissions(const ObeyFilePermissions&) = delete;
  ObeyFilePermissions& operator=(const ObeyFilePermissions&) = delete;

 private:
  void call(long number) {
    if (syscall(number, &header_, sets_) != 0)
      throw std::system_error(errno, std::generic_category(), "capabilities");
  }
  __user_cap_header_struct header_{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets_[2]{};
  std::uint32_t before_ = 0;
};

// Takes the two capabilities from every program that this process becomes by exec; false where
// that is not allowed. Nothing to do for a process that is not root's: exec gives it none.
inline bool let_programs_obey_file_permissions() {
  return geteuid() != 0 || (prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0) == 0 &&
                            prctl(PR_CAPBSET_DROP, CAP_DAC_READ_SEARCH, 0, 0, 0) == 0);
}

}  // namespace test_support
