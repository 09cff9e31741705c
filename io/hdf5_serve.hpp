// What is asked of the process that has an HDF5 file open.
#pragma once
#include "io/hdf5_process.hpp"

namespace io::hdf5 {

// A question: what, object, attribute, whether an element type is wanted, which. The answer to
// `data` is what was found; blocks and an empty answer follow unless the values can be taken from
// the file as they stand there.
enum class Ask : char {
  has,
  is_group,
  children,
  datasets,
  dataset,
  has_attribute,
  attribute_numbers,
  attribute_texts,
  texts,
  check_size,
  data
};

// Opens the file and answers (the first answer, empty, says that it is open) until the other end
// is gone. Closing the file is left to the end of the process.
void serve(int file, const Channel& channel);

}  // namespace io::hdf5
