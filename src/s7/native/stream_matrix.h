// Products of a matrix with the vectors of one event or of several events.
//
// For a single event the speed is limited by how fast the weights can be read. Several events share the weights that
// were read. Outputs are in the lanes of vectors, in column blocks of at most eight vectors. Within a block the weights
// are stored in the order in which they are read. Sums over many rows are sums of short partial sums: in float32 a
// single sum of a thousand products, as in the full form, would be several times less exact.
#pragma once

#include "memory.h"
#include "simd.h"

namespace s7::S7_ISA::stream {

using V = Vector<float>;
inline constexpr int64_t kLane = kLanes<float>;
inline constexpr int64_t kMostVectors = 8;
// The most events that are processed together.
inline constexpr int64_t kTile = 16;
// The most rows of a matrix in one partial sum.
inline constexpr int64_t kPartRows = 64;

inline int64_t padded(int64_t size) { return (size + kLane - 1) / kLane * kLane; }

// Copies `count` numbers and appends `filling` up to whole vectors, plus one vector that may be read past the end.
inline Buffer<float> padded_copy(const float* from, int64_t count, float filling = 0) {
  Buffer<float> copy(padded(count) + kLane);
  for (int64_t n = 0; n < copy.size(); ++n) copy[n] = n < count && from != nullptr ? from[n] : filling;
  return copy;
}

// The vectors of several events, `stride` numbers apart. With a stride of 0 all events have the same vector.
template <class T>
struct TileOf {
  T* data;
  int64_t stride;

  T* operator[](int64_t event) const { return data + event * stride; }
  TileOf from(int64_t n) const { return {data + n, stride}; }
  operator TileOf<const T>() const { return {data, stride}; }
};
using Tile = TileOf<float>;
using ConstTile = TileOf<const float>;

class Matrix {
 public:
  Matrix() = default;
  // A matrix of zeros. `outputs` must be a multiple of kLane.
  Matrix(int64_t rows, int64_t outputs) : rows_(rows), vectors_(outputs / kLane), weights_(rows * outputs) {
    if (weights_.size() > 0) weights_.clear();
    blocks_ = (vectors_ + kMostVectors - 1) / kMostVectors;
  }

  // The weight of input m in output n.
  float& at(int64_t m, int64_t n) {
    int64_t vector = n / kLane, first = 0;
    for (int64_t block = 0;; ++block) {
      const int64_t width = block_width(block);
      if (vector < first + width) return weights_[(first * rows_ + m * width + vector - first) * kLane + n % kLane];
      first += width;
    }
  }

  // Copies W of shape (outputs, inputs) to rows m, m + 1, … and outputs n, n + 1, …
  void put(const float* W, int64_t outputs, int64_t inputs, int64_t m, int64_t n) {
    for (int64_t o = 0; o < outputs; ++o)
      for (int64_t i = 0; i < inputs; ++i) at(m + i, n + o) = W[o * inputs + i];
  }

  bool empty() const { return vectors_ == 0; }
  int64_t rows() const { return rows_; }
  int64_t outputs() const { return vectors_ * kLane; }

  // y = start + Wᵀ p for one event. `start` may be y.
  void apply(const float* p, const float* start, float* y) const {
    apply(ConstTile{p, 0}, 0, rows_, ConstTile{start, 0}, Tile{y, 0}, 1);
  }
  // The same for `count` events.
  void apply(ConstTile p, ConstTile start, Tile y, int64_t count) const { apply(p, 0, rows_, start, y, count); }
  // The same with `rows` rows of the matrix from `first` on: p holds the inputs of these rows.
  void apply(ConstTile p, int64_t first, int64_t rows, ConstTile start, Tile y, int64_t count) const {
    const float* weights = weights_.data();
    for (int64_t block = 0, vector = 0; block < blocks_; ++block) {
      const int64_t width = block_width(block), n = vector * kLane;
      const float* read = weights + first * width * kLane;
      ConstTile sums = start.from(n);
      // At least once, so that y is written if there are no rows.
      for (int64_t m = 0; m == 0 || m < rows; m += kPartRows, sums = y.from(n)) {
        const int64_t part = rows - m < kPartRows ? rows - m : kPartRows;
        multiply(width, read + m * width * kLane, p.from(m), part, sums, y.from(n), count);
      }
      weights += rows_ * width * kLane;
      vector += width;
    }
  }

