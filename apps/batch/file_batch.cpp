#include "apps/batch/file_batch.hpp"

#include "apps/batch/interrupt.hpp"
#include "apps/command.hpp"

namespace apps {
namespace fs = std::filesystem;

FileBatch::FileBatch(FileBatchOptions options)
    : options_(std::move(options)), report_(options_.command), writers_(options_.writers) {
  report_.failed(options_.inputs.failures);
  if (!options_.folder.empty()) {
    std::error_code error;
    fs::create_directories(options_.folder, error);
    ENSURE(!error, text_of(options_.folder), ": cannot be made: ", error.message());
    log_ = std::make_unique<ResultLog>(options_.folder);
  }
  for (std::size_t file = 0; file < options_.inputs.files.size(); ++file) {
    if (log_ && options_.resume && log_->has(output(file), signature_of(file))) {
      report_.skipped(input(file), output(file));
    } else {
      todo_.push_back(file);
    }
  }
  watch_interrupts();
  progress_ = std::make_unique<Progress>(options_.command, static_cast<std::int64_t>(todo_.size()));
}

bool FileBatch::is_stopped() const { return is_full_ || is_interrupted(); }

std::string FileBatch::signature_of(std::size_t file) const {
  return digest(options_.signature + '\n' + file_stamp(input(file)));
}

void FileBatch::store(std::size_t file, std::function<Tell()> write) {
  writers_.push([this, file, write = std::move(write)]() -> std::function<void()> {
    if (is_full_) return [] {};
    Tell tell;
    std::string error;
    try {
      const fs::path& result = output(file);
      if (result.has_parent_path()) fs::create_directories(result.parent_path());
      tell = write();
    } catch (...) {
      error = current_error();
    }
    return [this, file, tell = std::move(tell), error = std::move(error)] {
      tell_one(file, tell, error);
    };
  });
}

void FileBatch::fail(std::size_t file, std::string message) {
  writers_.push([this, file, message = std::move(message)] {
    return [this, file, message] {
      if (is_full_) return;
      report_.failed(text_of(input(file)), message);
      ++finished_;
      progress_->advance();
    };
  });
}

void FileBatch::tell_one(std::size_t file, const Tell& tell, std::string error) {
  const fs::path& result = output(file);
  if (error.empty()) {
    try {
      Json entry = tell();
      if (log_) log_->add(result, signature_of(file));
      report_.done(std::move(entry));
    } catch (...) {
      error = current_error();
    }
  }
  if (!error.empty()) {
    if (is_full_) return;  // said of the file before
    const std::string message = (result.empty() ? "" : text_of(result) + ": ") + error;
    report_.failed(text_of(input(file)), message);
    is_full_ = is_output_full(result, message);
  }
  ++finished_;
  progress_->advance();
}

int FileBatch::close(bool as_json, const Json& more) {
  writers_.finish();
  progress_.reset();
  if (finished_ < todo_.size()) {
    const char* reason = is_full_ ? "nothing more can be written" : "interrupted";
    report_.stopped(std::string(reason) + (log_ ? "; the same command with --resume goes on" : ""),
                    static_cast<std::int64_t>(todo_.size() - finished_));
  }
  if (as_json) {
    Json document = report_.document();
    document.update(more);
    print_json(document);
  }
  return report_.close();
}

}  // namespace apps
