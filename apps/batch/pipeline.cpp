#include "apps/batch/pipeline.hpp"

#include <new>
#include <utility>

namespace apps {

std::string current_error() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return "out of memory";
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "unknown error";
  }
}

SerialWorker::SerialWorker(std::size_t capacity)
    : capacity_(capacity), thread_([this] { work(); }) {}

SerialWorker::~SerialWorker() {
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void SerialWorker::push(std::function<void()> job) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return jobs_.size() < capacity_ || failure_; });
  if (failure_) return;  // finish() tells
  jobs_.push(std::move(job));
  changed_.notify_all();
}

void SerialWorker::finish() {
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void SerialWorker::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return is_closed_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    const std::function<void()> job = std::move(jobs_.front());
    jobs_.pop();
    changed_.notify_all();
    lock.unlock();
    std::exception_ptr thrown;
    try {
      job();
    } catch (...) {
      thrown = std::current_exception();
    }
    lock.lock();
    if (!thrown) continue;
    failure_ = thrown;
    jobs_ = {};
    changed_.notify_all();
    return;
  }
}

}  // namespace apps
