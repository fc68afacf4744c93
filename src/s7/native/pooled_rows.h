// The mean and the last vector of every window of events. Events can be rows of a table.
//
//     mean = Σ_k share_k u_k over the events of a window        end = u_k of its last event
//
// The gradient of a table is a sum over the events of each row.
#pragma once

#include "shared_rows.h"

namespace s7::S7_ISA {

template <class T>
class PooledRows {
 public:
  using V = Vector<T>;

  PooledRows(const PoolShape& shape, const PoolInputs<T>& in)
      : shape_(shape), in_(in), width_(shape.width), length_(shape.windows * shape.stride) {}

  void forward(T* mean, T* ends, Pool pool) const {
    for_windows(pool, [&](int64_t window) {
      if (ends != nullptr) copy_end(window, ends + window * width_);
      if (mean != nullptr) add_up(window, mean + window * width_);
    });
  }

  // Copies the last vector of a window.
  void copy_end(int64_t window, T* to) const {
    std::memcpy(to, row_of(window * shape_.stride + last(window)), size_t(width_) * sizeof(T));
  }

  // Computes the mean of a window.
  void add_up(int64_t window, T* mean) const {
    int64_t h = 0;
    for (; h + kBlock <= width_; h += kBlock) add_up<kBlock / kLanes<T>>(window, h, kBlock, mean);
    for (; h < width_; h += kLanes<T>) add_up<1>(window, h, width_ - h, mean);
  }

  // Computes the gradient of the values, or adds to it.
  void gradient(const T* mean_gradient, const T* ends_gradient, bool add, T* values, Pool pool) const {
    if (in_.token == nullptr) {
      for_windows(pool, [&](int64_t window) {
        if (!add) std::memset(values + window * shape_.stride * width_, 0, size_t(shape_.stride * width_) * sizeof(T));
        for (int64_t h = 0; h < width_; h += kLanes<T>) spread(window, h, mean_gradient, ends_gradient, values);
      });
      return;
    }
    const Cut cut = Cut::of(width_, kLanes<T>, shape_.batch, shape_.batch * length_, shape_.table);
    const int64_t size = shape_.table * width_;
    Buffer<T> tables(cut.parts > 1 ? cut.parts * size : 0);
    T* sums = cut.parts > 1 ? tables.data() : values;
    const bool starts = cut.parts > 1 || !add;
    parallel(pool, cut.parts * cut.groups, [&](int64_t task) {
      const int64_t part = task / cut.groups, h = task % cut.groups * kLanes<T>;
      T* table = sums + part * size;
      for (int64_t row = 0; starts && row < shape_.table; ++row) store_some(table + row * width_ + h, width_ - h, V{});
      for (int64_t window = cut.first(part) * shape_.windows; window < cut.first(part + 1) * shape_.windows; ++window)
        spread(window, h, mean_gradient, ends_gradient, table);
    });
    if (cut.parts > 1) add_parts(sums, cut.parts, size, add, values, pool);
  }

  void share_gradient(const T* mean_gradient, T* share, Pool pool) const {
    for_windows(pool, [&](int64_t window) {
      for (int64_t k = window * shape_.stride; k < (window + 1) * shape_.stride; ++k) {
        V products = {};
        for (int64_t h = 0; h < width_; h += kLanes<T>)
          products += load_some(mean_gradient + window * width_ + h, width_ - h) * load_some(row_of(k) + h, width_ - h);
        T sum = 0;
        for (int n = 0; n < kLanes<T>; ++n) sum += products[n];
        share[k] = sum;
      }
    });
  }

 private:
  static constexpr int64_t kBlock = 4 * kLanes<T>;

  template <class F>
  void for_windows(Pool pool, F task) const {
    const int64_t windows = shape_.batch * shape_.windows, count = windows < 64 ? windows : 64;
    parallel(pool, count, [&](int64_t n) {
      for (int64_t window = n * windows / count; window < (n + 1) * windows / count; ++window) task(window);
    });
  }

  int64_t last(int64_t window) const { return in_.last == nullptr ? shape_.stride - 1 : int64_t(in_.last[window]); }

  int64_t row(int64_t event) const { return in_.token == nullptr ? event : int64_t(in_.token[event]); }
  const T* row_of(int64_t event) const { return in_.values + row(event) * width_; }

  // Computes kVectors vectors of the mean of a window, from column h on.
  template <int kVectors>
  void add_up(int64_t window, int64_t h, int64_t columns, T* mean) const {
    V sum[kVectors] = {};
    const int64_t first = window * shape_.stride;
    for (int64_t k = first; k < first + shape_.stride; ++k) {
      if (in_.share[k] == 0) continue;
      const T* from = row_of(k) + h;
      for (int v = 0; v < kVectors; ++v)
        sum[v] += load_some(from + v * kLanes<T>, columns - v * kLanes<T>) * in_.share[k];
    }
    for (int v = 0; v < kVectors; ++v) store_some(mean + h + v * kLanes<T>, columns - v * kLanes<T>, sum[v]);
  }

  // Adds the gradient of one vector of columns of a window to those of its rows.
  void spread(int64_t window, int64_t h, const T* mean_gradient, const T* ends_gradient, T* values) const {
    const int64_t first = window * shape_.stride, count = width_ - h;
    if (mean_gradient != nullptr) {
      const V gradient = load_some(mean_gradient + window * width_ + h, count);
      for (int64_t k = first; k < first + shape_.stride; ++k)
        if (in_.share[k] != 0) add_some(values + row(k) * width_ + h, count, gradient * in_.share[k]);
    }
    if (ends_gradient != nullptr)
      add_some(values + row(first + last(window)) * width_ + h, count,
               load_some(ends_gradient + window * width_ + h, count));
  }

  const PoolShape& shape_;
  const PoolInputs<T>& in_;
  const int64_t width_, length_;
};

template <class T>
void pool_rows(const PoolShape& shape, const PoolInputs<T>& in, T* mean, T* ends, Pool pool) {
  PooledRows<T>(shape, in).forward(mean, ends, pool);
}

template <class T>
void pool_rows_gradient(const PoolShape& shape, const PoolInputs<T>& in, const T* mean_gradient, const T* ends_gradient,
                        T* values_gradient, T* share_gradient, Pool pool) {
  const PooledRows<T> rows(shape, in);
  if (share_gradient != nullptr) rows.share_gradient(mean_gradient, share_gradient, pool);
  rows.gradient(mean_gradient, ends_gradient, false, values_gradient, pool);
}

}  // namespace s7::S7_ISA