 private:
  // Blocks of about the same width.
  int64_t block_width(int64_t block) const { return vectors_ / blocks_ + (block < vectors_ % blocks_); }

  static void multiply(int64_t width, const float* weights, ConstTile p, int64_t rows, ConstTile start, Tile y,
                       int64_t count) {
    switch (width) {
      case 1:
        return columns<1>(weights, p, rows, start, y, count);
      case 2:
        return columns<2>(weights, p, rows, start, y, count);
      case 3:
        return columns<3>(weights, p, rows, start, y, count);
      case 4:
        return columns<4>(weights, p, rows, start, y, count);
      case 5:
        return columns<5>(weights, p, rows, start, y, count);
      case 6:
        return columns<6>(weights, p, rows, start, y, count);
      case 7:
        return columns<7>(weights, p, rows, start, y, count);
      default:
        return columns<8>(weights, p, rows, start, y, count);
    }
  }

  // Computes kWidth vectors of outputs.
  template <int kWidth>
  static void columns(const float* weights, ConstTile p, int64_t rows, ConstTile start, Tile y, int64_t count) {
    if (count == 1) return single<kWidth, most_rows(kWidth)>(weights, p.data, rows, start.data, y.data);
    several<kWidth, most_events(kWidth)>(weights, p, rows, start, y, 0, count);
  }

  // Enough independent sums to hide the latency of additions.
  static constexpr int most_rows(int width) {
    constexpr int kRows[] = {8, 4, 3, 2, 2, 2, 1, 1};
    return kRows[width - 1];
  }
  // As many sums as leave registers for the weights: a power of two that divides kTile.
  static constexpr int most_events(int width) {
    int events = 8;
    while (events > 1 && events * width > kRegisters * 3 / 4) events /= 2;
    return events;
  }

  // One event, kRows inputs at a time.
  template <int kWidth, int kRows>
  __attribute__((noinline)) static void single(const float* weights, const float* p, int64_t rows, const float* start,
                                               float* y) {
    V sums[kRows][kWidth];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 16
      for (int c = 0; c < kWidth; ++c) sums[r][c] = V{};
    int64_t m = 0;
    for (; m + kRows <= rows; m += kRows, weights += kRows * kWidth * kLane)
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const V factor = all(p[m + r]);
#pragma GCC unroll 16
        for (int c = 0; c < kWidth; ++c) sums[r][c] += factor * load(weights + (r * kWidth + c) * kLane);
      }
    for (; m < rows; ++m, weights += kWidth * kLane) {
      const V factor = all(p[m]);
#pragma GCC unroll 16
      for (int c = 0; c < kWidth; ++c) sums[0][c] += factor * load(weights + c * kLane);
    }
#pragma GCC unroll 16
    for (int c = 0; c < kWidth; ++c) {
      V total = sums[0][c];
#pragma GCC unroll 16
      for (int r = 1; r < kRows; ++r) total += sums[r][c];
      store(y + c * kLane, load(start + c * kLane) + total);
    }
  }

  // Events from t on, kEvents at a time, then half as many, and so on. Each sum has one order, however many events
  // there are.
  template <int kWidth, int kEvents>
  static void several(const float* weights, ConstTile p, int64_t rows, ConstTile start, Tile y, int64_t t,
                      int64_t count) {
    for (; t + kEvents <= count; t += kEvents) together<kWidth, kEvents>(weights, p, rows, start, y, t);
    if constexpr (kEvents > 1) {
      if (t < count) several<kWidth, kEvents / 2>(weights, p, rows, start, y, t, count);
    }
  }

