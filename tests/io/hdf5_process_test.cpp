// The process that reads an HDF5 file may die in any way; the one that asks never does.
#include "io/hdf5_process.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>

#include "gemm_core/base/sanitizers.hpp"
#include "tests/io/temporary_folder.hpp"

namespace {

using io::hdf5::Channel, io::hdf5::Message, io::hdf5::Process, io::hdf5::Tag;
using test_support::TemporaryFolder;

constexpr std::uint64_t kMemory = 16 << 20;

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const base::Error& error) {
    return error.what();
  }
  return "";
}

std::string end_of(io::hdf5::Serve serve) {
  Process process(serve, 0, {.memory = kMemory});
  return message_of([&] { process.answer(); });
}

TEST(Hdf5Process, ACrashIsAnError) {
  EXPECT_EQ(
      end_of([](int, const Channel&) { std::raise(SIGSEGV); }),
      "HDF5: the file is damaged: the library ends with signal 11 (Segmentation fault) on it");
  EXPECT_EQ(end_of([](int, const Channel&) { std::raise(SIGBUS); }),
            "HDF5: the file is damaged: the library ends with signal 7 (Bus error) on it");
}

TEST(Hdf5Process, OneThatNeverEndsIsAnError) {
  EXPECT_EQ(end_of([](int, const Channel&) {
              for (volatile bool goes_on = true; goes_on;) {
              }
            }),
            "HDF5: the file is damaged: the library takes more than 1 s of processor time on it");
}

TEST(Hdf5Process, ACrashBetweenOrAmidBlocksIsAnError) {
  const auto half_a_block = [](int, const Channel& channel) {
    channel.send(Tag::block, "12345678");
    const char head[] = {static_cast<char>(Tag::block), 8, 0, 0, 0, 0, 0, 0, 0, '1', '2'};
    EXPECT_EQ(::write(channel.descriptor(), head, sizeof head), sizeof head);
    std::raise(SIGABRT);
  };
  Process process(half_a_block, 0, {.memory = kMemory});
  char bytes[8];
  ASSERT_EQ(process.next_block(), 8u);
  process.receive(bytes, 8);
  ASSERT_EQ(process.next_block(), 8u);
  EXPECT_NE(message_of([&] { process.receive(bytes, 8); }).find("signal 6"), std::string::npos);
  EXPECT_NE(message_of([&] { process.ask({}); }).find("broken off"), std::string::npos);
}

void take_much(const Channel& channel) {
  void* volatile memory = std::malloc(4 * kMemory);
  channel.send(Tag::error, memory == nullptr ? "refused" : "given");
  std::free(memory);
}

TEST(Hdf5Process, MemoryIsLimited) {
  if (base::kIsSanitized) GTEST_SKIP() << "a sanitizer's own memory would be limited too";
  const auto take = [](int, const Channel& channel) { take_much(channel); };
  EXPECT_EQ(end_of(take), "refused");
  const auto take_after_leave = [](int, const Channel& channel) {
    io::hdf5::allow_for(4 * kMemory, 4 * kMemory);
    take_much(channel);
  };
  EXPECT_EQ(end_of(take_after_leave), "given");
}

// Bytes of a dataset's description cut off anywhere: an error, and nothing is reserved for claims.
TEST(Hdf5Process, AnswersThatEndTooEarlyAreErrors) {
  const io::Hdf5Dataset dataset{.path = "/a", .shape = {4, 3}, .numeric = true, .type_name = "f"};
  Message whole;
  whole.put(std::vector{dataset, dataset});
  const std::vector<char> bytes(whole.bytes().begin(), whole.bytes().end());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    Message cut(std::vector<char>(bytes.data(), bytes.data() + size));
    EXPECT_THROW(cut.take<std::vector<io::Hdf5Dataset>>(), base::Error) << size;
  }
  const auto same = Message(bytes).take<std::vector<io::Hdf5Dataset>>();
  ASSERT_EQ(same.size(), 2u);
  EXPECT_EQ(same[1].shape, dataset.shape);
  EXPECT_EQ(same[1].type_name, "f");
  Message claim;
  claim.put(std::uint64_t{1} << 60);
  EXPECT_THROW(claim.take<std::vector<double>>(), base::Error);
}

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++count;
  return count;
}

TEST(Hdf5Process, LeavesNeitherProcessesNorDescriptors) {
  const TemporaryFolder folder;
  {
    io::Hdf5Writer out(folder / "a.h5");
    out.write<float>("/x", std::vector<float>{1, 2}, {2});
    out.commit();
  }
  std::ofstream(folder / "b.h5") << "\x89HDF\r\n\x1a\n and nothing more";
  EXPECT_THROW(io::Hdf5Reader(folder / "b.h5"), base::Error);  // the starter stays
  const std::size_t before = open_descriptors();
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(io::Hdf5Reader(folder / "a.h5").read<float>("/x").size(), 2u);
    EXPECT_THROW(io::Hdf5Reader(folder / "b.h5"), base::Error);
  }
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

}  // namespace
