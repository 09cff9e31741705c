#include "gemm_core/base/parallel.hpp"

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>

#include "gemm_core/base/error.hpp"
#include "gemm_core/base/sanitizers.hpp"

#if defined(BASE_SANITIZES_THREADS)
#include <sanitizer/tsan_interface.h>
#define BASE_NOT_WATCHED __attribute__((no_sanitize("thread"), noinline))
#else
#define BASE_NOT_WATCHED
#endif

namespace base {
namespace {

// A thread sanitizer does not see inside oneTBB, which distributions build without one. It is told
// what oneTBB guarantees: work begins after the call and ends before it returns. What blocks of one
// call do to each other stays in its sight.
struct ForkAndJoin {
#if defined(BASE_SANITIZES_THREADS)
  void fork() { __tsan_release(this); }
  void begin() { __tsan_acquire(this); }
  void end() { __tsan_release(&joined); }
  void join() { __tsan_acquire(&joined); }
  char joined = 0;
#else
  void fork() {}
  void begin() {}
  void end() {}
  void join() {}
#endif
};

}  // namespace

void parallel_blocks(std::int64_t count, std::int64_t grain,
                     const std::function<void(std::int64_t, std::int64_t)>& body) {
  ENSURE(grain > 0, "parallel_blocks: grain ", grain, " must be positive");
  if (count <= 0) return;
  const std::int64_t blocks = (count + grain - 1) / grain;
  const auto run = [&](std::int64_t block) {
    body(block * grain, std::min(count, (block + 1) * grain));
  };
  if (blocks == 1 || current_threads() == 1) {
    for (std::int64_t block = 0; block < blocks; ++block) run(block);
    return;
  }
  ForkAndJoin order;
  const auto run_range = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) run(block);
  };
  order.fork();
  tbb::parallel_for(
      tbb::blocked_range<std::int64_t>(0, blocks, 1),
      [&](const tbb::blocked_range<std::int64_t>& range) BASE_NOT_WATCHED {
        order.begin();
        run_range(range.begin(), range.end());
        order.end();
      },
      tbb::simple_partitioner{});
  order.join();
}

int current_threads() { return std::max(1, tbb::this_task_arena::max_concurrency()); }

struct Threads::Arena {
  explicit Arena(int count) : value(count) {}
  mutable tbb::task_arena value;
};

Threads::Threads(int count)
    : arena_(std::make_unique<Arena>(count > 0 ? count : tbb::info::default_concurrency())) {
  ENSURE(count >= 0 && count <= 4096, "threads: ", count, " is not in 0..4096");
}
Threads::~Threads() = default;
Threads::Threads(Threads&&) noexcept = default;
Threads& Threads::operator=(Threads&&) noexcept = default;

int Threads::count() const { return arena_->value.max_concurrency(); }
void Threads::run(const std::function<void()>& work) const {
  ForkAndJoin order;  // another thread of the arena may do the work
  order.fork();
  arena_->value.execute([&]() BASE_NOT_WATCHED {
    order.begin();
    work();
    order.end();
  });
  order.join();
}

}  // namespace base
