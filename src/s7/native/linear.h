// Linear maps of consecutive rows of a tile, for all events of the tile at once.
//
//     apply              y[n]       = Σ_m W[n, m] · rows[m] + c[n]
//     back               d rows[m]  = Σ_n W[n, m] · g[n]
//     gather_weights     dW[n, m]  += Σ_events rows[m] · g[n],   dc[n] += Σ_events g[n]
//
// The row after the inputs is a row of ones, which multiplies the constants c. Maps of the same rows are cheaper as one
// map with all their outputs: it reads the rows and writes their gradient once.
#pragma once

#include <type_traits>

#include "parallel.h"
#include "tiles.h"

namespace s7::S7_ISA {

// A matrix of shape (outputs, columns). `Columns` concatenates several: the weight of input m in output n is entry
// (n, m) of the concatenation. A vector of constants is a matrix with one column, and a null matrix is zero.
template <class T>
struct Matrix {
  T* data;
  int64_t columns;
};

template <class T, int kCount>
struct Columns {
  Matrix<const T> matrices[kCount];

  T operator()(int64_t m, int64_t n) const {
    for (const Matrix<const T>& matrix : matrices) {
      if (m < matrix.columns) return matrix.data == nullptr ? T(0) : matrix.data[n * matrix.columns + m];
      m -= matrix.columns;
    }
    return T(0);
  }
};

// The inverse of `Columns`: copies sums[input][output], starting at input `first`, to the gradients of the matrices.
// Null matrices are skipped.
template <class T, int kCount>
void unpack(const T* sums, int64_t padded, int64_t first, int64_t outputs, const Matrix<T> (&matrices)[kCount],
            Pool pool) {
  int64_t columns = 0;
  for (const Matrix<T>& matrix : matrices) columns += matrix.columns;
  parallel_moves(pool, outputs, columns, [&](int64_t n) {
    const T* sum = sums + first * padded + n;
    for (const Matrix<T>& matrix : matrices)
      for (int64_t m = 0; m < matrix.columns; ++m, sum += padded)
        if (matrix.data != nullptr) matrix.data[n * matrix.columns + m] = *sum;
  });
}

// Maps W u + c of the same `inputs` rows, as one map with all their outputs. The weight of row m in output n is entry m
// of row n of W, or an entry of c if m is the row of ones. A null W or c is zero.
template <class T>
struct Affine {
  T *W, *c;
  int64_t outputs;
};

template <class T, int kCount>
struct Stacked {
  int64_t inputs;
  Affine<const T> maps[kCount];

  int64_t outputs() const {
    int64_t sum = 0;
    for (const Affine<const T>& map : maps) sum += map.outputs;
    return sum;
  }

  T operator()(int64_t m, int64_t n) const {
    for (const Affine<const T>& map : maps) {
      if (n < map.outputs) {
        if (m < inputs) return map.W == nullptr ? T(0) : map.W[n * inputs + m];
        return map.c == nullptr ? T(0) : map.c[n];
      }
      n -= map.outputs;
    }
    return T(0);
  }
};

// The inverse of `Stacked`. Null arrays are skipped.
template <class T, int kCount>
void unpack_stacked(const T* sums, int64_t padded, int64_t inputs, const Affine<T> (&maps)[kCount], Pool pool) {
  for (const Affine<T>& map : maps) {
    unpack<T, 2>(sums, padded, 0, map.outputs, {{map.W, inputs}, {map.c, 1}}, pool);
    sums += map.outputs;
  }
}

// y[r][group] = Σ_m weights[m][r] · rows[m][group], or += if `add`. Prefetches one of `ahead` for each m.
template <class T, int kRows>
S7_KERNEL void multiply(const T* weights, const T* rows, int64_t count, bool add, Lookahead::Lines ahead, T* y) {
  using V = Vector<T>;
  V sum[kRows][kVectors] = {};
  for (int64_t m = 0; m < count; ++m) {
    __builtin_prefetch(ahead.first + m * ahead.step, 0, 2);
    V row[kVectors];
    S7_UNROLL
    for (int v = 0; v < kVectors; ++v) row[v] = load(rows + m * kTile + v * kLanes<T>);
    S7_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const V weight = all(weights[m * kRows + r]);
      S7_UNROLL
      for (int v = 0; v < kVectors; ++v) sum[r][v] += weight * row[v];
    }
  }
  S7_UNROLL
  for (int r = 0; r < kRows; ++r) {
    S7_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      T* place = y + r * kTile + v * kLanes<T>;
      store(place, add ? load(place) + sum[r][v] : sum[r][v]);
    }
  }
}

template <class T>
inline void multiply_rows(int64_t outputs, const T* weights, const T* rows, int64_t count, bool add,
                          Lookahead::Lines ahead, T* y) {
  switch (outputs) {
    case 1:
      return multiply<T, 1>(weights, rows, count, add, ahead, y);
    case 2:
      return multiply<T, 2>(weights, rows, count, add, ahead, y);
    case 3:
      return multiply<T, 3>(weights, rows, count, add, ahead, y);
    case 4:
      return multiply<T, 4>(weights, rows, count, add, ahead, y);
    case 5:
      if constexpr (kOutputs > 4) return multiply<T, 5>(weights, rows, count, add, ahead, y);
      break;
    case 6:
      if constexpr (kOutputs > 4) return multiply<T, 6>(weights, rows, count, add, ahead, y);
      break;
    case 7:
      if constexpr (kOutputs > 4) return multiply<T, 7>(weights, rows, count, add, ahead, y);
      break;
    case 8:
      if constexpr (kOutputs > 4) return multiply<T, 8>(weights, rows, count, add, ahead, y);
      break;
  }
}

