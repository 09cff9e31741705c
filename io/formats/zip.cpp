#include "io/formats/zip.hpp"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "gemm_core/base/error.hpp"
#include "io/number_text.hpp"

namespace io {
namespace {

constexpr std::int64_t kMaxRatio = 1032;  // of deflate
constexpr std::int64_t kMaxMembers = 100000;
constexpr std::uint32_t kSaturated = 0xffffffff;

template <class T>
T field(std::string_view bytes, std::size_t at) {
  T value{};
  ENSURE(at + sizeof(T) <= bytes.size(), "ZIP: a record ends after ", bytes.size(), " bytes");
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

struct Directory {
  std::int64_t offset = 0, bytes = 0, members = 0;
};

Directory find_directory(const Source& source) {
  const std::int64_t tail_bytes = std::min<std::int64_t>(source.size(), 22 + 65535);
  const std::string tail = source.read_text(source.size() - tail_bytes, tail_bytes);
  const auto at = tail.rfind("PK\x05\x06");
  ENSURE(at != std::string::npos && tail.size() - at >= 22,
         "ZIP: the central directory is missing (truncated?)");
  Directory directory{.offset = field<std::uint32_t>(tail, at + 16),
                      .bytes = field<std::uint32_t>(tail, at + 12),
                      .members = field<std::uint16_t>(tail, at + 10)};
  if (at >= 20 && std::string_view(tail).substr(at - 20, 4) == std::string_view("PK\x06\x07")) {
    const auto end64 = field<std::uint64_t>(tail, at - 20 + 8);
    ENSURE(end64 <= static_cast<std::uint64_t>(source.size()),
           "ZIP: the 64-bit directory is said to be at byte ", end64);
    const std::string record = source.read_text(
        static_cast<std::int64_t>(end64),
        std::min<std::int64_t>(56, source.size() - static_cast<std::int64_t>(end64)));
    const auto members = field<std::uint64_t>(record, 32), bytes = field<std::uint64_t>(record, 40),
               offset = field<std::uint64_t>(record, 48);
    const auto limit = static_cast<std::uint64_t>(source.size());
    ENSURE(members <= limit && bytes <= limit && offset <= limit,
           "ZIP: the 64-bit directory claims ", bytes, " bytes at byte ", offset);
    directory = {static_cast<std::int64_t>(offset), static_cast<std::int64_t>(bytes),
                 static_cast<std::int64_t>(members)};
  }
  ENSURE(directory.offset <= source.size() && directory.bytes <= source.size() - directory.offset,
         "ZIP: the directory claims ", directory.bytes, " bytes at byte ", directory.offset,
         ", the file has ", source.size());
  return directory;
}

// 64-bit sizes stand in the extra field, each only where the 32-bit one is saturated, in this
// order.
void take_zip64(std::string_view extra, std::uint64_t& uncompressed, std::uint64_t& compressed,
                std::uint64_t& offset) {
  while (extra.size() >= 4) {
    const auto id = field<std::uint16_t>(extra, 0), size = field<std::uint16_t>(extra, 2);
    if (extra.size() < 4u + size) return;
    std::string_view body = extra.substr(4, size);
    if (id == 1) {
      for (std::uint64_t* value : {&uncompressed, &compressed, &offset}) {
        if (*value != kSaturated || body.size() < 8) continue;
        *value = field<std::uint64_t>(body, 0);
        body.remove_prefix(8);
      }
      return;
    }
    extra.remove_prefix(4u + size);
  }
}

class InflateStream final : public ByteStream {
 public:
  InflateStream(const Source& source, std::int64_t begin, const ZipMember& member)
      : member_(member), input_(source, begin, member.compressed), remaining_(member.uncompressed) {
    ENSURE(inflateInit2(&state_, -MAX_WBITS) == Z_OK, "ZIP: cannot start to inflate");
  }
  ~InflateStream() override { inflateEnd(&state_); }

  std::int64_t remaining() const override { return remaining_; }
  void read(void* out, std::int64_t bytes) override {
    ENSURE(bytes <= remaining_, "ZIP: member ", quote(member_.name), " has ", remaining_,
           " bytes left, ", bytes, " are needed");
    auto* target = static_cast<Bytef*>(out);
    while (bytes > 0) {
      const auto piece = static_cast<uInt>(std::min<std::int64_t>(bytes, 1 << 30));
      inflate_piece(target, piece);
      crc_ = crc32(crc_, target, piece);
      target += piece;
      bytes -= piece;
      remaining_ -= piece;
    }
    ENSURE(remaining_ > 0 || crc_ == member_.crc, "ZIP: member ", quote(member_.name),
           " has a wrong checksum (CRC)");
  }

 private:
  void inflate_piece(Bytef* target, uInt bytes) {
    state_.next_out = target;
    state_.avail_out = bytes;
    while (state_.avail_out > 0) {
      if (state_.avail_in == 0 && input_.remaining() > 0) {
        buffer_.resize(
            static_cast<std::size_t>(std::min<std::int64_t>(input_.remaining(), kChunkBytes)));
        input_.read(buffer_.data(), static_cast<std::int64_t>(buffer_.size()));
        state_.next_in = reinterpret_cast<Bytef*>(buffer_.data());
        state_.avail_in = static_cast<uInt>(buffer_.size());
      }
      const int result = inflate(&state_, Z_NO_FLUSH);
      const bool goes_on = result == Z_OK || (result == Z_STREAM_END && state_.avail_out == 0);
      ENSURE(goes_on, "ZIP: member ", quote(member_.name), ": damaged deflate data, ",
             member_.uncompressed, " bytes are claimed, ", state_.avail_out,
             " are missing at least");
    }
  }

  ZipMember member_;
  FileStream input_;
  std::int64_t remaining_;
  z_stream state_{};
  std::vector<char> buffer_;
  uLong crc_ = 0;
};

class StoredStream final : public ByteStream {
 public:
  StoredStream(const Source& source, std::int64_t begin, const ZipMember& member)
      : member_(member), input_(source, begin, member.uncompressed) {}
  std::int64_t remaining() const override { return input_.remaining(); }
  void read(void* out, std::int64_t bytes) override {
    input_.read(out, bytes);
    crc_ = crc32_z(crc_, static_cast<const Bytef*>(out), static_cast<z_size_t>(bytes));
    ENSURE(input_.remaining() > 0 || crc_ == member_.crc, "ZIP: member ", quote(member_.name),
           " has a wrong checksum (CRC)");
  }

 private:
  ZipMember member_;
  FileStream input_;
  uLong crc_ = 0;
};

void append_le(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 255);
}

std::string deflated(const std::string& bytes) {
  z_stream state{};
  ENSURE(deflateInit2(&state, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK,
         "ZIP: cannot start to deflate");
  std::string out, piece(1 << 18, '\0');
  std::size_t taken = 0;
  int result = Z_OK;
  state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  do {
    if (state.avail_in == 0 && taken < bytes.size()) {
      state.avail_in = static_cast<uInt>(std::min<std::size_t>(bytes.size() - taken, 1 << 30));
      taken += state.avail_in;
    }
    state.next_out = reinterpret_cast<Bytef*>(piece.data());
    state.avail_out = static_cast<uInt>(piece.size());
    result = deflate(&state, taken == bytes.size() ? Z_FINISH : Z_NO_FLUSH);
    out.append(piece, 0, piece.size() - state.avail_out);
  } while (result == Z_OK);
  deflateEnd(&state);
  ENSURE(result == Z_STREAM_END, "ZIP: deflate failed with ", result);
  return out;
}

}  // namespace

std::vector<ZipMember> list_zip(const Source& source) {
  const Directory directory = find_directory(source);
  const std::string bytes = source.read_text(directory.offset, directory.bytes);
  std::vector<ZipMember> members;
  std::string_view rest = bytes;
  for (std::int64_t i = 0; i < std::min(directory.members, kMaxMembers); ++i) {
    ENSURE(rest.size() >= 46 && rest.starts_with("PK\x01\x02"), "ZIP: the directory claims ",
           directory.members, " members, ", i, " are there");
    const std::size_t name = field<std::uint16_t>(rest, 28), extra = field<std::uint16_t>(rest, 30),
                      comment = field<std::uint16_t>(rest, 32);
    ENSURE(rest.size() >= 46 + name + extra + comment, "ZIP: directory entry ", i, " is cut");
    std::uint64_t compressed = field<std::uint32_t>(rest, 20),
                  uncompressed = field<std::uint32_t>(rest, 24),
                  offset = field<std::uint32_t>(rest, 42);
    take_zip64(rest.substr(46 + name, extra), uncompressed, compressed, offset);
    ZipMember member{.name = std::string(rest.substr(46, name)),
                     .crc = field<std::uint32_t>(rest, 16),
                     .method = field<std::uint16_t>(rest, 10)};
    const auto size = static_cast<std::uint64_t>(source.size());
    ENSURE(compressed <= size && offset <= size, "ZIP: member ", quote(member.name), " claims ",
           compressed, " bytes at byte ", offset, ", the file has ", size);
    ENSURE(uncompressed <= (member.method == 8 ? compressed * kMaxRatio + 64 : compressed),
           "ZIP: member ", quote(member.name), " claims ", uncompressed, " bytes from ", compressed,
           " compressed ones");
    ENSURE((field<std::uint16_t>(rest, 8) & 1) == 0, "ZIP: member ", quote(member.name),
           " is encrypted");
    member.compressed = static_cast<std::int64_t>(compressed);
    member.uncompressed = static_cast<std::int64_t>(uncompressed);
    member.header_offset = static_cast<std::int64_t>(offset);
    members.push_back(std::move(member));
    rest.remove_prefix(46 + name + extra + comment);
  }
  return members;
}

std::unique_ptr<ByteStream> open_zip_member(const Source& source, const ZipMember& member) {
  const std::string head = source.read_text(member.header_offset, 30);
  ENSURE(head.starts_with("PK\x03\x04"), "ZIP: no member at byte ", member.header_offset);
  const std::int64_t begin =
      member.header_offset + 30 + field<std::uint16_t>(head, 26) + field<std::uint16_t>(head, 28);
  ENSURE(begin <= source.size() && member.compressed <= source.size() - begin, "ZIP: member ",
         quote(member.name), " claims ", member.compressed, " bytes at byte ", begin,
         ", the file has ", source.size());
  if (member.method == 0) return std::make_unique<StoredStream>(source, begin, member);
  ENSURE(member.method == 8, "ZIP: member ", quote(member.name), " has compression method ",
         member.method, ", stored and deflated are read");
  return std::make_unique<InflateStream>(source, begin, member);
}

void write_zip(Sink& sink, const std::string& name, const std::string& bytes, bool compressed) {
  const std::string packed = compressed ? deflated(bytes) : std::string();
  const std::string& body = compressed ? packed : bytes;
  ENSURE(bytes.size() < kSaturated && body.size() < kSaturated - 1024,
         "ZIP: members of more than 4 GiB are not written, this one has ", bytes.size());
  const auto crc = crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  std::string common;  // version, flags (bit 11: UTF-8 names), method, time and date (1980-01-01),
                       // crc, sizes, name, extra
  append_le(common, 20, 2);
  append_le(common, 1 << 11, 2);
  append_le(common, compressed ? 8 : 0, 2);
  append_le(common, 0, 2);
  append_le(common, 33, 2);
  append_le(common, crc, 4);
  append_le(common, body.size(), 4);
  append_le(common, bytes.size(), 4);
  append_le(common, name.size(), 2);
  append_le(common, 0, 2);
  sink.write("PK\x03\x04" + common + name);
  sink.write(body);
  std::string directory("PK\x01\x02\x14\x00", 6);
  directory += common;
  directory.append(14, '\0');  // comment length, disk, attributes, offset 0
  directory += name;
  std::string end("PK\x05\x06\0\0\0\0\x01\0\x01\0", 12);
  append_le(end, directory.size(), 4);
  append_le(end, 30 + name.size() + body.size(), 4);
  append_le(end, 0, 2);
  sink.write(directory + end);
}

}  // namespace io
