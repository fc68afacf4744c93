// A loop over the threads of someone else's pool.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>

#include "kernels.h"

namespace s7 {

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
  Loop(int64_t count, void (*task)(void*, int64_t), void* context) : count_(count), task_(task), context_(context) {}

  void work() {
    int64_t finished = 0;
    for (int64_t n; (n = next_.fetch_add(1)) < count_; ++finished) {
      try {
        task_(context_, n);
      } catch (...) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!failure_) failure_ = std::current_exception();
      }
    }
    if (finished > 0 && finished_.fetch_add(finished) + finished == count_) {
      const std::lock_guard<std::mutex> lock(mutex_);
      all_done_.notify_all();
    }
  }

  void wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    all_done_.wait(lock, [this] { return finished_.load() == count_; });
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  const int64_t count_;
  void (*const task_)(void*, int64_t);
  void* const context_;
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
  const auto loop = std::make_shared<Loop>(count, task, context);
  try {
    for (int64_t n = 0; n < helpers; ++n) schedule([loop] { loop->work(); });
  } catch (...) {
    // Helpers are a convenience, and those already scheduled need what this call holds: it goes on to the end.
  }
  loop->work();
  loop->wait();
}

}  // namespace s7
