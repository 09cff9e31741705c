#include "io/hdf5_starter.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <vector>

#include "gemm_core/base/sanitizers.hpp"
#include "io/hdf5_handle.hpp"

namespace io::hdf5 {
namespace {

#if defined(FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION) && defined(__clang__)
// The fuzzer would store the input that it had when the starter was copied from it.
extern "C" void __sanitizer_set_death_callback(void (*callback)());
void keep_no_input() { __sanitizer_set_death_callback(nullptr); }
#else
void keep_no_input() {}
#endif

// The starter keeps what this process has in memory when it is copied. A larger process gets a new
// one for every file.
constexpr std::uint64_t kMaxKept = 512 << 20;

std::string system_error_text() { return std::generic_category().message(errno); }

// Bytes of this process in /proc/self/statm: 1 resident, 5 data as RLIMIT_DATA counts them. 0 where
// /proc does not tell.
std::uint64_t memory_bytes(int field) {
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  unsigned long long pages[6] = {};
  const int got = std::fscanf(file, "%llu %llu %llu %llu %llu %llu", &pages[0], &pages[1],
                              &pages[2], &pages[3], &pages[4], &pages[5]);
  std::fclose(file);
  return got == 6 ? pages[field] * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) : 0;
}

void limit(int resource, std::uint64_t value) {
  rlimit now{};
  ::getrlimit(resource, &now);
  now.rlim_cur = std::min<rlim_t>(value, now.rlim_max);
  ::setrlimit(resource, &now);
}

void close_all_but(std::array<int, 2> kept) {
  std::sort(kept.begin(), kept.end());
  unsigned from = 3;
  for (const int descriptor : kept) {
    const auto number = static_cast<unsigned>(descriptor);
    if (number > from) ::close_range(from, number - 1, 0);
    from = std::max(from, number + 1);
  }
  ::close_range(from, ~0u, 0);
}

struct Request {
  Serve serve;
  Allowance allowance;
};
// What goes with it: the reader's end of the connection, the file, where its end is told.
enum { kConnection, kFile, kStatus, kDescriptors };
using Descriptors = std::array<int, kDescriptors>;

union Control {
  cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(Descriptors))];
};

// Both must outlive it.
msghdr message_of(iovec& part, Control& control) {
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  return message;
}

bool send_request(int socket, Request request, const Descriptors& descriptors) {
  Control control{};
  iovec part{&request, sizeof request};
  msghdr message = message_of(part, control);
  control.header.cmsg_level = SOL_SOCKET;
  control.header.cmsg_type = SCM_RIGHTS;
  control.header.cmsg_len = CMSG_LEN(sizeof descriptors);
  std::memcpy(CMSG_DATA(&control.header), descriptors.data(), sizeof descriptors);
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(sizeof request);
}

bool receive_request(int socket, Request& request, Descriptors& descriptors) {
  Control control{};
  iovec part{&request, sizeof request};
  msghdr message = message_of(part, control);
  ssize_t got = 0;
  do {
    got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  const bool is_whole = got == static_cast<ssize_t>(sizeof request) &&
                        CMSG_FIRSTHDR(&message) != nullptr &&
                        control.header.cmsg_len == CMSG_LEN(sizeof descriptors);
  if (is_whole) std::memcpy(descriptors.data(), CMSG_DATA(&control.header), sizeof descriptors);
  return is_whole;
}

// Files that this process had open for writing when it was copied. HDF5 would take a new file with
// the number (inode) of one of them for that file, so it must let go of them; what it still has to
// write goes into memory. Their descriptors are closed before.
void forget_open_files() {
  const auto open_ids = [](unsigned types) {
    const ssize_t count = H5Fget_obj_count(static_cast<hid_t>(H5F_OBJ_ALL), types);
    std::vector<hid_t> ids(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    if (!ids.empty())
      H5Fget_obj_ids(static_cast<hid_t>(H5F_OBJ_ALL), types, ids.size(), ids.data());
    return ids;
  };
  const std::vector<hid_t> files = open_ids(H5F_OBJ_FILE);
  for (const hid_t file : files) {
    void* handle = nullptr;
    if (H5Fget_vfd_handle(file, H5P_DEFAULT, &handle) < 0) continue;
    const int descriptor = *static_cast<const int*>(handle);
    const int memory = ::memfd_create("hdf5", MFD_CLOEXEC);
    if (memory < 0 || memory == descriptor) continue;
    ::dup2(memory, descriptor);
    ::close(memory);
  }
  for (const hid_t object : open_ids(H5F_OBJ_ALL & ~static_cast<unsigned>(H5F_OBJ_FILE)))
    H5Idec_ref(object);
  for (const hid_t file : files) H5Fclose(file);
}

// Nothing of what this process does later may show in the starter, nor the other way round.
void become_starter(int requests) {
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGXCPU})
    ::signal(fault, SIG_DFL);
  for (const int request : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) ::signal(request, SIG_IGN);
  Lock::forget_in_child();
  keep_no_input();
  close_all_but({requests, requests});
  forget_open_files();
  if (const int nothing = ::open("/dev/null", O_RDWR); nothing >= 0) {
    for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
      // The C library and HDF5 complain of damage there; so does a sanitizer, of ours.
      if (standard != STDERR_FILENO || !base::kIsSanitized) ::dup2(nothing, standard);
    }
    ::close(nothing);
  }
  limit(RLIMIT_CORE, 0);
}

