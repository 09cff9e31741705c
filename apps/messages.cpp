#include "apps/messages.hpp"

#include <fmt/format.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>

namespace apps {
namespace {

using Clock = std::chrono::steady_clock;

struct Bar {
  std::string what;
  std::int64_t total = 0, done = 0;
  Clock::time_point start = Clock::now(), drawn = {};
};

// Lines and the bar share stderr, so one sink owns both.
class StderrSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  StderrSink() : is_terminal_(isatty(STDERR_FILENO) == 1) {}

  void start(std::string what, std::int64_t total) {
    const std::lock_guard lock(mutex_);
    bar_ = Bar{.what = std::move(what), .total = total};
  }
  void advance(std::int64_t by) {
    const std::lock_guard lock(mutex_);
    if (!bar_) return;
    bar_->done += by;
    const auto pause = is_terminal_ ? std::chrono::milliseconds(100) : std::chrono::seconds(5);
    const auto now = Clock::now();
    const bool is_due = bar_->drawn == Clock::time_point{} ? now - bar_->start >= pause
                                                           : now - bar_->drawn >= pause;
    if (!is_due) return;
    bar_->drawn = now;
    draw();
  }
  void wipe_line() {
    const std::lock_guard lock(mutex_);
    wipe();
    std::fflush(stderr);
  }
  void finish() {
    const std::lock_guard lock(mutex_);
    wipe();
    bar_.reset();
    std::fflush(stderr);
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    wipe();
    std::fwrite(message.payload.data(), 1, message.payload.size(), stderr);
    std::fputc('\n', stderr);
    if (is_terminal_ && bar_ && bar_->drawn != Clock::time_point{}) draw();
  }
  void flush_() override { std::fflush(stderr); }

 private:
  void draw() {
    const double seconds = std::chrono::duration<double>(Clock::now() - bar_->start).count();
    const double share =
        bar_->total > 0 ? static_cast<double>(bar_->done) / static_cast<double>(bar_->total) : 1.0;
    const std::string rest =
        share > 0 ? fmt::format(", {:.0f} s left", seconds / share - seconds) : std::string();
    const std::string counts = fmt::format("{} {} of {}", bar_->what, bar_->done, bar_->total);
    if (!is_terminal_) {
      fmt::print(stderr, "{}{}\n", counts, rest);
      return;
    }
    constexpr int kWidth = 30;
    const auto filled = static_cast<std::size_t>(std::clamp(share, 0.0, 1.0) * kWidth);
    fmt::print(stderr, "\r\033[K[{}{}] {}{}", std::string(filled, '#'),
               std::string(kWidth - filled, '.'), counts, rest);
    std::fflush(stderr);
  }
  void wipe() {
    if (is_terminal_ && bar_ && bar_->drawn != Clock::time_point{}) std::fputs("\r\033[K", stderr);
  }

  const bool is_terminal_;
  std::optional<Bar> bar_;
};

StderrSink& sink() {
  static const auto shared = std::make_shared<StderrSink>();
  return *shared;
}

spdlog::logger& logger() {
  static spdlog::logger log = [] {
    spdlog::logger made("sparseconv", std::shared_ptr<StderrSink>(&sink(), [](StderrSink*) {}));
    made.flush_on(spdlog::level::info);
    return made;
  }();
  return log;
}

}  // namespace

void report_error(std::string_view file, std::string_view what) {
  logger().error("sparseconv: {}: {}", file, what);
}
void report_error(std::string_view what) { logger().error("sparseconv: {}", what); }
void report_warning(std::string_view file, std::string_view what) {
  logger().warn("sparseconv: warning: {}: {}", file, what);
}
void report_note(std::string_view text) { logger().info("{}", text); }

void wipe_progress() { sink().wipe_line(); }

Progress::Progress(std::string what, std::int64_t total) { sink().start(std::move(what), total); }
Progress::~Progress() { sink().finish(); }
void Progress::advance(std::int64_t by) { sink().advance(by); }

}  // namespace apps
