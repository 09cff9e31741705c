// ZIP archives as NumPy writes them (.npz): stored or deflated members, also past 4 GiB.
#pragma once
#include <memory>

#include "io/sink.hpp"
#include "io/source.hpp"

namespace io {

struct ZipMember {
  std::string name;
  std::int64_t compressed = 0, uncompressed = 0, header_offset = 0;
  std::uint32_t crc = 0;
  int method = 0;  // 0 stored, 8 deflated
};

// The members of the central directory. Sizes are checked against the file and what deflate can
// reach.
std::vector<ZipMember> list_zip(const Source& source);
// The uncompressed bytes; the check sum is compared when the last one was read.
std::unique_ptr<ByteStream> open_zip_member(const Source& source, const ZipMember& member);

// One member, deflated or stored, as a whole archive.
void write_zip(Sink& sink, const std::string& name, const std::string& bytes, bool compressed);

}  // namespace io
