// The HDF5 container of a build without HDF5: the same calls, each a clear error.
#include "io/hdf5_container.hpp"

namespace io {
namespace {

[[noreturn]] void refuse() { base::fail("HDF5: sparseconv was built without HDF5"); }

}  // namespace

const bool kHasHdf5 = false;

struct Hdf5Reader::Impl {};
struct Hdf5Writer::Impl {};

Hdf5Reader::Hdf5Reader(const std::filesystem::path&) { refuse(); }
Hdf5Reader::~Hdf5Reader() = default;
Hdf5Reader::Hdf5Reader(Hdf5Reader&&) noexcept = default;
bool Hdf5Reader::has(const std::string&) const { refuse(); }
bool Hdf5Reader::is_group(const std::string&) const { refuse(); }
std::vector<std::string> Hdf5Reader::children(const std::string&) const { refuse(); }
std::vector<Hdf5Dataset> Hdf5Reader::datasets() const { refuse(); }
Hdf5Dataset Hdf5Reader::dataset(const std::string&) const { refuse(); }
bool Hdf5Reader::has_attribute(const std::string&, const std::string&) const { refuse(); }
std::vector<double> Hdf5Reader::attribute_numbers(const std::string&, const std::string&) const {
  refuse();
}
std::string Hdf5Reader::attribute_text(const std::string&, const std::string&) const { refuse(); }
std::vector<std::string> Hdf5Reader::attribute_texts(const std::string&, const std::string&) const {
  refuse();
}
template <class T>
std::vector<T> Hdf5Reader::read(const std::string&) const {
  refuse();
}
base::Tensor Hdf5Reader::read_tensor(const std::string&) const { refuse(); }
void Hdf5Reader::read_slabs(const std::string&,
                            const std::function<void(const void*, std::int64_t)>&) const {
  refuse();
}
void Hdf5Reader::check_size(const std::string&) const { refuse(); }
std::string Hdf5Reader::read_text(const std::string&) const { refuse(); }

#include "io/hdf5_reader-inl.hpp"

Hdf5Writer::Hdf5Writer(const std::filesystem::path&) { refuse(); }
Hdf5Writer::~Hdf5Writer() = default;
Hdf5Writer::Hdf5Writer(Hdf5Writer&&) noexcept = default;
void Hdf5Writer::set_compression(int) { refuse(); }
template <class T>
void Hdf5Writer::write(const std::string&, std::span<const T>, const std::vector<std::int64_t>&) {
  refuse();
}
void Hdf5Writer::write_tensor(const std::string&, const base::Tensor&) { refuse(); }
void Hdf5Writer::write_text(const std::string&, const std::string&) { refuse(); }
void Hdf5Writer::set_attribute(const std::string&, const std::string&, std::int64_t) { refuse(); }
void Hdf5Writer::set_attribute(const std::string&, const std::string&,
                               const std::vector<std::int64_t>&) {
  refuse();
}
void Hdf5Writer::set_attribute(const std::string&, const std::string&, const std::vector<double>&) {
  refuse();
}
void Hdf5Writer::set_attribute(const std::string&, const std::string&, const std::string&) {
  refuse();
}
void Hdf5Writer::set_attribute(const std::string&, const std::string&,
                               const std::vector<std::string>&) {
  refuse();
}
void Hdf5Writer::create_group(const std::string&) { refuse(); }
void Hdf5Writer::commit(Commit) { refuse(); }

#include "io/hdf5_writer-inl.hpp"

}  // namespace io
