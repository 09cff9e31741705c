#include "io/hdf5_container.hpp"

#include <algorithm>
#include <optional>

#include "io/hdf5_file.hpp"
#include "io/hdf5_serve.hpp"
#include "io/hdf5_types.hpp"
#include "io/records.hpp"
#include "io/source.hpp"

namespace io {
namespace {

using hdf5::Ask;
using hdf5::Message;
using hdf5::StoredData;

// HDF5's tables, and names and texts as the file can hold them.
hdf5::Allowance allowance_of(const Source& source) {
  const auto bytes = static_cast<std::uint64_t>(source.size());
  return {.memory = (12 << 20) + 4 * bytes,
          .seconds = static_cast<unsigned>(1 + bytes / hdf5::kBytesASecond)};
}

}  // namespace

const bool kHasHdf5 = true;

struct Hdf5Reader::Impl {
  Source source;
  hdf5::Process process;

  explicit Impl(const std::filesystem::path& path)
      : source(path), process(hdf5::serve, source.descriptor(), allowance_of(source)) {
    process.answer();
  }

  Message answer_to(Ask what, const std::string& object, const std::string& name = "",
                    std::optional<base::DType> as = {}) {
    Message question;
    question.put(what).put(object).put(name).put(as.has_value());
    process.ask(question.put(as.value_or(base::DType::f32)));
    return process.answer();
  }

  // Asks for the values of a dataset, which take_data() or take_blocks() must then take.
  StoredData find_data(const std::string& path, std::optional<base::DType> as) {
    Message answer = answer_to(Ask::data, path, "", as);
    StoredData data{.info = answer.take<Hdf5Dataset>()};
    data.bytes = answer.take<std::uint64_t>();
    data.block_bytes = answer.take<std::uint64_t>();
    data.address = answer.take<std::int64_t>();
    // The reading process checked as much; but it has the file's damage in it.
    const auto width = static_cast<std::uint64_t>(base::bytes(as.value_or(data.info.type)));
    const std::uint64_t limit =
        std::max<std::uint64_t>(static_cast<std::uint64_t>(source.size()), 1 << 20) *
        hdf5::kMaxRatio * sizeof(double);
    ENSURE(data.bytes == hdf5::element_count(path, data.info.shape) * width &&
               data.bytes <= limit && data.block_bytes <= data.bytes,
           "HDF5: ", path, ": the reading process gives ", data.bytes, " bytes for shape ",
           hdf5::shape_text(data.info.shape));
    return data;
  }

  // All values into `out`: from the file itself where they stand there as they are wanted, else
  // from the reading process.
  void take_data(const StoredData& data, void* out) {
    auto* target = static_cast<char*>(out);
    if (data.address >= 0)
      return source.read(data.address, target, static_cast<std::int64_t>(data.bytes));
    take_blocks(data, 1, [&](std::uint64_t bytes) {
      process.receive(target, bytes);
      target += bytes;
    });
  }

