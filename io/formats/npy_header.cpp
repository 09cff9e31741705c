#include "io/formats/npy_header.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "io/number_text.hpp"

namespace io {
namespace {

constexpr std::int64_t kMaxHeaderBytes = 1 << 20;
constexpr int kMaxNesting = 8;

// A value of the Python literal in the header: text, number, or a list of values (also tuples).
struct Literal {
  enum class Kind { text, number, boolean, list, dictionary } kind = Kind::list;
  std::string text;
  std::int64_t number = 0;
  std::vector<Literal> items;  // of a dictionary: key, value, key, value
};

class LiteralParser {
 public:
  explicit LiteralParser(std::string_view text) : text_(text) {}
  Literal parse() { return value(0); }

 private:
  [[noreturn]] void fail() const {
    base::fail("NPY header: ", quote(text_.substr(std::min(position_, text_.size()))),
               " is no Python literal, at character ", position_);
  }
  void skip_blanks() {
    while (position_ < text_.size() &&
           (text_[position_] == ' ' || text_[position_] == '\n' || text_[position_] == '\t'))
      ++position_;
  }
  char peek() {
    skip_blanks();
    if (position_ >= text_.size()) fail();
    return text_[position_];
  }
  bool take(char c) {
    if (peek() != c) return false;
    ++position_;
    return true;
  }
  Literal value(int depth) {
    if (depth > kMaxNesting) fail();
    const char c = peek();
    if (c == '{') return dictionary(depth);
    if (c == '(' || c == '[') return list(depth, c == '(' ? ')' : ']');
    if (c == '\'' || c == '"') return string();
    return word();
  }
  Literal dictionary(int depth) {
    Literal result{.kind = Literal::Kind::dictionary};
    ++position_;
    while (!take('}')) {
      result.items.push_back(value(depth + 1));
      if (!take(':')) fail();
      result.items.push_back(value(depth + 1));
      if (!take(',') && peek() != '}') fail();
    }
    return result;
  }
  Literal list(int depth, char close) {
    Literal result;
    ++position_;
    while (!take(close)) {
      result.items.push_back(value(depth + 1));
      if (!take(',') && peek() != close) fail();
    }
    return result;
  }
  Literal string() {
    const char quote = text_[position_++];
    const auto end = text_.find(quote, position_);
    if (end == std::string_view::npos) fail();
    Literal result{.kind = Literal::Kind::text,
                   .text = std::string(text_.substr(position_, end - position_))};
    position_ = end + 1;
    return result;
  }
  Literal word() {
    const std::size_t begin = position_;
    while (position_ < text_.size() &&
           std::string_view(",:)]} \n\t").find(text_[position_]) == std::string_view::npos)
      ++position_;
    std::string word(text_.substr(begin, position_ - begin));
    if (word == "True" || word == "False")
      return {.kind = Literal::Kind::boolean, .number = word == "True"};
    if (word.ends_with('L')) word.pop_back();  // Python 2
    Literal result{.kind = Literal::Kind::number, .text = word};
    if (!parse_count(word, result.number)) fail();
    return result;
  }

