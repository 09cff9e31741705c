// A batch of files: one result a file, written on threads of their own while the next files are
// read and computed, and told of in order. A bad file costs only itself; a full disk or Ctrl-C ends
// the batch in a state that --resume takes up.
//
//   FileBatch batch({.command = "run", .inputs = inputs, .outputs = paths, .folder = dir,
//   .signature = options, .resume = true}); for (std::size_t file : batch.todo()) { ...
//   batch.store(file, [=] { write(...); return [=] { return Json{...}; }; }); }
//   return batch.close(as_json);
#pragma once
#include <atomic>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "apps/batch/inputs.hpp"
#include "apps/batch/pipeline.hpp"
#include "apps/batch/report.hpp"
#include "apps/batch/result_log.hpp"
#include "apps/messages.hpp"

namespace apps {

struct FileBatchOptions {
  std::string command;  // for messages
  Inputs inputs;
  std::vector<std::filesystem::path> outputs;  // one a file
  std::filesystem::path folder;  // where the log of finished results is; "" keeps none
  std::string signature;         // of everything but the input that decides what results hold
  bool resume = false;           // skip inputs whose result is complete and has the same signature
  int writers = 1;               // results written at a time
};

class FileBatch {
 public:
  explicit FileBatch(FileBatchOptions options);

  const std::vector<std::size_t>& todo() const { return todo_; }  // files to do, ascending
  const std::filesystem::path& input(std::size_t file) const {
    return options_.inputs.files[file].path;
  }
  const std::filesystem::path& output(std::size_t file) const { return options_.outputs[file]; }

  // Says in order what is to be said of a result, and gives its entry for "files".
  using Tell = std::function<Json()>;
  // Each file of todo() is given to exactly one of these, in order, unless is_stopped(). `write`
  // makes the result at output(file); it runs on a writer's thread, beside that of other files.
  void store(std::size_t file, std::function<Tell()> write);
  void fail(std::size_t file, std::string message);
  bool is_stopped() const;  // nothing more can be written, or Ctrl-C

  // Waits for the writer, says how it went, adds `more` to the document printed where `as_json`;
  // the exit status.
  int close(bool as_json, const Json& more = Json::object());

 private:
  void tell_one(std::size_t file, const Tell& tell, std::string error);
  std::string signature_of(std::size_t file) const;

  FileBatchOptions options_;
  std::vector<std::size_t> todo_;
  BatchReport report_;
  std::unique_ptr<ResultLog> log_;
  std::unique_ptr<Progress> progress_;
  std::size_t finished_ = 0;  // told of
  std::atomic<bool> is_full_{false};
  OrderedWorkers writers_;  // last: its threads use the members above
};

}  // namespace apps