// A matrix packed for products with tiles.
template <class T>
class Packed {
 public:
  Packed() = default;

  // weight(n, m) returns entry (n, m).
  template <class F>
  Packed(int64_t outputs, int64_t inputs, F weight) : outputs_(outputs), inputs_(inputs), weights_(outputs * inputs) {
    T* to = weights_.data();
    for (int64_t n = 0, wide = 0; n < outputs; n += wide) {
      wide = outputs_together(outputs - n);
      for (int64_t m = 0; m < inputs; ++m)
        for (int64_t r = 0; r < wide; ++r) *to++ = weight(n + r, m);
    }
  }

  // y[n] = Σ_m entry(n, m) · rows[m], or += if `add`, for every group that contains an event. Prefetches `ahead`.
  void times(const T* rows, int64_t events, bool add, T* y, Lookahead& ahead) const {
    for (int64_t k = 0; k < events; k += kGroup<T>)
      for (int64_t n = 0, wide = 0; n < outputs_; n += wide) {
        wide = outputs_together(outputs_ - n);
        const T* weights = weights_.data() + n * inputs_;
        multiply_rows(wide, weights, rows + k, inputs_, add, ahead.take(inputs_, weights), y + n * kTile + k);
      }
  }

 private:
  int64_t outputs_ = 0, inputs_ = 0;
  Buffer<T> weights_;
};

// sums[m][column] += Σ_events rows[m][event] · g[event][column], for `count` rows and `columns` vectors of outputs.
template <class T>
void gather_rows(const T* rows, int64_t count, const T* g, int64_t events, int64_t columns, T* sums) {
  constexpr int kMost = kRegisters == 32 ? 8 : 4;
  const int64_t stride = columns * kLanes<T>;
  for (int64_t c = 0, wide = 0; c < columns; c += wide) {
    const int64_t left = columns - c, at = c * kLanes<T>;
    wide = left == 1 ? 1 : left == 2 || left == 4 ? 2 : 3;
    const auto run = [&](auto rows_together, int64_t m) {
      constexpr int kRows = decltype(rows_together)::value;
      const T *from = rows + m * kTile, *by = g + at;
      T* to = sums + m * stride + at;
      if (wide == 3) return gather<T, kRows, 3>(from, by, events, stride, to, stride);
      if (wide == 2) return gather<T, kRows, 2>(from, by, events, stride, to, stride);
      gather<T, kRows, 1>(from, by, events, stride, to, stride);
    };
    int64_t m = 0;
    for (; m + kMost <= count; m += kMost) run(std::integral_constant<int, kMost>(), m);
    for (; m + 4 <= count; m += 4) run(std::integral_constant<int, 4>(), m);
    for (; m + 2 <= count; m += 2) run(std::integral_constant<int, 2>(), m);
    for (; m < count; ++m) run(std::integral_constant<int, 1>(), m);
  }
}

// A linear map with packed weights.
template <class T>
class Linear {
 public:
  Linear() = default;

  // weight(m, n) returns the weight of row m in output n. If `constant`, the row of ones follows the inputs. `apply`
  // computes the first `applied` outputs, by default all.
  template <class F>
  Linear(int64_t inputs, bool constant, int64_t outputs, F weight, Layouts layouts, int64_t applied = -1)
      : rows_(inputs + constant), outputs_(outputs) {
    if (layouts != Layouts::kBack)
      forward_ = Packed<T>(applied < 0 ? outputs : applied, rows_, [&](int64_t n, int64_t m) { return weight(m, n); });
    if (layouts != Layouts::kApply) backward_ = Packed<T>(inputs, outputs, weight);
  }

  int64_t outputs() const { return outputs_; }

  void apply(const T* rows, int64_t events, T* y, Lookahead& ahead) const {
    forward_.times(rows, events, false, y, ahead);
  }
  void add(const T* rows, int64_t events, T* y, Lookahead& ahead) const {
    forward_.times(rows, events, true, y, ahead);
  }

  // Computes the gradient of the rows from the gradient g[n] of the outputs, or adds to it.
  void back(const T* g, int64_t events, T* gradient, Lookahead& ahead) const {
    backward_.times(g, events, false, gradient, ahead);
  }
  void add_back(const T* g, int64_t events, T* gradient, Lookahead& ahead) const {
    backward_.times(g, events, true, gradient, ahead);
  }

  // The length of a row of `sums`, in vectors and in numbers: the outputs, padded to whole vectors.
  int64_t columns() const { return (outputs_ + kLanes<T> - 1) / kLanes<T>; }
  int64_t padded() const { return columns() * kLanes<T>; }
  int64_t sums_size() const { return rows_ * padded(); }

  // sums[m][n] += Σ_events rows[m] · g[event][n]. Here g is event-major, with `padded()` numbers per event.
  void gather_weights(const T* rows, const T* g, int64_t events, T* sums) const {
    gather_rows(rows, rows_, g, events, columns(), sums);
  }

 private:
  int64_t rows_ = 0, outputs_ = 0;
  Packed<T> forward_, backward_;
};

}  // namespace s7::S7_ISA