  std::string_view text_;
  std::size_t position_ = 0;
};

const Literal* find(const Literal& dictionary, std::string_view key) {
  for (std::size_t i = 0; i + 1 < dictionary.items.size(); i += 2) {
    if (dictionary.items[i].text == key) return &dictionary.items[i + 1];
  }
  return nullptr;
}

// What an element type such as <f4 means. No type: text or padding of `bytes`.
struct ElementType {
  std::optional<base::DType> type;
  std::int64_t bytes = 0;
  bool is_big = false;
};

ElementType element_type(const std::string& code) {
  using enum base::DType;
  const auto fail = [&] {
    base::fail("NPY header: element type (dtype) ", quote(code), " is not read");
  };
  std::string_view rest = code;
  char order = '|';
  if (!rest.empty() && std::string_view("<>=|").find(rest[0]) != std::string_view::npos) {
    order = rest[0];
    rest.remove_prefix(1);
  }
  if (rest.empty()) fail();
  const char kind = rest[0];
  if (kind == 'O') base::fail("NPY header: dtype object is a pickle, which is never loaded");
  std::int64_t size = 0;
  if (!parse_count(rest.substr(1), size) || size < 0 || size > (std::int64_t{1} << 32)) fail();
  ElementType result{.bytes = size, .is_big = order == '>'};
  if (kind == 'S' || kind == 'V' || kind == 'a') return result;
  if (kind == 'U') {
    result.bytes = 4 * size;
    return result;
  }
  if (kind == 'f' && size == 2) result.type = f16;
  if (kind == 'f' && size == 4) result.type = f32;
  if (kind == 'f' && size == 8) result.type = f64;
  if ((kind == 'b' || kind == 'u') && size == 1) result.type = u8;
  if (kind == 'u' && size == 2) result.type = u16;
  if (kind == 'u' && size == 4) result.type = u32;
  if (kind == 'u' && size == 8) result.type = u64;
  if (kind == 'i' && size == 1) result.type = i8;
  if (kind == 'i' && size == 2) result.type = i16;
  if (kind == 'i' && size == 4) result.type = i32;
  if (kind == 'i' && size == 8) result.type = i64;
  if (!result.type) fail();
  return result;
}

std::int64_t checked_product(const std::vector<std::int64_t>& shape, const char* what) {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) {
    ENSURE(extent >= 0 && (extent == 0 || product <= (std::int64_t{1} << 60) / extent),
           "NPY header: ", what, " ", shape_text(shape), " is out of range");
    product *= extent;
  }
  return product;
}

std::vector<std::int64_t> shape_of(const Literal& literal) {
  std::vector<std::int64_t> shape;
  const auto add = [&](const Literal& item) {
    ENSURE(item.kind == Literal::Kind::number, "NPY header: a shape holds whole numbers");
    shape.push_back(item.number);
  };
  if (literal.kind == Literal::Kind::list)
    std::for_each(literal.items.begin(), literal.items.end(), add);
  else
    add(literal);
  return shape;
}

void add_field(NpyHeader& header, const Literal& member, std::optional<bool>& is_big) {
  const auto is_text = [](const Literal& item) { return item.kind == Literal::Kind::text; };
  ENSURE(member.kind == Literal::Kind::list &&
             (member.items.size() == 2 || member.items.size() == 3) && is_text(member.items[1]) &&
             (is_text(member.items[0]) || member.items[0].kind == Literal::Kind::list),
         "NPY header: only members of simple types are read");
  const Literal& name = member.items[0];  // or (title, name)
  ENSURE(is_text(name) || (name.items.size() == 2 && is_text(name.items[1])),
         "NPY header: a member without a name");
  const ElementType element = element_type(member.items[1].text);
  RecordField field{.name = is_text(name) ? name.text : name.items[1].text};
  if (member.items.size() == 3)
    field.count = checked_product(shape_of(member.items[2]), "member shape");
  if (element.type) {
    field.type = *element.type;
    if (base::bytes(field.type) > 1) {
      ENSURE(!is_big || *is_big == element.is_big,
             "NPY header: members of both byte orders are not read");
      is_big = element.is_big;
    }
  } else {
    ENSURE(element.bytes == 0 || field.count <= (std::int64_t{1} << 40) / element.bytes,
           "NPY header: member ", quote(field.name), " is too large");
    if (!field.name.empty() && element.bytes > 0)
      header.text_fields.push_back(valid_utf8(field.name));
    field.type = base::DType::u8;
    field.count *= element.bytes;
    field.is_skipped = true;
  }
  if (field.count == 0) field.is_skipped = true;
  header.element.fields.push_back(std::move(field));
}

void fill_element(NpyHeader& header, const Literal& descr) {
  std::optional<bool> is_big;
  if (descr.kind == Literal::Kind::text) {
    const ElementType element = element_type(descr.text);
    ENSURE(element.type.has_value(), "NPY header: element type (dtype) ", quote(descr.text),
           " holds no numbers");
    header.element.fields.push_back({.name = "", .type = *element.type});
    if (element.bytes > 1) is_big = element.is_big;
  } else {
    ENSURE(descr.kind == Literal::Kind::list && !descr.items.empty(),
           "NPY header: descr is no element type");
    header.is_structured = true;
    for (const Literal& member : descr.items) add_field(header, member, is_big);
  }
  header.element.swap_bytes =
      is_big.value_or(false) != (std::endian::native == std::endian::big) && is_big.has_value();
  pack_offsets(header.element);
}

}  // namespace

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + (shape.size() == 1 ? ",)" : ")");
}

NpyHeader read_npy_header(ByteStream& stream) {
  char magic[8];
  ENSURE(stream.remaining() >= 10, "NPY: ", stream.remaining(), " bytes are no header");
  stream.read(magic, 8);
  ENSURE(std::memcmp(magic, "\x93NUMPY", 6) == 0, "NPY: the signature is missing");
  const int version = static_cast<unsigned char>(magic[6]);
  ENSURE(version >= 1 && version <= 3, "NPY: version ", version, " is not known");
  unsigned char length_bytes[4] = {};
  ENSURE(stream.remaining() >= 4, "NPY: the file ends inside the header");
  stream.read(length_bytes, version == 1 ? 2 : 4);
  std::int64_t length = 0;
  for (int i = 3; i >= 0; --i) length = length << 8 | length_bytes[i];
  ENSURE(length <= stream.remaining() && length <= kMaxHeaderBytes, "NPY: the header claims ",
         length, " bytes, ", stream.remaining(), " are left");
  std::string text(static_cast<std::size_t>(length), '\0');
  stream.read(text.data(), length);
  const Literal dictionary = LiteralParser(text).parse();
  const Literal *descr = find(dictionary, "descr"), *order = find(dictionary, "fortran_order"),
                *shape = find(dictionary, "shape");
  ENSURE(dictionary.kind == Literal::Kind::dictionary && descr && order && shape,
         "NPY header: descr, fortran_order or shape is missing");
  NpyHeader header;
  fill_element(header, *descr);
  header.is_fortran = order->number != 0;
  header.shape = shape_of(*shape);
  header.elements = checked_product(header.shape, "shape");
  const std::int64_t bytes = std::max<std::int64_t>(header.element.bytes, 1);
  ENSURE(header.elements <= stream.remaining() / bytes, "NPY: shape ", shape_text(header.shape),
         " of ", bytes, "-byte elements claims more than the ", stream.remaining(),
         " bytes that follow the header");
  return header;
}

}  // namespace io
