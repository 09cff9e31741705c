// LAS point records to columns; fed by the LAS reader and, record by record, by the LAZ reader.
#pragma once
#include <memory>

#include "io/formats/las_header.hpp"
#include "io/records.hpp"

namespace io {

class LasPoints {
 public:
  LasPoints(const LasHeader& header, std::int64_t points);
  // `count` records of header.record_bytes each as points [at, at + count); threads may put ranges
  // that do not overlap at the same time.
  void put(std::int64_t at, const char* records, std::int64_t count);
  Cloud finish();

 private:
  void add_bits(const std::string& name, int byte, int shift, int mask);
  void put_positions(std::int64_t at, const char* records, std::int64_t count);
  void put_bits(std::int64_t at, const char* records, std::int64_t count);

  struct Bits {
    std::string name;
    int byte, shift, mask;
    base::Tensor values;
  };
  const LasHeader& header_;
  std::int64_t points_;
  RecordLayout layout_;
  std::unique_ptr<RecordReader> direct_;
  std::array<base::Tensor, 3> position_;
  std::vector<Bits> bits_;  // those of one byte follow each other
};

}  // namespace io
