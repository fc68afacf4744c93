// The layout of a stream's memory: the state, a copy of the state for reading answers, and scratch memory.
#pragma once

#include "stream_block.h"

namespace s7::S7_ISA::stream {

// The current window of a pooling block. Its weights are gaps or ones. While the total weight is zero, the sum is
// unweighted.
struct Window {
  int64_t events;
  float weight, gap;
};

// The output of a full window that has not reached the blocks above: the next block, or 0 if there is none, and its
// gap.
struct Deferred {
  int64_t block;
  bool timed;
  float gap;
};

// The running mean that a head reads. It is in double precision because a stream can have any number of events.
struct Totals {
  double weight, number;
};

// Offsets in bytes from the start of a state.
struct BlockPlace {
  int64_t x, window, last, sum;
};

// Allocates consecutive pieces of memory, each aligned to a cache line.
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

// Access to a state in memory.
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

// Adds a vector to a weighted sum, which is divided by the total weight at the end. While all weights are zero, the sum
// is unweighted.
template <class T>
inline void accumulate(const float* values, T value_weight, T total_weight, int64_t size, T* sum) {
  if (total_weight > 0 && value_weight == 0) return;
  if (total_weight == 0 && value_weight > 0)  // earlier values had weight zero and are dropped
    for (int64_t n = 0; n < size; ++n) sum[n] = value_weight * T(values[n]);
  else if (value_weight == 0)
    for (int64_t n = 0; n < size; ++n) sum[n] += T(values[n]);
  else
    for (int64_t n = 0; n < size; ++n) sum[n] += value_weight * T(values[n]);
}

}  // namespace s7::S7_ISA::stream