  template <int kWidth, int kEvents>
  __attribute__((noinline)) static void together(const float* weights, ConstTile p, int64_t rows, ConstTile start,
                                                 Tile y, int64_t t) {
    V sums[kEvents][kWidth];
    const float* inputs[kEvents];
#pragma GCC unroll 16
    for (int e = 0; e < kEvents; ++e) {
      inputs[e] = p[t + e];
#pragma GCC unroll 16
      for (int c = 0; c < kWidth; ++c) sums[e][c] = V{};
    }
    for (int64_t m = 0; m < rows; ++m, weights += kWidth * kLane)
#pragma GCC unroll 16
      for (int e = 0; e < kEvents; ++e) {
        const V factor = all(inputs[e][m]);
#pragma GCC unroll 16
        for (int c = 0; c < kWidth; ++c) sums[e][c] += factor * load(weights + c * kLane);
      }
#pragma GCC unroll 16
    for (int e = 0; e < kEvents; ++e)
#pragma GCC unroll 16
      for (int c = 0; c < kWidth; ++c) store(y[t + e] + c * kLane, load(start[t + e] + c * kLane) + sums[e][c]);
  }

  int64_t rows_ = 0, vectors_ = 0, blocks_ = 1;
  Buffer<float> weights_;
};

// The products u_i · u_j with first ≤ i < last and i ≤ j, in order. May write one vector past the end.
inline void pairs(const float* u, int64_t width, int64_t first, int64_t last, float* products) {
  for (int64_t i = first; i < last; products += width - i, ++i) {
    const V left = all(u[i]);
    for (int64_t j = i; j < width; j += kLane) store(products + j - i, left * load(u + j));
  }
}

// The products x_p · u_j with first ≤ p < last, in order. May write one vector past the end.
inline void outer(const float* x, int64_t first, int64_t last, const float* u, int64_t width, float* products) {
  for (int64_t p = first; p < last; ++p, products += width) {
    const V left = all(x[p]);
    for (int64_t j = 0; j < width; j += kLane) store(products + j, left * load(u + j));
  }
}

inline int64_t pair_count(int64_t width) { return width * (width + 1) / 2; }

// Memory for the products of a tile. They are computed and used in parts that fit.
struct Room {
  float* data;
  int64_t size;
};

// y += Wᵀ (u_i u_j) for the rows of the matrix from `row` on, which hold the weights of all pairs.
inline void add_pairs(const Matrix& matrix, int64_t row, ConstTile u, int64_t width, Room room, Tile y, int64_t count) {
  const Tile products{room.data, room.size / count};
  for (int64_t first = 0, last = 0; first < width; first = last) {
    int64_t rows = 0;
    for (; last < width && rows + width - last <= products.stride; ++last) rows += width - last;
    for (int64_t t = 0; t < count; ++t) pairs(u[t], width, first, last, products[t]);
    matrix.apply(products, row, rows, y, y, count);
    row += rows;
  }
}

// y += Wᵀ (x_p u_j) for the first rows of the matrix, which hold the weights of all these products.
inline void add_outer(const Matrix& matrix, ConstTile x, int64_t size, ConstTile u, int64_t width, Room room, Tile y,
                      int64_t count) {
  const Tile products{room.data, room.size / count};
  const int64_t together = products.stride / width;
  for (int64_t first = 0; first < size; first += together) {
    const int64_t last = first + together < size ? first + together : size;
    for (int64_t t = 0; t < count; ++t) outer(x[t], first, last, u[t], width, products[t]);
    matrix.apply(products, first * width, (last - first) * width, y, y, count);
  }
}

// Stores the weights of the products that `pairs` computes, starting at row m: the sum of both halves of W, which has
// shape (outputs, width, width). Output n of W is output place(n) of the matrix.
template <class Place>
void put_symmetric(Matrix& matrix, const float* W, int64_t outputs, int64_t width, int64_t m, Place place) {
  for (int64_t i = 0; i < width; ++i)
    for (int64_t j = i; j < width; ++j, ++m)
      for (int64_t n = 0; n < outputs; ++n) {
        const float* of = W + n * width * width;
        matrix.at(m, place(n)) = i == j ? of[i * width + i] : of[i * width + j] + of[j * width + i];
      }
}

}  // namespace s7::S7_ISA::stream
