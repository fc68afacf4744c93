// A loop over a pool of threads, with any callable.
#pragma once

#include "kernels.h"

namespace s7::S7_ISA {

template <class F>
inline void parallel(Pool pool, int64_t count, F task) {
  pool.for_each(pool.handle, count, [](void* context, int64_t n) { (*static_cast<F*>(context))(n); }, &task);
}

}  // namespace s7::S7_ISA
