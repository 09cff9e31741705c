#include "apps/batch/interrupt.hpp"

#include <atomic>
#include <csignal>

namespace apps {
namespace {

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler sets it");

extern "C" void note_interrupt(int) { interrupted.store(true); }

}  // namespace

void watch_interrupts() {
  struct sigaction action {};
  action.sa_handler = note_interrupt;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool is_interrupted() { return interrupted.load(); }

}  // namespace apps
