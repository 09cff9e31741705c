// Reading, computing and writing at the same time, with results in the order of the inputs whatever
// the timing.
//
//   OrderedLoader<io::Cloud> loader(files.size(), jobs, [&](std::size_t i) { return
//   io::read(files[i]); }); SerialWorker writer(2); while (auto loaded = loader.next()) {
//   ...compute...; writer.push([=] { ...write... }); } writer.finish();
#pragma once
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <queue>
#include <string>
#include <thread>
#include <vector>

namespace apps {

// What load(index) gave or threw.
template <class T>
struct Loaded {
  std::size_t index = 0;
  std::optional<T> value;
  std::string error;  // where there is no value
};

// Message of the exception being handled.
std::string current_error();

// Calls load(0), load(1), ... on `jobs` threads, at most `ahead` results ahead of next() (as many
// as threads, where it is 0), and hands them out in order. Where some loads take much longer than
// others, more ahead keep the threads busy behind a slow one.
template <class T>
class OrderedLoader {
 public:
  OrderedLoader(std::size_t count, int jobs, std::function<T(std::size_t)> load, int ahead = 0)
      : count_(count),
        ahead_(static_cast<std::size_t>(ahead > 0 ? ahead : jobs)),
        load_(std::move(load)),
        slots_(ahead_) {
    for (int job = 0; job < jobs; ++job) threads_.emplace_back([this] { work(); });
  }
  ~OrderedLoader() {
    {
      const std::lock_guard lock(mutex_);
      claimed_ = count_;  // loads that have not begun never will
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  OrderedLoader(const OrderedLoader&) = delete;
  OrderedLoader& operator=(const OrderedLoader&) = delete;

  // Nothing after the last. One caller at a time.
  std::optional<Loaded<T>> next() {
    std::unique_lock lock(mutex_);
    if (taken_ == count_) return std::nullopt;
    auto& slot = slots_[taken_ % ahead_];
    changed_.wait(lock, [&] { return slot.has_value(); });
    std::optional<Loaded<T>> result = std::move(slot);
    slot.reset();
    ++taken_;
    changed_.notify_all();
    return result;
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return claimed_ >= count_ || claimed_ < taken_ + ahead_; });
      if (claimed_ >= count_) return;
      const std::size_t index = claimed_++;
      lock.unlock();
      Loaded<T> loaded{.index = index};
      try {
        loaded.value.emplace(load_(index));
      } catch (...) {
        loaded.error = current_error();
      }
      lock.lock();
      slots_[index % ahead_] = std::move(loaded);
      changed_.notify_all();
    }
  }

  const std::size_t count_, ahead_;
  const std::function<T(std::size_t)> load_;
  std::vector<std::optional<Loaded<T>>> slots_;
  std::size_t claimed_ = 0, taken_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::thread> threads_;
};

// Runs jobs one after the other on its own thread; push() waits while `capacity` of them are
// waiting.
class SerialWorker {
 public:
  explicit SerialWorker(std::size_t capacity);
  ~SerialWorker();  // waits for the jobs pushed so far
  SerialWorker(const SerialWorker&) = delete;
  SerialWorker& operator=(const SerialWorker&) = delete;

  void push(std::function<void()> job);
  void finish();  // waits; throws what the first failing job threw (jobs after it were not run)

 private:
  void work();

  const std::size_t capacity_;
  std::queue<std::function<void()>> jobs_;
  bool is_closed_ = false;
  std::exception_ptr failure_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread thread_;
};

}  // namespace apps
