// A loop over the threads of someone else's pool.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>

#if defined(__linux__)
#include <sched.h>
#endif

#include "kernels.h"

namespace s7 {

// Where two threads of one loop share a processor while another is free, the system may find out at its next tick only,
// milliseconds later: longer than most loops. So a thread that still waits for help lets others run after its first
// tasks, and a helper that finds itself on that thread's processor goes to another.
#if defined(__linux__)
inline int processor() { return sched_getcpu(); }
inline void let_others_run() { sched_yield(); }
inline void leave(int processor) {
  cpu_set_t allowed;
  if (processor < 0 || processor != sched_getcpu() || sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  cpu_set_t others = allowed;
  CPU_CLR(processor, &others);
  if (CPU_COUNT(&others) > 0 && sched_setaffinity(0, sizeof others, &others) == 0)
    sched_setaffinity(0, sizeof allowed, &allowed);  // it has moved, and may be anywhere again
}
#else
inline int processor() { return -1; }
inline void let_others_run() {}
inline void leave(int) {}
#endif

// The most threads a loop may use: S7_THREADS if that is a positive number, else `otherwise`.
inline int64_t thread_limit(int64_t otherwise) {
  const char* asked = std::getenv("S7_THREADS");
  const int64_t threads = asked == nullptr ? 0 : std::strtoll(asked, nullptr, 10);
  return threads > 0 ? threads : otherwise;
}

// One loop. The thread that wants it works too, so it ends even if no thread of the pool is ever free; a helper that
// comes late finds nothing left and touches nothing but this object, which it keeps alive.
class Loop {
 public:
  Loop(int64_t count, int64_t helpers, void (*task)(void*, int64_t), void* context)
      : count_(count), task_(task), context_(context), processor_(processor()), awaits_help_(helpers > 0) {}

  // For the thread that wants it; returns when all is done.
  void lead() {
    for (int yields = 0; work();)
      if (awaits_help_ && yields++ < 3) let_others_run();
    std::unique_lock<std::mutex> lock(mutex_);
    all_done_.wait(lock, [this] { return finished_.load() == count_; });
    if (failure_) std::rethrow_exception(failure_);
  }

  // For a thread of the pool.
  void help() {
    awaits_help_ = false;
    if (next_ < count_) leave(processor_);
    while (work()) {
    }
  }

 private:
  // Does one task, if there is one left.
  bool work() {
    const int64_t n = next_.fetch_add(1);
    if (n >= count_) return false;
    try {
      task_(context_, n);
    } catch (...) {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
    }
    if (finished_.fetch_add(1) + 1 == count_) {
      const std::lock_guard<std::mutex> lock(mutex_);
      all_done_.notify_all();
    }
    return true;
  }

  const int64_t count_;
  void (*const task_)(void*, int64_t);
  void* const context_;
  const int processor_;  // that the leader was on
  std::atomic<bool> awaits_help_;
  std::atomic<int64_t> next_{0}, finished_{0};
  std::mutex mutex_;
  std::condition_variable all_done_;
  std::exception_ptr failure_;
};

// `schedule(function)` hands a function to the pool, which has `threads` threads.
template <class Schedule>
void for_each(Schedule schedule, int64_t threads, int64_t count, void (*task)(void*, int64_t), void* context) {
  const int64_t most = thread_limit(threads);
  const int64_t helpers = (most < count ? most : count) - 1;
  const auto loop = std::make_shared<Loop>(count, helpers, task, context);
  try {
    for (int64_t n = 0; n < helpers; ++n) schedule([loop] { loop->help(); });
  } catch (...) {
    // Helpers are a convenience, and those already scheduled need what this call holds: it goes on to the end.
  }
  loop->lead();
}

}  // namespace s7
