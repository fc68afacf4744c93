// The statistics of each sequence that batch norms need: per channel, the mean and the sum of squared deviations.
#pragma once

#include "memory.h"
#include "parallel.h"
#include "simd.h"

namespace s7::S7_ISA {

template <class T>
class SequenceMoments {
 public:
  using V = Vector<T>;

  SequenceMoments(int64_t length, int64_t width, const T* u, const T* weights)
      : length_(length), width_(width), u_(u), weights_(weights) {
    for (int64_t k = 0; k < length; ++k) count_ += weight(k);
  }

  T count() const { return count_; }

  // `square` is Σ weight (u - mean)². Both are zero if all weights are.
  void compute(T* mean, T* square) const {
    int64_t h = 0;
    for (; h + kWide * kLanes<T> <= width_; h += kWide * kLanes<T>) columns<V, kWide>(h, mean, square);
    for (; h + kLanes<T> <= width_; h += kLanes<T>) columns<V, 1>(h, mean, square);
    for (; h < width_; ++h) columns<T, 1>(h, mean, square);
  }

 private:
  static constexpr int kWide = 4;
  static constexpr int64_t kPart = 128;  // events that are added up by themselves, for precision

  T weight(int64_t k) const { return weights_ == nullptr ? T(1) : weights_[k]; }

  template <class N>
  static N read(const T* from) {
    N value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }

  // N is a number or a vector of them.
  template <class N, int kCount>
  void columns(int64_t h, T* mean, T* square) const {
    constexpr int64_t kStep = sizeof(N) / sizeof(T);
    N total[kCount] = {}, centre[kCount];
    sum<N, kCount>(h, [](N u, int) { return u; }, total);
    for (int n = 0; n < kCount; ++n) {
      centre[n] = total[n] / (count_ > 1 ? count_ : T(1));
      std::memcpy(mean + h + n * kStep, &centre[n], sizeof(N));
      total[n] = N{};
    }
    sum<N, kCount>(h, [&](N u, int n) { return (u - centre[n]) * (u - centre[n]); }, total);
    for (int n = 0; n < kCount; ++n) std::memcpy(square + h + n * kStep, &total[n], sizeof(N));
  }

  template <class N, int kCount, class F>
  void sum(int64_t h, F value, N (&total)[kCount]) const {
    constexpr int64_t kStep = sizeof(N) / sizeof(T);
    for (int64_t first = 0; first < length_; first += kPart) {
      const int64_t last = first + kPart < length_ ? first + kPart : length_;
      N part[kCount] = {};
      for (int64_t k = first; k < last; ++k) {
        const T* row = u_ + k * width_ + h;
        for (int n = 0; n < kCount; ++n) part[n] += weight(k) * value(read<N>(row + n * kStep), n);
      }
      for (int n = 0; n < kCount; ++n) total[n] += part[n];
    }
  }

  const int64_t length_, width_;
  const T *u_, *weights_;
  T count_ = 0;
};

template <class T>
void moments(int64_t batch, int64_t length, int64_t width, const T* u, const T* weights, T* count, T* mean, T* square,
             Pool pool) {
  parallel(pool, batch, [&](int64_t n) {
    const SequenceMoments<T> of(length, width, u + n * length * width,
                                weights == nullptr ? nullptr : weights + n * length);
    count[n] = of.count();
    of.compute(mean + n * width, square + n * width);
  });
}

}  // namespace s7::S7_ISA
