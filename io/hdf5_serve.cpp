// The reading process's side: questions of hdf5_container.cpp, answered from the open file.
#include "io/hdf5_serve.hpp"

#include <new>

#include "io/hdf5_file.hpp"

namespace io::hdf5 {
namespace {

void send_data(const File& file, const StoredData& data, base::DType as, const Channel& channel) {
  Message found;
  found.put(data.info).put(data.bytes).put(data.block_bytes).put(data.address);
  if (!channel.send(Tag::answer, found.bytes()) || data.address >= 0) return;
  allow_for(data.bytes, data.block_bytes);
  file.read_blocks(data, as, [&](const char* values, std::uint64_t bytes) {
    ENSURE(channel.send(Tag::block, {values, bytes}), "HDF5: nobody takes the data any more");
  });
  channel.send(Tag::answer, {});
}

Message answer_of(const File& file, Ask what, const std::string& object, const std::string& name) {
  Message answer;
  switch (what) {
    case Ask::has:
      return answer.put(file.exists(object)), answer;
    case Ask::is_group:
      return answer.put(file.is_group(object)), answer;
    case Ask::children:
      return answer.put(file.names_in(object)), answer;
    case Ask::datasets:
      return answer.put(file.datasets()), answer;
    case Ask::dataset:
      return answer.put(file.dataset(object)), answer;
    case Ask::has_attribute:
      return answer.put(file.has_attribute(object, name)), answer;
    case Ask::attribute_numbers:
      return answer.put(file.attribute_numbers(object, name)), answer;
    case Ask::attribute_texts:
      return answer.put(file.attribute_texts(object, name)), answer;
    case Ask::texts:
      return answer.put(file.texts(object)), answer;
    case Ask::check_size:
      file.find_data(object, {});
      return answer;
    case Ask::data:
      break;
  }
  return answer;
}

void answer_next(const File& file, Message question, const Channel& channel) {
  const auto what = question.take<Ask>();
  const auto object = question.take<std::string>(), name = question.take<std::string>();
  const bool has_type = question.take<bool>();
  const auto wanted = question.take<base::DType>();
  if (what != Ask::data) {
    channel.send(Tag::answer, answer_of(file, what, object, name).bytes());
    return;
  }
  std::optional<base::DType> as;
  if (has_type) as = wanted;
  const StoredData data = file.find_data(object, as);
  send_data(file, data, as.value_or(data.info.type), channel);
}

// Runs `action`; an error goes to the other side. False then.
template <class Action>
bool reported(const Channel& channel, Action&& action) {
  std::string text;
  try {
    action();
    return true;
  } catch (const std::bad_alloc&) {
    text = "HDF5: reading takes more memory than a file of this size explains";
  } catch (const std::exception& error) {
    text = error.what();
  }
  channel.send(Tag::error, text);
  return false;
}

}  // namespace

void serve(int descriptor, const Channel& channel) {
  std::optional<File> file;
  const auto open = [&] {
    file.emplace(descriptor);
    channel.send(Tag::answer, {});
  };
  if (!reported(channel, open)) return;
  Tag tag{};
  for (std::uint64_t bytes = 0; channel.receive(tag, bytes);) {
    std::vector<char> question(bytes);
    if (!channel.receive(question.data(), bytes)) return;
    reported(channel, [&] { answer_next(*file, Message(std::move(question)), channel); });
  }
}

}  // namespace io::hdf5
