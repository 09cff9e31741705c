// The library gets a view of the file whose header holds nothing but what was checked before, so
// what else a header can claim never reaches it; nor does the chunk table, which it trusts: chunks
// of layers and chunks of different sizes are decoded one by one, others in order.
#include <laszip/laszip_api.h>

#include <algorithm>
#include <cstring>
#include <istream>
#include <streambuf>

#include "io/formats/laz_decoder.hpp"

namespace io {
namespace {

constexpr std::size_t kVlrHead = 54;

template <class T>
void put(std::string& bytes, std::size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

// The bytes before the points of a chunk: the file's own header with one record (how points are
// packed) and nothing after them but the place of a chunk table, as an interrupted writer leaves
// it.
std::string clean_head(const Source& source, const LasHeader& header, const LazLayout& layout,
                       const LazChunk& chunk) {
  std::string head(static_cast<std::size_t>(header.points_offset), '\0');
  source.read(0, head.data(), header.header_bytes);
  put<std::uint32_t>(head, 100, 1);
  if (header.minor >= 3) put<std::uint64_t>(head, 227, 0);  // waveforms
  if (header.minor >= 4) {
    put<std::uint64_t>(head, 235, 0);
    put<std::uint32_t>(head, 243, 0);
  }
  const auto at = static_cast<std::size_t>(header.header_bytes);
  ENSURE(at + kVlrHead + header.laz_record.size() <= head.size(), "LAZ: offset to point data ",
         header.points_offset, " leaves no room for the record 'laszip encoded'");
  std::memcpy(head.data() + at + 2, "laszip encoded", 14);
  put<std::uint16_t>(head, at + 18, 22204);
  put<std::uint16_t>(head, at + 20, static_cast<std::uint16_t>(header.laz_record.size()));
  std::memcpy(head.data() + at + kVlrHead, header.laz_record.data(), header.laz_record.size());
  if (layout.compressor == 3 || layout.has_unequal_chunks())
    put(head, at + kVlrHead + 12, static_cast<std::uint32_t>(chunk.points));
  if (layout.compressor != 1)
    head.append(reinterpret_cast<const char*>(&header.points_offset), sizeof header.points_offset);
  return head;
}

// A file of that head and the bytes of one chunk.
class LazBuffer final : public std::streambuf {
 public:
  LazBuffer(const Source& source, std::string head, const LazChunk& chunk)
      : source_(source), head_(std::move(head)), chunk_(chunk) {
    buffer_.resize(static_cast<std::size_t>(std::min(kChunkBytes, size())));
  }

 protected:
  int_type underflow() override {
    const std::int64_t at = position(), head_bytes = static_cast<std::int64_t>(head_.size());
    const std::int64_t bytes = std::min<std::int64_t>(static_cast<std::int64_t>(buffer_.size()),
                                                      (at < head_bytes ? head_bytes : size()) - at);
    if (bytes <= 0) return traits_type::eof();
    if (at < head_bytes) {
      std::memcpy(buffer_.data(), head_.data() + at, static_cast<std::size_t>(bytes));
    } else {
      source_.read(chunk_.begin + at - head_bytes, buffer_.data(), bytes);
    }
    begin_ = at;
    setg(buffer_.data(), buffer_.data(), buffer_.data() + bytes);
    return traits_type::to_int_type(*gptr());
  }
  pos_type seekoff(off_type offset, std::ios_base::seekdir from,
                   std::ios_base::openmode mode) override {
    const std::int64_t base = from == std::ios_base::beg   ? 0
                              : from == std::ios_base::cur ? position()
                                                           : size();
    return seekpos(base + offset, mode);
  }
  pos_type seekpos(pos_type target, std::ios_base::openmode) override {
    const std::int64_t at = target;
    if (at < 0 || at > size()) return pos_type(off_type(-1));
    begin_ = at;
    setg(buffer_.data(), buffer_.data(), buffer_.data());
    return target;
  }

 private:
  std::int64_t size() const { return static_cast<std::int64_t>(head_.size()) + chunk_.bytes; }
  std::int64_t position() const { return begin_ + (gptr() - eback()); }

  const Source& source_;
  std::string head_;
  LazChunk chunk_;
  std::vector<char> buffer_;
  std::int64_t begin_ = 0;  // offset of eback()
};

class LazDecoder {
 public:
  explicit LazDecoder(std::istream& stream) {
    ENSURE(laszip_create(&handle_) == 0, "LAZ: cannot start LASzip");
    laszip_BOOL is_compressed = 0;
    if (laszip_open_reader_stream(handle_, stream, &is_compressed) != 0) {
      const std::string why = error();
      laszip_destroy(handle_);
      base::fail("LAZ: LASzip refuses the file: ", why);
    }
    laszip_get_point_pointer(handle_, &point_);
  }
  ~LazDecoder() {
    laszip_close_reader(handle_);
    laszip_destroy(handle_);
  }
  LazDecoder(const LazDecoder&) = delete;
  LazDecoder& operator=(const LazDecoder&) = delete;

  bool next() { return laszip_read_point(handle_) == 0; }
  const laszip_point& point() const { return *point_; }
  std::string error() const {
    laszip_CHAR* text = nullptr;
    laszip_get_error(handle_, &text);
    return text == nullptr ? "" : text;
  }

 private:
  laszip_POINTER handle_ = nullptr;
  laszip_point* point_ = nullptr;
};

// The record as LAS stores it. LASzip's point begins with the 20 bytes of point format 0.
void pack_record(const laszip_point& point, const LasHeader& header, char* out) {
  std::memcpy(out, &point, 20);
  if (header.is_new()) {
    out[14] =
        static_cast<char>(point.extended_return_number | point.extended_number_of_returns << 4);
    out[15] = static_cast<char>(point.extended_classification_flags |
                                point.extended_scanner_channel << 4 |
                                point.scan_direction_flag << 6 | point.edge_of_flight_line << 7);
    out[16] = static_cast<char>(point.extended_classification);
    out[17] = static_cast<char>(point.user_data);
    std::memcpy(out + 18, &point.extended_scan_angle, 2);
    std::memcpy(out + 20, &point.point_source_ID, 2);
  }
  if (const int at = header.time_offset(); at >= 0) std::memcpy(out + at, &point.gps_time, 8);
  if (const int at = header.colour_offset(); at >= 0) std::memcpy(out + at, point.rgb, 6);
  if (const int at = header.nir_offset(); at >= 0) std::memcpy(out + at, &point.rgb[3], 2);
  if (const int at = header.wave_offset(); at >= 0) std::memcpy(out + at, point.wave_packet, 29);
  const std::int64_t used = las_record_bytes(header.point_format);
  if (used < header.record_bytes) {
    std::memcpy(out + used, point.extra_bytes,
                static_cast<std::size_t>(header.record_bytes - used));
  }
}

}  // namespace

void decode_laz(const Source& source, const LasHeader& header, const LazLayout& layout,
                const std::vector<LazChunk>& chunks, const TakeRecords& take) {
  const std::int64_t block = laz_block(header);
  std::vector<char> records(static_cast<std::size_t>(block * header.record_bytes));
  std::int64_t done = 0, waiting = 0;  // points that were taken; decoded after them
  const auto give = [&] {
    take(records.data(), waiting);
    done += waiting;
    waiting = 0;
  };
  for (const LazChunk& chunk : chunks) {
    LazBuffer buffer(source, clean_head(source, header, layout, chunk), chunk);
    std::istream stream(&buffer);
    LazDecoder decoder(stream);
    for (std::int64_t i = 0; i < chunk.points; ++i) {
      ENSURE(decoder.next(), "LAZ: point ", done + waiting, " of ", header.points,
             " cannot be decoded, the file has ", source.size(),
             " bytes (truncated?): ", decoder.error());
      pack_record(decoder.point(), header, records.data() + waiting * header.record_bytes);
      if (++waiting == block) give();
    }
  }
  if (waiting > 0) give();
}

}  // namespace io
