#pragma once
#include "io/io.h"
#include "io/sink.hpp"

namespace io {

std::vector<std::string> write_las(Sink& sink, const Cloud& cloud, const WriteOptions& options);

}  // namespace io
