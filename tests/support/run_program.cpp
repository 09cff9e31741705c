#include "tests/support/run_program.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <system_error>

#include "gemm_core/base/sanitizers.hpp"
#include "tests/support/file_permissions.hpp"

namespace test_support {
namespace {

constexpr int kSanitizedFactor = 10;  // how much slower a program may be under a sanitizer

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

struct Pipe {
  int read_end = -1, write_end = -1;
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) fail("pipe");
    read_end = ends[0];
    write_end = ends[1];
  }
  ~Pipe() {
    close(read_end);
    if (write_end >= 0) close(write_end);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close_write_end() {
    close(write_end);
    write_end = -1;
  }
};

// In the child: nothing here returns.
[[noreturn]] void become(const std::vector<std::string>& words, const ProgramOptions& options,
                         int out, int err) {
  if (options.has_own_group) setpgid(0, 0);
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  for (const auto& [name, text] : options.environment) setenv(name.c_str(), text.c_str(), 1);
  if (!options.folder.empty() && chdir(options.folder.c_str()) != 0) _exit(126);
  if (options.max_file_bytes > 0) {
    const rlimit limit{options.max_file_bytes, options.max_file_bytes};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  if (options.obeys_file_permissions && !let_programs_obey_file_permissions()) _exit(125);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execv(arguments[0], arguments.data());
  _exit(127);
}

// Appends what there is to read; false at the end.
bool drain(int descriptor, std::string& text) {
  std::array<char, 65536> block;
  const ssize_t got = read(descriptor, block.data(), block.size());
  if (got < 0 && errno == EINTR) return true;
  if (got <= 0) return false;
  text.append(block.data(), static_cast<std::size_t>(got));
  return true;
}

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

}  // namespace

ProgramRun run_program(const std::vector<std::string>& words, const ProgramOptions& options) {
  Pipe out, err;
  const pid_t child = fork();
  if (child < 0) fail("fork");
  if (child == 0) become(words, options, out.write_end, err.write_end);
  out.close_write_end();
  err.close_write_end();
  ProgramRun run;
  const auto deadline = std::chrono::steady_clock::now() +
                        options.give_up_after * (base::kIsSanitized ? kSanitizedFactor : 1);
  bool out_open = true, err_open = true;
  while (out_open || err_open) {
    std::array<pollfd, 2> watched{pollfd{out_open ? out.read_end : -1, POLLIN, 0},
                                  pollfd{err_open ? err.read_end : -1, POLLIN, 0}};
    poll(watched.data(), watched.size(), options.while_running ? 2 : 200);
    if (watched[0].revents != 0) out_open = drain(out.read_end, run.out);
    if (watched[1].revents != 0) err_open = drain(err.read_end, run.err);
    if (options.while_running) options.while_running(child);
    if (std::chrono::steady_clock::now() > deadline) kill(child, SIGKILL);
  }
  int status = 0;
  rusage usage{};
  while (wait4(child, &status, 0, &usage) < 0) {
    if (errno != EINTR) fail("wait4");
  }
  if (WIFEXITED(status)) run.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) run.signal = WTERMSIG(status);
  run.cpu_seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  run.peak_bytes = static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
  return run;
}

}  // namespace test_support