  // body(bytes) takes the bytes of each block, which are a multiple of `unit`.
  template <class Body>
  void take_blocks(const StoredData& data, std::uint64_t unit, Body&& body) {
    std::uint64_t missing = data.bytes;
    while (const std::uint64_t bytes = process.next_block()) {
      ENSURE(bytes <= missing && bytes <= data.block_bytes && bytes % unit == 0,
             "HDF5: ", data.info.path, ": the reading process gives a block of ", bytes, " bytes, ",
             missing, " are missing");
      body(bytes);
      missing -= bytes;
    }
    ENSURE(missing == 0, "HDF5: ", data.info.path, ": ", missing, " of ", data.bytes,
           " bytes are missing");
  }
};

Hdf5Reader::Hdf5Reader(const std::filesystem::path& path) : impl_(std::make_unique<Impl>(path)) {}
Hdf5Reader::~Hdf5Reader() = default;
Hdf5Reader::Hdf5Reader(Hdf5Reader&&) noexcept = default;

bool Hdf5Reader::has(const std::string& object) const {
  return impl_->answer_to(Ask::has, object).take<bool>();
}

bool Hdf5Reader::is_group(const std::string& object) const {
  return impl_->answer_to(Ask::is_group, object).take<bool>();
}

std::vector<std::string> Hdf5Reader::children(const std::string& group) const {
  return impl_->answer_to(Ask::children, group).take<std::vector<std::string>>();
}

std::vector<Hdf5Dataset> Hdf5Reader::datasets() const {
  return impl_->answer_to(Ask::datasets, "").take<std::vector<Hdf5Dataset>>();
}

Hdf5Dataset Hdf5Reader::dataset(const std::string& path) const {
  return impl_->answer_to(Ask::dataset, path).take<Hdf5Dataset>();
}

bool Hdf5Reader::has_attribute(const std::string& object, const std::string& name) const {
  return impl_->answer_to(Ask::has_attribute, object, name).take<bool>();
}

std::vector<double> Hdf5Reader::attribute_numbers(const std::string& object,
                                                  const std::string& name) const {
  return impl_->answer_to(Ask::attribute_numbers, object, name).take<std::vector<double>>();
}

std::vector<std::string> Hdf5Reader::attribute_texts(const std::string& object,
                                                     const std::string& name) const {
  return impl_->answer_to(Ask::attribute_texts, object, name).take<std::vector<std::string>>();
}

std::string Hdf5Reader::attribute_text(const std::string& object, const std::string& name) const {
  const auto texts = attribute_texts(object, name);
  ENSURE(texts.size() == 1, "HDF5: attribute ", name, " of ", object, " holds ", texts.size(),
         " texts, 1 is expected");
  return texts.front();
}

std::string Hdf5Reader::read_text(const std::string& path) const {
  const auto texts = impl_->answer_to(Ask::texts, path).take<std::vector<std::string>>();
  ENSURE(texts.size() == 1, "HDF5: ", path, " holds ", texts.size(), " texts, 1 is expected");
  return texts.front();
}

template <class T>
std::vector<T> Hdf5Reader::read(const std::string& path) const {
  const StoredData data = impl_->find_data(path, base::dtype_v<T>);
  std::vector<T> values(data.bytes / sizeof(T));
  impl_->take_data(data, values.data());
  return values;
}

#include "io/hdf5_reader-inl.hpp"

base::Tensor Hdf5Reader::read_tensor(const std::string& path) const {
  const Hdf5Dataset info = dataset(path);
  ENSURE(info.shape.size() <= base::Dims::kMaxRank, "HDF5: ", path, " has shape ",
         hdf5::shape_text(info.shape), ", at most 6 axes are read");
  const StoredData data = impl_->find_data(path, {});
  base::Dims shape;
  for (const std::int64_t extent : data.info.shape) shape.push_back(extent);
  base::Tensor tensor = new_column(shape, data.info.type);
  impl_->take_data(data, tensor.data());
  return tensor;
}

void Hdf5Reader::check_size(const std::string& path) const {
  impl_->answer_to(Ask::check_size, path);
}

void Hdf5Reader::read_slabs(const std::string& path,
                            const std::function<void(const void*, std::int64_t)>& body) const {
  const StoredData data = impl_->find_data(path, {});
  if (data.bytes == 0) return impl_->take_data(data, nullptr);
  const std::uint64_t slabs =
      data.info.shape.empty() ? 1 : static_cast<std::uint64_t>(data.info.shape[0]);
  const std::uint64_t slab_bytes = data.bytes / slabs;
  if (data.address < 0) {
    std::vector<char> buffer(data.block_bytes);
    return impl_->take_blocks(data, slab_bytes, [&](std::uint64_t bytes) {
      impl_->process.receive(buffer.data(), bytes);
      body(buffer.data(), static_cast<std::int64_t>(bytes / slab_bytes));
    });
  }
  const std::uint64_t block = std::max<std::uint64_t>(kChunkBytes / slab_bytes, 1);
  std::vector<char> buffer(std::min(block, slabs) * slab_bytes);
  for (std::uint64_t begin = 0; begin < slabs; begin += block) {
    const std::uint64_t count = std::min(block, slabs - begin);
    impl_->source.read(data.address + static_cast<std::int64_t>(begin * slab_bytes), buffer.data(),
                       static_cast<std::int64_t>(count * slab_bytes));
    body(buffer.data(), static_cast<std::int64_t>(count));
  }
}

}  // namespace io
