// Points stored as records (one after the other, fields at fixed offsets) to and from columns.
//
//   RecordReader reader(layout, points);          // allocates the columns
//   reader.append(bytes, n);                      // n whole records, in order, until `points` are
//   there reader.move_into(cloud);
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "io/cloud.hpp"
#include "io/source.hpp"

namespace io {

struct RecordField {
  std::string name;  // canonical
  base::DType type = base::DType::f32;
  std::int64_t count = 1;
  std::int64_t offset = 0;  // bytes from the start of the record
  bool is_skipped = false;  // padding, or unwanted
};

struct RecordLayout {
  std::vector<RecordField> fields;
  std::int64_t bytes = 0;   // of a record
  bool swap_bytes = false;  // stored in the other byte order than this machine's
};

class RecordReader {
 public:
  RecordReader(const RecordLayout& layout, std::int64_t points);
  void append(const char* records, std::int64_t count);
  // `count` whole records as points [at, at + count). Threads may put ranges that do not overlap at
  // the same time; filled() and append() do not know of them.
  void put(std::int64_t at, const char* records, std::int64_t count);
  // Reads all points from a stream that holds them one after the other.
  void read_all(ByteStream& stream);
  std::int64_t filled() const { return filled_; }
  void move_into(Cloud& cloud);

 private:
  // The common layouts; false for others.
  bool put_words(std::int64_t at, const char* records, std::int64_t count);

  const RecordLayout& layout_;
  std::int64_t points_, filled_ = 0;
  std::vector<base::Tensor> columns_;
};

// The columns of a cloud as records: the fields of the layout, in its order, each found by name.
class RecordWriter {
 public:
  RecordWriter(const RecordLayout& layout, const Cloud& cloud);
  // Records [begin, begin + count) into `out`, count * layout.bytes bytes.
  void fill(std::int64_t begin, std::int64_t count, char* out) const;

 private:
  const RecordLayout& layout_;
  std::vector<const Column*> columns_;
};

// All columns of the cloud as records, in the cloud's order. For Sink see sink.hpp.
class Sink;
void write_records(Sink& sink, const Cloud& cloud);
std::string records_text(const Cloud& cloud);  // the same in memory
// Rows of text, each element in the shortest form that reads back the same, ended by line feeds.
void write_rows(Sink& sink, const Cloud& cloud, char separator);

// Offsets one after the other in field order, without padding; sets `bytes`. Error where it passes
// 2^40.
void pack_offsets(RecordLayout& layout);

// A column to be: huge pages where the kernel has them; columns are written once, start to end.
base::Tensor new_column(const base::Dims& shape, base::DType type);

// Reverses the bytes of each element in place.
void swap_elements(char* data, std::int64_t count, std::int64_t element_bytes);

}  // namespace io
