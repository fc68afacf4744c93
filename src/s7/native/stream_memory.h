// Where everything lies in the memory of a stream: the state, a copy of it to flush, and room to work.
#pragma once

#include "stream_block.h"

namespace s7::S7_ISA::stream {

// The window under way in a block that pools. Its weights are gaps or ones; while they add up to nothing, `sum` is that
// of the plain values.
struct Window {
  int64_t events;
  float weight, gap;
};

// The running mean that a head reads. In double precision: a stream can have any number of events.
struct Totals {
  double weight, number;
};

// Offsets, in bytes from the start of a state.
struct BlockPlace {
  int64_t x, window, last, sum;
};

// Hands out consecutive pieces of memory, each aligned to a cache line.
class Places {
 public:
  template <class T>
  int64_t add(int64_t count) {
    const int64_t place = size_;
    size_ += (count * int64_t(sizeof(T)) + 63) / 64 * 64;
    return place;
  }
  int64_t size() const { return size_; }

 private:
  int64_t size_ = 0;
};

// A state in memory.
class State {
 public:
  explicit State(char* base) : base_(base) {}
  template <class T>
  T* at(int64_t place) const {
    return reinterpret_cast<T*>(base_ + place);
  }

 private:
  char* base_;
};

// A weighted running mean over vectors of floats, as a sum that is divided in the end.
template <class T>
inline void accumulate(const float* values, T value_weight, T total_weight, int64_t size, T* sum) {
  if (total_weight > 0 && value_weight == 0) return;
  if (total_weight == 0 && value_weight > 0)  // what came before does not count any more
    for (int64_t n = 0; n < size; ++n) sum[n] = value_weight * T(values[n]);
  else if (value_weight == 0)
    for (int64_t n = 0; n < size; ++n) sum[n] += T(values[n]);
  else
    for (int64_t n = 0; n < size; ++n) sum[n] += value_weight * T(values[n]);
}

}  // namespace s7::S7_ISA::stream
