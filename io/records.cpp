#include "io/records.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "io/number_text.hpp"
#include "io/sink.hpp"
#include "io/visit_field.hpp"

namespace io {
namespace {

template <class Word>
Word swapped(Word word) {
  if constexpr (sizeof(Word) == 2)
    return __builtin_bswap16(word);
  else if constexpr (sizeof(Word) == 4)
    return __builtin_bswap32(word);
  else if constexpr (sizeof(Word) == 8)
    return __builtin_bswap64(word);
  else
    return word;
}

// One element a record. Compilers keep the loads and stores single moves whatever the alignment.
template <class Word, bool kSwap>
void gather(const char* records, std::int64_t stride, std::int64_t count, char* out) {
  for (std::int64_t i = 0; i < count; ++i) {
    Word word;
    std::memcpy(&word, records + i * stride, sizeof(Word));
    if constexpr (kSwap) word = swapped(word);
    std::memcpy(out + i * static_cast<std::int64_t>(sizeof(Word)), &word, sizeof(Word));
  }
}

// Records of kFields 4-byte fields and nothing else, all columns in one pass: compilers make
// shuffles of it.
template <int kFields>
void gather_words(const std::uint32_t* __restrict records, std::int64_t count,
                  std::uint32_t* const* columns) {
  if constexpr (kFields == 4) {
    std::uint32_t* __restrict a = columns[0], * __restrict b = columns[1], * __restrict c = columns[2], * __restrict d = columns[3];
    for (std::int64_t i = 0; i < count; ++i) {
      a[i] = records[4 * i];
      b[i] = records[4 * i + 1];
      c[i] = records[4 * i + 2];
      d[i] = records[4 * i + 3];
    }
  } else {
    std::uint32_t* __restrict a = columns[0], * __restrict b = columns[1], * __restrict c = columns[2];
    for (std::int64_t i = 0; i < count; ++i) {
      a[i] = records[3 * i];
      b[i] = records[3 * i + 1];
      c[i] = records[3 * i + 2];
    }
  }
}

template <class Word>
void scatter(const char* values, std::int64_t stride, std::int64_t count, char* out) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::memcpy(out + i * stride, values + i * static_cast<std::int64_t>(sizeof(Word)),
                sizeof(Word));
  }
}

template <class F>
void with_word(std::int64_t bytes, F&& body) {
  switch (bytes) {
    case 1:
      return body.template operator()<std::uint8_t>();
    case 2:
      return body.template operator()<std::uint16_t>();
    case 4:
      return body.template operator()<std::uint32_t>();
    default:
      return body.template operator()<std::uint64_t>();
  }
}

}  // namespace

namespace {

// Columns are written once from start to end: with 4 KiB pages the kernel's page faults take as
// long as the copying.
void advise_huge_pages(base::Tensor& tensor) {
  constexpr std::uintptr_t kHuge = std::uintptr_t{2} << 20;
  const auto begin = reinterpret_cast<std::uintptr_t>(tensor.data());
  const std::uintptr_t first = (begin + kHuge - 1) / kHuge * kHuge;
  const std::uintptr_t last =
      (begin + static_cast<std::uintptr_t>(tensor.nbytes())) / kHuge * kHuge;
  if (first < last) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
}

}  // namespace

base::Tensor new_column(const base::Dims& shape, base::DType type) {
  base::Tensor column = base::Tensor::empty(shape, type);
  advise_huge_pages(column);
  return column;
}

void swap_elements(char* data, std::int64_t count, std::int64_t element_bytes) {
  with_word(element_bytes, [&]<class Word>() {
    gather<Word, true>(data, static_cast<std::int64_t>(sizeof(Word)), count, data);
  });
}

void pack_offsets(RecordLayout& layout) {
  layout.bytes = 0;
  for (RecordField& field : layout.fields) {
    field.offset = layout.bytes;
    const std::int64_t element = base::bytes(field.type);
    ENSURE(field.count >= 0 && field.count <= (std::int64_t{1} << 40) / element, "field ",
           field.name, " claims ", field.count, " elements a point");
    layout.bytes += field.count * element;
    ENSURE(layout.bytes <= std::int64_t{1} << 40, "a point claims ", layout.bytes, " bytes");
  }
}

RecordReader::RecordReader(const RecordLayout& layout, std::int64_t points)
    : layout_(layout), points_(points) {
  for (const RecordField& field : layout.fields) {
    if (field.is_skipped) {
      columns_.emplace_back();
    } else if (field.count == 1) {
      columns_.push_back(new_column({points}, field.type));
    } else {
      columns_.push_back(new_column({points, field.count}, field.type));
    }
  }
}

bool RecordReader::put_words(std::int64_t at, const char* records, std::int64_t count) {
  const std::size_t fields = columns_.size();
  const bool aligned = reinterpret_cast<std::uintptr_t>(records) % alignof(std::uint32_t) == 0;
  if ((fields != 3 && fields != 4) || layout_.bytes != 4 * static_cast<std::int64_t>(fields) ||
      layout_.swap_bytes || !aligned)
    return false;
  std::uint32_t* columns[4] = {};
  for (std::size_t f = 0; f < fields; ++f) {
    const RecordField& field = layout_.fields[f];
    if (field.is_skipped || field.count != 1 || base::bytes(field.type) != 4 ||
        field.offset != 4 * static_cast<std::int64_t>(f))
      return false;
    columns[f] = static_cast<std::uint32_t*>(columns_[f].data()) + at;
  }
  const auto* words = reinterpret_cast<const std::uint32_t*>(records);
  if (fields == 4)
    gather_words<4>(words, count, columns);
  else
    gather_words<3>(words, count, columns);
  return true;
}

void RecordReader::append(const char* records, std::int64_t count) {
  put(filled_, records, count);
  filled_ += count;
}