[[noreturn]] void read_in_this_process(const Request& request, const Descriptors& descriptors) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  // An end of another reader's connection, held here, would keep that reader from seeing its end.
  close_all_but({descriptors[kConnection], descriptors[kFile]});
  limit(RLIMIT_CPU, request.allowance.seconds);
  if (const std::uint64_t now = memory_bytes(5); now > 0 && !base::kIsSanitized)
    limit(RLIMIT_DATA, now + request.allowance.memory);
  const Channel channel(descriptors[kConnection]);
  try {
    request.serve(descriptors[kFile], channel);
  } catch (...) {  // the other side sees the end of the connection
  }
  ::_exit(0);
}

// Processes that read, and where to tell how each of them ended.
struct Readers {
  struct Running {
    pid_t process;
    int status;
  };
  std::vector<Running> running;

  void start(const Request& request, const Descriptors& descriptors) {
    const pid_t process = ::fork();
    if (process == 0) read_in_this_process(request, descriptors);
    ::close(descriptors[kConnection]);
    ::close(descriptors[kFile]);
    if (process > 0)
      running.push_back({process, descriptors[kStatus]});
    else
      ::close(descriptors[kStatus]);  // the other side sees the end of both connections
  }
  void tell_ends() {
    int status = 0;
    for (pid_t ended; (ended = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      std::erase_if(running, [&](const Running& one) {
        if (one.process != ended) return false;
        [[maybe_unused]] const ssize_t told = ::write(one.status, &status, sizeof status);
        ::close(one.status);
        return true;
      });
    }
  }
};

[[noreturn]] void serve_requests(int requests) {
  become_starter(requests);
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child, nullptr);
  pollfd ends{::signalfd(-1, &child, SFD_CLOEXEC), POLLIN, 0}, asked{requests, POLLIN, 0};
  Readers readers;
  // Where nobody asks any more, the last readers are still waited for.
  for (bool is_asked = true; is_asked || !readers.running.empty();) {
    pollfd waits[] = {ends, asked};
    if (::poll(waits, is_asked ? 2 : 1, -1) < 0) continue;
    if (waits[0].revents != 0) {
      signalfd_siginfo told;
      [[maybe_unused]] const ssize_t got = ::read(ends.fd, &told, sizeof told);
      readers.tell_ends();
    }
    if (!is_asked || waits[1].revents == 0) continue;
    Request request{};
    Descriptors descriptors{};
    is_asked = receive_request(requests, request, descriptors);
    if (is_asked) readers.start(request, descriptors);
  }
  ::_exit(0);
}

// One a process. Not its child: a program that waits for all its children must not wait for this
// one, which ends with the program.
struct Starter {
  std::mutex mutex;
  int socket = -1;
  pid_t owner = -1;

  bool is_running() const { return socket >= 0 && owner == ::getpid(); }
  void stop() {
    if (socket >= 0) ::close(socket);
    socket = -1;
  }
  void start() {
    stop();
    int ends[2];
    ENSURE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0,
           "HDF5: cannot connect to a reading process: ", system_error_text());
    const Lock lock;  // no other thread is inside the library while the process is copied
    H5open();         // once here, not in every reading process
    const pid_t between = ::fork();
    if (between == 0) {
      if (::fork() == 0) serve_requests(ends[1]);
      ::_exit(0);
    }
    const int reason = errno;
    ::close(ends[1]);
    socket = ends[0];
    owner = ::getpid();
    if (between > 0) {
      while (::waitpid(between, nullptr, 0) < 0 && errno == EINTR) {
      }
      return;
    }
    stop();
    base::fail("HDF5: cannot start a reading process: ", std::generic_category().message(reason));
  }
};

Starter& starter() {
  static Starter instance;
  return instance;
}

}  // namespace

Reader start_reader(Serve serve, int file, const Allowance& allowance) {
  int ends[2], status[2];
  ENSURE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0,
         "HDF5: cannot connect to a reading process: ", system_error_text());
  Reader reader{.channel = Channel(ends[0])};
  const Channel far(ends[1]);
  ENSURE(::pipe2(status, O_CLOEXEC) == 0,
         "HDF5: cannot connect to a reading process: ", system_error_text());
  reader.status = status[0];
  Starter& one = starter();
  const std::lock_guard lock(one.mutex);
  bool is_sent = false;
  try {
    const Request request{serve, allowance};
    const Descriptors descriptors{ends[1], file, status[1]};
    is_sent = one.is_running() && send_request(one.socket, request, descriptors);
    if (!is_sent) {  // the first time, or someone ended it
      one.start();
      is_sent = send_request(one.socket, request, descriptors);
      if (memory_bytes(1) > kMaxKept) one.stop();
    }
  } catch (...) {
    ::close(status[0]);
    ::close(status[1]);
    throw;
  }
  ::close(status[1]);
  if (!is_sent) {
    ::close(status[0]);
    base::fail("HDF5: cannot start a reading process");
  }
  return reader;
}

void start_ahead() {
  Starter& one = starter();
  const std::lock_guard lock(one.mutex);
  try {
    if (!one.is_running()) one.start();
  } catch (const base::Error&) {  // tried again by the first reader
  }
}

}  // namespace io::hdf5
