// A parallel loop over a thread pool, for any callable.
#pragma once

#include "kernels.h"

namespace s7::S7_ISA {

template <class F>
inline void parallel(Pool pool, int64_t count, F task) {
  pool.for_each(pool.handle, count, [](void* context, int64_t n) { (*static_cast<F*>(context))(n); }, &task);
}

// A parallel loop for tasks that each copy `numbers` numbers. Waking a thread takes as long as copying tens of
// thousands of numbers, so small loops run serially.
template <class F>
inline void parallel_moves(Pool pool, int64_t count, int64_t numbers, F task) {
  if (count * numbers >= 65536) return parallel(pool, count, task);
  for (int64_t n = 0; n < count; ++n) task(n);
}

}  // namespace s7::S7_ISA
