// Threads. Work runs in the caller's task arena; `Threads` makes one of a given size. Loops are cut
// into blocks by `grain` alone, never by the number of threads, so results do not depend on it.
//   base::Threads threads(4);
//   threads.run([&] { base::parallel_blocks(rows, 512, [&](auto begin, auto end) { ... }); });
#pragma once
#include <cstdint>
#include <functional>
#include <memory>

namespace base {

// Calls body(begin, end) for each block [i*grain, min((i+1)*grain, count)); none for a count of 0.
void parallel_blocks(std::int64_t count, std::int64_t grain,
                     const std::function<void(std::int64_t, std::int64_t)>& body);

int current_threads();  // how many threads work started here may use

class Threads {
 public:
  explicit Threads(int count = 0);  // 0: all cores this process may use
  ~Threads();
  Threads(Threads&&) noexcept;
  Threads& operator=(Threads&&) noexcept;
  int count() const;
  void run(const std::function<void()>& work) const;

 private:
  struct Arena;
  std::unique_ptr<Arena> arena_;
};

}  // namespace base
