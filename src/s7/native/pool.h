// A parallel loop that runs on the threads of an existing pool.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>

#if defined(__linux__)
#include <sched.h>
#endif

#include "kernels.h"

namespace s7 {

// The operating system may run two threads of a loop on the same CPU while another CPU is idle, and correct this only
// at the next scheduler tick. That can be milliseconds later, which is longer than most loops. Therefore the leading
// thread yields after its first tasks while no helper has started, and a helper that starts on the leader's CPU moves
// to another one.
#if defined(__linux__)
inline int processor() { return sched_getcpu(); }
inline void let_others_run() { sched_yield(); }
inline void leave(int processor) {
  cpu_set_t allowed;
  if (processor < 0 || processor != sched_getcpu() || sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  cpu_set_t others = allowed;
  CPU_CLR(processor, &others);
  if (CPU_COUNT(&others) > 0 && sched_setaffinity(0, sizeof others, &others) == 0)
    sched_setaffinity(0, sizeof allowed, &allowed);  // the thread has moved: restore its affinity
}
#else
inline int processor() { return -1; }
inline void let_others_run() {}
inline void leave(int) {}
#endif

// Returns the maximum number of threads of a loop: S7_THREADS if that is a positive number, else `otherwise`.
inline int64_t thread_limit(int64_t otherwise) {
  const char* asked = std::getenv("S7_THREADS");
  const int64_t threads = asked == nullptr ? 0 : std::strtoll(asked, nullptr, 10);
  return threads > 0 ? threads : otherwise;
}

// One parallel loop. The calling thread works too, so the loop finishes even if no pool thread is ever free. A helper
// that starts late finds no task left and accesses only this object, which it keeps alive.
class Loop {
 public:
  Loop(int64_t count, int64_t helpers, void (*task)(void*, int64_t), void* context)
      : count_(count), task_(task), context_(context), processor_(processor()), awaits_help_(helpers > 0) {}

  // Runs on the calling thread. Returns when all tasks are done, and rethrows the first exception of a task.
  void lead() {
    for (int yields = 0; work();)
      if (awaits_help_ && yields++ < 3) let_others_run();
    std::unique_lock<std::mutex> lock(mutex_);
    all_done_.wait(lock, [this] { return finished_.load() == count_; });
    // The exception leaves this object, which a late helper may destroy while the caller reads the exception.
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

  // Runs on a thread of the pool.
  void help() {
    awaits_help_ = false;
    if (next_ < count_) leave(processor_);
    while (work()) {
    }
  }

 private:
  // Runs the next task. Returns false if none is left.
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
  const int processor_;  // CPU on which the leader started
  std::atomic<bool> awaits_help_;
  std::atomic<int64_t> next_{0}, finished_{0};
  std::mutex mutex_;
  std::condition_variable all_done_;
  std::exception_ptr failure_;
};

// Runs task(context, n) for every n < count. `schedule(function)` submits a function to the pool, which has `threads`
// threads.
template <class Schedule>
void for_each(Schedule schedule, int64_t threads, int64_t count, void (*task)(void*, int64_t), void* context) {
  const int64_t most = thread_limit(threads);
  const int64_t helpers = (most < count ? most : count) - 1;
  const auto loop = std::make_shared<Loop>(count, helpers, task, context);
  try {
    for (int64_t n = 0; n < helpers; ++n) schedule([loop] { loop->help(); });
  } catch (...) {
    // Helpers are optional, and those already scheduled use data of this call, so the loop must still run to its end.
  }
  loop->lead();
}

}  // namespace s7
