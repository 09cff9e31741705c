#include "io/hdf5_process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>

#include "io/hdf5_handle.hpp"

namespace io::hdf5 {
namespace {

// What an answer may be long: lists of names and texts, never data. The reading process cannot
// hold more.
constexpr std::uint64_t kMaxAnswer = std::uint64_t{1} << 30;
constexpr std::uint64_t kCopies = 4;  // of a block: packed, unpacked, converted, and as it is sent

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    defined(FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION)
constexpr bool kIsSanitized = true;  // shadow memory counts as data; findings go to stderr
#else
constexpr bool kIsSanitized = false;
#endif

// Bytes of this process that RLIMIT_DATA counts, 0 where /proc does not tell.
std::uint64_t data_bytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  unsigned long long pages = 0;
  const int got = std::fscanf(file, "%*u %*u %*u %*u %*u %llu", &pages);
  std::fclose(file);
  return got == 1 ? pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) : 0;
}

void limit(int resource, std::uint64_t value) {
  rlimit now{};
  ::getrlimit(resource, &now);
  now.rlim_cur = std::min<rlim_t>(value, now.rlim_max);
  ::setrlimit(resource, &now);
}

void raise_limit(int resource, std::uint64_t more) {
  rlimit now{};
  if (::getrlimit(resource, &now) == 0 && now.rlim_cur != RLIM_INFINITY)
    limit(resource, now.rlim_cur + more);
}

void close_all_but(int a, int b) {
  const auto low = static_cast<unsigned>(std::min(a, b)),
             high = static_cast<unsigned>(std::max(a, b));
  if (low > 3) ::close_range(3, low - 1, 0);
  if (high > low + 1) ::close_range(std::max(low + 1, 3u), high - 1, 0);
  ::close_range(std::max(high + 1, 3u), ~0u, 0);
}

// Nothing of what the parent does or has may show in the child, nor the other way round.
void become_reader(int connection, int kept_open, const Allowance& allowance) {
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGXCPU})
    ::signal(fault, SIG_DFL);
  for (const int request : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) ::signal(request, SIG_IGN);
  Lock::forget_in_child();
  // An end of another reader's connection, held here, would keep that reader from seeing its end.
  close_all_but(connection, kept_open);
  if (const int nothing = ::open("/dev/null", O_RDWR);
      nothing >= 0) {  // the C library complains of damage
    ::dup2(nothing, STDOUT_FILENO);
    if (!kIsSanitized) ::dup2(nothing, STDERR_FILENO);
    ::close(nothing);
  }
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_CPU, allowance.seconds);
  if (const std::uint64_t now = data_bytes(); now > 0 && !kIsSanitized)
    limit(RLIMIT_DATA, now + allowance.memory);
}

}  // namespace

Channel::~Channel() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool Channel::send(Tag tag, std::string_view bytes) const {
  char head[1 + sizeof(std::uint64_t)] = {static_cast<char>(tag)};
  const std::uint64_t length = bytes.size();
  std::memcpy(head + 1, &length, sizeof length);
  for (std::string_view part : {std::string_view(head, sizeof head), bytes}) {
    while (!part.empty()) {
      const ssize_t sent = ::send(descriptor_, part.data(), part.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) return false;
      part.remove_prefix(static_cast<std::size_t>(sent));
    }
  }
  return true;
}

bool Channel::receive(void* out, std::uint64_t bytes) const {
  auto* target = static_cast<char*>(out);
  while (bytes > 0) {
    const ssize_t got = ::recv(descriptor_, target, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    target += got;
    bytes -= static_cast<std::uint64_t>(got);
  }
  return true;
}

bool Channel::receive(Tag& tag, std::uint64_t& bytes) const {
  char head[1 + sizeof(std::uint64_t)];
  if (!receive(head, sizeof head)) return false;
  tag = static_cast<Tag>(head[0]);
  std::memcpy(&bytes, head + 1, sizeof bytes);
  return true;
}

void allow_for(std::uint64_t bytes, std::uint64_t at_once) {
  raise_limit(RLIMIT_CPU, bytes / kBytesASecond + 1);
  raise_limit(RLIMIT_DATA, kCopies * at_once);
}

Process::Process(const std::function<void(const Channel&)>& serve, int kept_open,
                 const Allowance& allowance)
    : allowance_(allowance) {
  int ends[2];
  ENSURE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0,
         "HDF5: cannot connect to a reading process: ", std::generic_category().message(errno));
  channel_ = Channel(ends[0]);
  Channel far(ends[1]);
  const Lock lock;  // no other thread is inside the library while the process is copied
  H5open();         // once here, not in every reading process
  child_ = ::fork();
  ENSURE(child_ >= 0,
         "HDF5: cannot start a reading process: ", std::generic_category().message(errno));
  if (child_ > 0) return;
  become_reader(far.descriptor(), kept_open, allowance);
  try {
    serve(far);
  } catch (...) {  // the parent sees the end of the process
  }
  ::_exit(0);
}

Process::~Process() {
  if (child_ <= 0) return;
  ::kill(child_, SIGKILL);
  while (::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::string Process::describe_end(int status) const {
  if (!WIFSIGNALED(status)) return "the library gives up on it";
  const int signal = WTERMSIG(status);
  if (signal == SIGXCPU)
    return base::concat("the library takes more than ", allowance_.seconds,
                        " s of processor time on it");
  return base::concat("the library ends with signal ", signal, " (", ::strsignal(signal),
                      ") on it");
}

void Process::fail_as_dead() {
  int status = 0;
  const pid_t child = std::exchange(child_, -1);
  if (child > 0) {
    pid_t ended = 0;
    do {
      ended = ::waitpid(child, &status, 0);
    } while (ended < 0 && errno == EINTR);
    if (ended < 0) status = 0;  // someone else's wait() took it
  }
  throw Hdf5Damage("HDF5: the file is damaged: " + describe_end(status));
}

void Process::ask(const Message& question) {
  ENSURE(!is_amid_data_, "HDF5: an earlier reading of this file was broken off");
  if (child_ <= 0 || !channel_.send(Tag::answer, question.bytes())) fail_as_dead();
}

std::vector<char> Process::receive_answer(std::uint64_t bytes) {
  ENSURE(bytes <= kMaxAnswer, "HDF5: the reading process answers with ", bytes, " bytes");
  std::vector<char> answer(bytes);
  receive(answer.data(), bytes);
  return answer;
}

Message Process::answer() {
  Tag tag{};
  std::uint64_t bytes = 0;
  if (!channel_.receive(tag, bytes)) fail_as_dead();
  std::vector<char> text = receive_answer(bytes);
  if (tag == Tag::error) throw base::Error({text.begin(), text.end()});
  ENSURE(tag == Tag::answer, "HDF5: the reading process answers with data");
  return Message(std::move(text));
}

std::uint64_t Process::next_block() {
  Tag tag{};
  std::uint64_t bytes = 0;
  if (!channel_.receive(tag, bytes)) fail_as_dead();
  is_amid_data_ = tag == Tag::block;
  if (tag == Tag::block) return bytes;
  const std::vector<char> text = receive_answer(bytes);
  if (tag == Tag::error) throw base::Error({text.begin(), text.end()});
  return 0;
}

void Process::receive(void* out, std::uint64_t bytes) {
  if (!channel_.receive(out, bytes)) fail_as_dead();
}

}  // namespace io::hdf5
