// Matrix-vector products for a single event. Their speed is limited by how fast the weights can be read.
//
// Outputs are in the lanes of vectors, in column blocks of at most eight vectors. Within a block the weights are stored
// in the order in which they are read.
#pragma once

#include "memory.h"
#include "simd.h"

namespace s7::S7_ISA::stream {

using V = Vector<float>;
inline constexpr int64_t kLane = kLanes<float>;
inline constexpr int64_t kMostVectors = 8;

inline int64_t padded(int64_t size) { return (size + kLane - 1) / kLane * kLane; }

// Copies `count` numbers and appends `filling` up to whole vectors, plus one vector that may be read past the end.
inline Buffer<float> padded_copy(const float* from, int64_t count, float filling = 0) {
  Buffer<float> copy(padded(count) + kLane);
  for (int64_t n = 0; n < copy.size(); ++n) copy[n] = n < count && from != nullptr ? from[n] : filling;
  return copy;
}

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

  // y = start + Wᵀ p. `start` may be y.
  void apply(const float* p, const float* start, float* y) const {
    const float* weights = weights_.data();
    for (int64_t block = 0, first = 0; block < blocks_; ++block) {
      const int64_t width = block_width(block);
      multiply(width, weights, p, start + first * kLane, y + first * kLane);
      weights += rows_ * width * kLane;
      first += width;
    }
  }

 private:
  // Blocks of about the same width.
  int64_t block_width(int64_t block) const { return vectors_ / blocks_ + (block < vectors_ % blocks_); }

  void multiply(int64_t width, const float* weights, const float* p, const float* start, float* y) const {
    switch (width) {
      case 1:
        return columns<1, 8>(weights, p, start, y);
      case 2:
        return columns<2, 4>(weights, p, start, y);
      case 3:
        return columns<3, 3>(weights, p, start, y);
      case 4:
        return columns<4, 2>(weights, p, start, y);
      case 5:
        return columns<5, 2>(weights, p, start, y);
      case 6:
        return columns<6, 2>(weights, p, start, y);
      case 7:
        return columns<7, 1>(weights, p, start, y);
      default:
        return columns<8, 1>(weights, p, start, y);
    }
  }

  // Computes kWidth vectors of outputs from kRows inputs at a time, which gives enough independent sums to hide the
  // latency of additions.
  template <int kWidth, int kRows>
  __attribute__((noinline)) void columns(const float* weights, const float* p, const float* start, float* y) const {
    V sums[kRows][kWidth];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 16
      for (int c = 0; c < kWidth; ++c) sums[r][c] = r == 0 ? load(start + c * kLane) : V{};
    int64_t m = 0;
    for (; m + kRows <= rows_; m += kRows, weights += kRows * kWidth * kLane)
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const V factor = all(p[m + r]);
#pragma GCC unroll 16
        for (int c = 0; c < kWidth; ++c) sums[r][c] += factor * load(weights + (r * kWidth + c) * kLane);
      }
    for (; m < rows_; ++m, weights += kWidth * kLane) {
      const V factor = all(p[m]);
#pragma GCC unroll 16
      for (int c = 0; c < kWidth; ++c) sums[0][c] += factor * load(weights + c * kLane);
    }
#pragma GCC unroll 16
    for (int c = 0; c < kWidth; ++c) {
      V total = sums[0][c];
#pragma GCC unroll 16
      for (int r = 1; r < kRows; ++r) total += sums[r][c];
      store(y + c * kLane, total);
    }
  }

  int64_t rows_ = 0, vectors_ = 0, blocks_ = 1;
  Buffer<float> weights_;
};

// The products u_i · u_j with i ≤ j, in order. May write one vector past the end.
inline void pairs(const float* u, int64_t width, float* products) {
  for (int64_t i = 0; i < width; products += width - i, ++i) {
    const V left = all(u[i]);
    for (int64_t j = i; j < width; j += kLane) store(products + j - i, left * load(u + j));
  }
}

// The products x_p · u_j, in order. May write one vector past the end.
inline void outer(const float* x, int64_t rows, const float* u, int64_t width, float* products) {
  for (int64_t p = 0; p < rows; ++p, products += width) {
    const V left = all(x[p]);
    for (int64_t j = 0; j < width; j += kLane) store(products + j, left * load(u + j));
  }
}

inline int64_t pair_count(int64_t width) { return width * (width + 1) / 2; }

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