void RecordReader::put(std::int64_t at, const char* records, std::int64_t count) {
  if (put_words(at, records, count)) return;
  for (std::size_t f = 0; f < columns_.size(); ++f) {
    const RecordField& field = layout_.fields[f];
    if (field.is_skipped || count == 0) continue;
    const std::int64_t element = base::bytes(field.type), row = element * field.count;
    char* out = static_cast<char*>(columns_[f].data()) + at * row;
    const char* in = records + field.offset;
    if (field.count == 1) {
      with_word(element, [&]<class Word>() {
        if (layout_.swap_bytes)
          gather<Word, true>(in, layout_.bytes, count, out);
        else
          gather<Word, false>(in, layout_.bytes, count, out);
      });
      continue;
    }
    for (std::int64_t i = 0; i < count; ++i) {
      std::memcpy(out + i * row, in + i * layout_.bytes, static_cast<std::size_t>(row));
    }
    if (layout_.swap_bytes) swap_elements(out, count * field.count, element);
  }
}

void RecordReader::read_all(ByteStream& stream) {
  const std::int64_t record = std::max<std::int64_t>(layout_.bytes, 1);
  const std::int64_t block = std::max<std::int64_t>(kChunkBytes / record, 1);
  std::vector<char> buffer(static_cast<std::size_t>(std::min(block, points_ - filled_) * record));
  while (filled_ < points_) {
    const std::int64_t count = std::min(block, points_ - filled_);
    stream.read(buffer.data(), count * layout_.bytes);
    append(buffer.data(), count);
  }
}

void RecordReader::move_into(Cloud& cloud) {
  for (std::size_t f = 0; f < columns_.size(); ++f) {
    const RecordField& field = layout_.fields[f];
    if (!field.is_skipped)
      cloud.add(Field{field.name, field.type, field.count, ""}, std::move(columns_[f]));
  }
}

RecordWriter::RecordWriter(const RecordLayout& layout, const Cloud& cloud) : layout_(layout) {
  for (const RecordField& field : layout.fields) {
    const Column& column = cloud.get(field.name);
    ENSURE(column.field.type == field.type && column.field.count == field.count, "field ",
           field.name, " is ", base::name(column.field.type), ", records of ",
           base::name(field.type), " were asked for");
    columns_.push_back(&column);
  }
}

void RecordWriter::fill(std::int64_t begin, std::int64_t count, char* out) const {
  for (std::size_t f = 0; f < columns_.size(); ++f) {
    const RecordField& field = layout_.fields[f];
    const std::int64_t element = base::bytes(field.type), row = element * field.count;
    const char* in = static_cast<const char*>(columns_[f]->values.data()) + begin * row;
    if (field.count == 1) {
      with_word(element,
                [&]<class Word>() { scatter<Word>(in, layout_.bytes, count, out + field.offset); });
      continue;
    }
    for (std::int64_t i = 0; i < count; ++i) {
      std::memcpy(out + field.offset + i * layout_.bytes, in + i * row,
                  static_cast<std::size_t>(row));
    }
  }
}

namespace {

template <class Out>
void emit_records(const Cloud& cloud, Out&& out) {
  RecordLayout layout;
  for (const auto& column : cloud.columns()) {
    layout.fields.push_back(
        {.name = column->field.name, .type = column->field.type, .count = column->field.count});
  }
  pack_offsets(layout);
  const RecordWriter writer(layout, cloud);
  const std::int64_t block = std::max<std::int64_t>(kChunkBytes / layout.bytes, 1);
  std::string buffer(static_cast<std::size_t>(std::min(block, cloud.size()) * layout.bytes), '\0');
  for (std::int64_t begin = 0; begin < cloud.size(); begin += block) {
    const std::int64_t count = std::min(block, cloud.size() - begin);
    writer.fill(begin, count, buffer.data());
    out(std::string_view(buffer).substr(0, static_cast<std::size_t>(count * layout.bytes)));
  }
}

}  // namespace

void write_records(Sink& sink, const Cloud& cloud) {
  emit_records(cloud, [&](std::string_view bytes) { sink.write(bytes); });
}

std::string records_text(const Cloud& cloud) {
  std::string text;
  emit_records(cloud, [&](std::string_view bytes) { text += bytes; });
  return text;
}

void write_rows(Sink& sink, const Cloud& cloud, char separator) {
  constexpr std::int64_t kElementChars = kMaxNumberChars + 1;
  std::int64_t elements = 0;
  for (const auto& column : cloud.columns()) elements += column->field.count;
  if (elements == 0) return;
  const std::int64_t block = std::max<std::int64_t>(kChunkBytes / (elements * kElementChars), 1);
  std::vector<char> text(static_cast<std::size_t>(block * elements * kElementChars));
  for (std::int64_t begin = 0; begin < cloud.size(); begin += block) {
    const std::int64_t end = std::min(begin + block, cloud.size());
    char* out = text.data();
    for (std::int64_t i = begin; i < end; ++i) {
      for (const auto& column : cloud.columns()) {
        visit_field_type(column->field.type, [&]<class T>() {
          const std::int64_t count = column->field.count;
          const T* const values = static_cast<const T*>(column->values.data()) + i * count;
          for (std::int64_t e = 0; e < count; ++e) {
            if constexpr (std::is_floating_point_v<T>)
              out = write_number(out, values[e]);
            else if constexpr (std::is_signed_v<T>)
              out = write_number(out, std::int64_t{values[e]});
            else
              out = write_number(out, std::uint64_t{values[e]});
            *out++ = separator;
          }
        });
      }
      out[-1] = '\n';
    }
    sink.write({text.data(), static_cast<std::size_t>(out - text.data())});
  }
}

}  // namespace io
