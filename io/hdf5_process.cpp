#include "io/hdf5_process.hpp"

#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "io/hdf5_starter.hpp"

namespace io::hdf5 {
namespace {

// What an answer may be long: lists of names and texts, never data. The reading process cannot
// hold more.
constexpr std::uint64_t kMaxAnswer = std::uint64_t{1} << 30;
constexpr std::uint64_t kCopies = 4;  // of a block: packed, unpacked, converted, and as it is sent

void raise_limit(int resource, std::uint64_t more) {
  rlimit now{};
  if (::getrlimit(resource, &now) != 0 || now.rlim_cur == RLIM_INFINITY) return;
  now.rlim_cur = std::min<rlim_t>(now.rlim_cur + more, now.rlim_max);
  ::setrlimit(resource, &now);
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

Process::Process(Serve serve, int file, const Allowance& allowance) : allowance_(allowance) {
  Reader reader = start_reader(serve, file, allowance);
  channel_ = std::move(reader.channel);
  status_ = reader.status;
}

Process::~Process() {
  if (status_ >= 0) ::close(status_);  // the connection ends, too, and with it the process
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
  if (status_ >= 0) {
    ssize_t got = 0;
    do {
      got = ::read(status_, &status, sizeof status);
    } while (got < 0 && errno == EINTR);
    if (got != static_cast<ssize_t>(sizeof status)) status = 0;
  }
  throw Hdf5Damage("HDF5: the file is damaged: " + describe_end(status));
}

void Process::ask(const Message& question) {
  ENSURE(!is_amid_data_, "HDF5: an earlier reading of this file was broken off");
  if (!channel_.send(Tag::answer, question.bytes())) fail_as_dead();
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
