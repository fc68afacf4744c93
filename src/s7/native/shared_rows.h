// Vectors at the ends of rows, and sums of gradients over events that share a row of a table.
#pragma once

#include "kernels.h"
#include "memory.h"
#include "parallel.h"
#include "simd.h"

namespace s7::S7_ISA {

template <class T>
inline Vector<T> load_some(const T* from, int64_t count) {
  if (count >= kLanes<T>) return load(from);
  Vector<T> v = {};
  for (int64_t n = 0; n < count; ++n) v[n] = from[n];
  return v;
}

template <class T>
inline void store_some(T* to, int64_t count, Vector<T> v) {
  if (count >= kLanes<T>) return store(to, v);
  for (int64_t n = 0; n < count; ++n) to[n] = v[n];
}

template <class T>
inline void add_some(T* to, int64_t count, Vector<T> v) {
  store_some(to, count, load_some(to, count) + v);
}

// Work is divided into groups of columns and parts of the batch. Sums over events that share a row are computed within
// each part, then over the parts, in an order that does not depend on the number of threads. Each part has its own
// table of sums, so there are more parts than the first few only where the events are many times the rows.
struct Cut {
  int64_t groups, parts, batch;

  static Cut of(int64_t columns, int64_t lanes, int64_t batch, int64_t events, int64_t table) {
    const int64_t groups = (columns + lanes - 1) / lanes, few = groups >= 4 ? 1 : groups >= 2 ? 2 : 4;
    const int64_t cheap = table == 0 ? few : events / (16 * table) / groups, most = cheap < 32 ? cheap : 32;
    const int64_t wanted = few > most ? few : most;
    return {groups, wanted < batch ? wanted : batch, batch};
  }

  int64_t first(int64_t part) const { return part * batch / parts; }
};

// total[n] = Σ_part sums[part · size + n], or += if `add`.
template <class T>
void add_parts(const T* sums, int64_t parts, int64_t size, bool add, T* total, Pool pool) {
  constexpr int64_t kBlock = 4096;
  parallel(pool, (size + kBlock - 1) / kBlock, [&](int64_t block) {
    const int64_t first = block * kBlock, last = first + kBlock < size ? first + kBlock : size;
    for (int64_t n = first; n < last; ++n) {
      T sum = sums[n];
      for (int64_t part = 1; part < parts; ++part) sum += sums[part * size + n];
      total[n] = add ? total[n] + sum : sum;
    }
  });
}

}  // namespace s7::S7_ISA
