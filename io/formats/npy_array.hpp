// From a NumPy array to a cloud, for .npy files and the members of .npz files.
#pragma once
#include "io/formats/npy_header.hpp"
#include "io/io.h"

namespace io {

// "" when the array is a cloud ([N, 3..], [H, W, 3..], or a structured one with x, y and z), else
// what it is.
std::string why_no_cloud(const NpyHeader& header, const ReadOptions& options);

// The data follow the header in the stream.
Cloud read_npy_cloud(const NpyHeader& header, ByteStream& stream, const ReadOptions& options);

// All of a plain array, row-major, float16 widened to float32.
base::Tensor read_npy_tensor(const NpyHeader& header, ByteStream& stream);

// "\x93NUMPY..." for a structured array of the cloud's columns.
std::string npy_header_text(const Cloud& cloud, std::vector<std::string>& losses);

}  // namespace io
