// Reading, computing and writing at the same time, with results in the order of the inputs whatever
// the timing.
//
//   OrderedLoader<io::Cloud> loader(files.size(), jobs, [&](std::size_t i) { return
//   io::read(files[i]); }); OrderedWorkers writers(1); while (auto loaded = loader.next()) {
//   ...compute...; writers.push([=] { ...write...; return [=] { ...tell...; }; }); }
//   writers.finish();
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

// Threads for a batch on that many cores. Reading and computing a file take about twice what
// writing its result takes, and a file is written while the next ones are computed, so a quarter of
// the cores is left to writing; one a core for computing would make both wait for each other.
struct BatchThreads {
  int jobs = 1, writers = 1;
  int each = 1;  // threads that one of the jobs may use
};
// `jobs`: as many as the user wants, 0: by the cores.
BatchThreads batch_threads(int cores, int jobs = 0);

// Jobs have two parts: the first is run by any of the threads, several at a time, and gives the
// second; second parts are run one at a time, in the order of push().
class OrderedWorkers {
 public:
  using Second = std::function<void()>;
  using Job = std::function<Second()>;

  explicit OrderedWorkers(int threads);
  ~OrderedWorkers();  // waits for the jobs pushed so far
  OrderedWorkers(const OrderedWorkers&) = delete;
  OrderedWorkers& operator=(const OrderedWorkers&) = delete;

  void push(Job job);  // waits while as many as there are threads, and at least two, have not begun
  // Waits; throws what the first failing job threw (of jobs after it no second part was run).
  void finish();

 private:
  void work();
  void join();

  const std::size_t capacity_;
  std::queue<Job> jobs_;
  std::size_t begun_ = 0, ended_ = 0;  // jobs
  bool is_closed_ = false;
  std::exception_ptr failure_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::thread> threads_;
};

}  // namespace apps
