// LAS point records to columns; fed by the LAS reader and, record by record, by the LAZ reader.
#pragma once
#include <memory>

#include "io/formats/las_header.hpp"
#include "io/records.hpp"

namespace io {

class LasPoints {
 public:
  LasPoints(const LasHeader& header, std::int64_t points);
  void append(const char* records, std::int64_t count);  // header.record_bytes each
  Cloud finish();

 private:
  void add_bits(const std::string& name, int byte, int shift, int mask);
  void append_positions(const char* records, std::int64_t count);
  void append_bits(const char* records, std::int64_t count);

  struct Bits {
    std::string name;
    int byte, shift, mask;
    base::Tensor values;
  };
  const LasHeader& header_;
  std::int64_t points_, filled_ = 0;
  RecordLayout layout_;
  std::unique_ptr<RecordReader> direct_;
  std::array<base::Tensor, 3> position_;
  std::vector<Bits> bits_;  // those of one byte follow each other
};

}  // namespace io
