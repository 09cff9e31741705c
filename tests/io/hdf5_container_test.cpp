#include "io/hdf5_container.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/io/temporary_folder.hpp"

namespace {

using test_support::TemporaryFolder;

TEST(Hdf5, ReturnsWhatWasWritten) {
  const TemporaryFolder folder;
  const auto path = folder / "a.h5";
  const std::vector<float> weights{1.5f, -2, 3, 4, 5, 6};
  const std::vector<std::int32_t> numbers{-7, 0, 9};
  {
    io::Hdf5Writer out(path);
    out.write<float>("/weights/stem.conv/weight", weights, {2, 3});
    out.write<std::int32_t>("/numbers", numbers, {3});
    out.write<double>("/none", {}, {0, 4});
    out.write_text("/graph", R"({"name": "ä"})");
    out.create_group("/a/b");
    out.create_group("/a/b/c");
    out.set_attribute("/", "sparseconv_model", std::int64_t{1});
    out.set_attribute("/", "shape", std::vector<std::int64_t>{4, 5, 6});
    out.set_attribute("/a/b", "origin", std::vector<double>{0.5, 1});
    out.set_attribute("/", "kind", std::string("voxels"));
    out.set_attribute("/", "names", std::vector<std::string>{"x", "", "intensity"});
    out.commit();
  }
  const io::Hdf5Reader in(path);
  EXPECT_EQ(in.read<float>("/weights/stem.conv/weight"), weights);
  EXPECT_EQ(in.read<double>("/numbers"), (std::vector<double>{-7, 0, 9}));
  EXPECT_EQ(in.dataset("/weights/stem.conv/weight").shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(in.read_tensor("/none").shape(), (base::Dims{0, 4}));
  EXPECT_EQ(in.read_text("/graph"), R"({"name": "ä"})");
  EXPECT_TRUE(in.is_group("/a/b/c"));
  EXPECT_FALSE(in.is_group("/numbers"));
  EXPECT_FALSE(in.has("/a/x/y"));
  EXPECT_EQ(in.children("/"),
            (std::vector<std::string>{"a", "graph", "none", "numbers", "weights"}));
  EXPECT_EQ(in.attribute_numbers("/", "shape"), (std::vector<double>{4, 5, 6}));
  EXPECT_EQ(in.attribute_numbers("/", "sparseconv_model"), (std::vector<double>{1}));
  EXPECT_EQ(in.attribute_numbers("/a/b", "origin"), (std::vector<double>{0.5, 1}));
  EXPECT_EQ(in.attribute_text("/", "kind"), "voxels");
  EXPECT_EQ(in.attribute_texts("/", "names"), (std::vector<std::string>{"x", "", "intensity"}));
  EXPECT_FALSE(in.has_attribute("/", "absent"));
  EXPECT_EQ(in.datasets().size(), 4u);
}

TEST(Hdf5, KeepsEveryBitOfAHalfTensor) {
  const TemporaryFolder folder;
  auto tensor = base::Tensor::empty({65536}, base::DType::f16);
  for (int i = 0; i < 65536; ++i)
    tensor.data<base::half_t>()[i].bits = static_cast<std::uint16_t>(i);
  {
    io::Hdf5Writer out(folder / "h.h5");
    out.set_compression(4);
    out.write_tensor("/h", tensor);
    out.commit();
  }
  const auto back = io::Hdf5Reader(folder / "h.h5").read_tensor("/h");
  ASSERT_EQ(back.dtype(), base::DType::f16);
  EXPECT_EQ(std::memcmp(back.data(), tensor.data(), 65536 * 2), 0);
}

TEST(Hdf5, LeavesNothingBehindWithoutCommit) {
  const TemporaryFolder folder;
  {
    io::Hdf5Writer out(folder / "a.h5");
    out.write<float>("/x", std::vector<float>{1, 2}, {2});
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Hdf5, WritesTheSameBytesTwice) {
  const TemporaryFolder folder;
  const auto bytes_of = [&](const char* name) {
    io::Hdf5Writer out(folder / name);
    out.write<float>("/g/x", std::vector<float>{1, 2}, {2});
    out.create_group("/h/i");
    out.set_attribute("/g", "a", std::vector<std::int64_t>{1});
    out.commit();
    std::ifstream in(folder / name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const auto first = bytes_of("a.h5");
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // HDF5 times have whole seconds
  EXPECT_EQ(first, bytes_of("b.h5"));
}

TEST(Hdf5, NamesWhatIsWrong) {
  const TemporaryFolder folder;
  {
    io::Hdf5Writer out(folder / "a.h5");
    out.write<float>("/x", std::vector<float>{1, 2}, {2});
    out.write_text("/t", "text");
    out.commit();
  }
  const io::Hdf5Reader in(folder / "a.h5");
  const auto message = [](auto&& action) -> std::string {
    try {
      action();
    } catch (const base::Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(message([&] { in.read<float>("/y"); }), "HDF5: there is no /y");
  EXPECT_EQ(message([&] { in.read<float>("/t"); }), "HDF5: /t is text, numbers are expected");
  EXPECT_EQ(message([&] { in.read_text("/x"); }), "HDF5: /x is float32, text is expected");
  EXPECT_EQ(message([&] { in.attribute_text("/", "a"); }), "HDF5: / has no attribute a");
  std::ofstream(folder / "not.h5") << "plain text";
  EXPECT_NE(message([&] {
              io::Hdf5Reader(folder / "not.h5");
            }).find("cannot open as an HDF5 file of 10 bytes"),
            std::string::npos);
  EXPECT_NE(message([&] { io::Hdf5Reader(folder.path()); }).find("not a regular file"),
            std::string::npos);
  EXPECT_NE(message([&] { io::Hdf5Writer(folder / "absent" / "a.h5"); }).find("cannot create"),
            std::string::npos);
}

TEST(Hdf5, ServesSeveralThreads) {
  const TemporaryFolder folder;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const auto path = folder / ("t" + std::to_string(t) + ".h5");
      const std::vector<float> values(1000, static_cast<float>(t));
      for (int i = 0; i < 20; ++i) {
        io::Hdf5Writer out(path);
        out.write<float>("/x", values, {1000});
        out.commit();
        if (io::Hdf5Reader(path).read<float>("/x") != values) ++wrong;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// The first reading starts a process that is a copy of this one, the unfinished file included. A
// later file may get the inode of that one.
TEST(Hdf5, ReadsFilesThatReuseTheInodeOfOneThatWasBeingWritten) {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& name, float value) {
    io::Hdf5Writer out(folder / name);
    out.write<float>("/x", std::vector<float>(1000, value), {1000});
    out.commit();
  };
  write("first.h5", 1);
  {
    io::Hdf5Writer unfinished(folder / "unfinished.h5");
    unfinished.write<float>("/x", std::vector<float>(1000, 2.0f), {1000});
    EXPECT_EQ(io::Hdf5Reader(folder / "first.h5").read<float>("/x")[0], 1);
    unfinished.commit();
  }
  EXPECT_EQ(io::Hdf5Reader(folder / "unfinished.h5").read<float>("/x")[999], 2);
  std::filesystem::remove(folder / "unfinished.h5");
  for (int i = 0; i < 20; ++i) {
    const std::string name = std::to_string(i) + ".h5";
    write(name, static_cast<float>(i));
    EXPECT_EQ(io::Hdf5Reader(folder / name).read<float>("/x")[999], static_cast<float>(i));
  }
}

TEST(Hdf5, SurvivesTruncationAtEveryByte) {
  const TemporaryFolder folder;
  {
    io::Hdf5Writer out(folder / "a.h5");
    out.write<float>("/points", std::vector<float>(12, 1.0f), {4, 3});
    out.set_attribute("/", "n", std::vector<std::int64_t>{1, 2});
    out.commit();
  }
  std::ifstream in(folder / "a.h5", std::ios::binary);
  const std::string whole(std::istreambuf_iterator<char>(in), {});
  for (std::size_t size = 0; size < whole.size(); ++size) {
    std::ofstream(folder / "cut.h5", std::ios::binary)
        .write(whole.data(), static_cast<std::streamsize>(size));
    EXPECT_THROW(io::Hdf5Reader(folder / "cut.h5").read<float>("/points"), base::Error)
        << "cut at " << size;
  }
}

// In a process of its own, whose files may not grow: as on a full disk.
[[noreturn]] void write_without_room(const std::filesystem::path& path) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit none{};
  setrlimit(RLIMIT_FSIZE, &none);
  try {
    const io::Hdf5Writer out(path);
  } catch (const base::Error&) {
    std::_Exit(std::filesystem::is_empty(path.parent_path()) ? 0 : 2);
  }
  std::_Exit(1);
}

TEST(Hdf5DeathTest, LeavesNothingWhereNotEvenTheFirstBytesFit) {
  const TemporaryFolder folder;
  EXPECT_EXIT(write_without_room(folder / "a.h5"), testing::ExitedWithCode(0), "");
}

}  // namespace
