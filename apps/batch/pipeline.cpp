#include "apps/batch/pipeline.hpp"

#include <algorithm>
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

BatchThreads batch_threads(int cores, int jobs) {
  const int computing = std::max(1, 3 * cores / 4);
  if (jobs == 0) jobs = computing;
  // More than four writers find HDF5's one lock taken.
  return {
      .jobs = jobs, .writers = std::clamp(cores / 2, 1, 4), .each = std::max(1, computing / jobs)};
}

OrderedWorkers::OrderedWorkers(int threads)
    : capacity_(static_cast<std::size_t>(std::max(threads, 2))) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

OrderedWorkers::~OrderedWorkers() { join(); }

void OrderedWorkers::join() {
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void OrderedWorkers::push(Job job) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return jobs_.size() < capacity_ || failure_; });
  if (failure_) return;  // finish() tells
  jobs_.push(std::move(job));
  changed_.notify_all();
}

void OrderedWorkers::finish() {
  join();
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void OrderedWorkers::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return is_closed_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    Job job = std::move(jobs_.front());
    jobs_.pop();
    const std::size_t number = begun_++;
    changed_.notify_all();
    std::exception_ptr thrown;
    const auto guarded = [&](auto&& action) {
      lock.unlock();
      try {
        action();
      } catch (...) {
        thrown = std::current_exception();
      }
      lock.lock();
    };
    Second second;
    guarded([&] { second = job(); });
    changed_.wait(lock, [&] { return ended_ == number; });
    if (!thrown && !failure_) guarded(second);
    ++ended_;
    if (thrown && !failure_) {
      failure_ = thrown;
      jobs_ = {};
    }
    changed_.notify_all();
  }
}

}  // namespace apps
