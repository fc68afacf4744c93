// The norm at the start of a block, on tiles of events, and its gradient.
//
//     layer    (u - mean) / std · scale + shift        over the channels of an event
//     rms      u / sqrt(mean u²) · scale
//     affine   (u - mean) · scale + shift              batch norm, with its statistics as weights
#pragma once

#include "kernels.h"
#include "tiles.h"

namespace s7::S7_ISA {

template <class T>
class Norm {
 public:
  using V = Vector<T>;

  Norm(NormKind kind, int64_t width, const T* scale, const T* shift, const T* mean)
      : kind_(kind), width_(width), scale_(scale), shift_(shift), mean_(mean) {}

  bool active() const { return kind_ != NormKind::kNone; }
  int64_t sums_size() const { return 2 * width_; }

  // Normalises the first `width` rows of a tile in place.
  void apply(T* rows) const {
    if (!active()) return;
    for (int64_t k = 0; k < kTile; k += kLanes<T>) {
      const Statistics at = statistics(rows + k);
      for (int64_t h = 0; h < width_; ++h) {
        T* place = rows + h * kTile + k;
        store(place, unit(load(place), h, at) * scale_[h] + shift(h));
      }
    }
  }

  // Replaces the gradient of the normalised rows by the gradient of the rows u. Adds the gradients of scale and shift
  // to `sums`.
  void back(const T* u, int64_t events, T* gradient, T* sums) const {
    if (!active()) return;
    for (int64_t k = 0; k < events; k += kLanes<T>) {
      const Statistics at = statistics(u + k);
      const Integers<T> inside = lanes_below(events - k);
      V mean = {}, along = {};
      for (int64_t h = 0; h < width_; ++h) {
        const V arriving = select<T>(inside, load(gradient + h * kTile + k), V{});
        const V unit = this->unit(load(u + h * kTile + k), h, at), weighted = arriving * scale_[h];
        mean += weighted;
        along += weighted * unit;
        sums[h] += total<T>(arriving * unit);
        sums[width_ + h] += total<T>(arriving);
      }
      mean = kind_ == NormKind::kLayer ? mean / T(width_) : V{};
      along = kind_ == NormKind::kAffine ? V{} : along / T(width_);
      for (int64_t h = 0; h < width_; ++h) {
        T* place = gradient + h * kTile + k;
        const V unit = this->unit(load(u + h * kTile + k), h, at);
        store(place, (load(place) * scale_[h] - mean - unit * along) * at.factor);
      }
    }
  }

  void unpack(const T* sums, T* scale, T* shift, T* mean) const {
    if (scale != nullptr) std::memcpy(scale, sums, size_t(width_) * sizeof(T));
    if (shift != nullptr) std::memcpy(shift, sums + width_, size_t(width_) * sizeof(T));
    if (mean == nullptr) return;
    for (int64_t h = 0; h < width_; ++h) mean[h] = -scale_[h] * sums[width_ + h];
  }

 private:
  struct Statistics {
    V mean, factor;
  };

  // u without its mean, in units of its deviation.
  V unit(V u, int64_t h, const Statistics& at) const {
    return mean_ == nullptr ? (u - at.mean) * at.factor : u - mean_[h];
  }

  Statistics statistics(const T* u) const {
    const V one = all(T(1));
    if (kind_ == NormKind::kAffine) return {V{}, one};
    V mean = {}, square = {};
    if (kind_ == NormKind::kLayer) {
      for (int64_t h = 0; h < width_; ++h) mean += load(u + h * kTile);
      mean = mean / T(width_);
    }
    for (int64_t h = 0; h < width_; ++h) {
      const V off = load(u + h * kTile) - mean;
      square += off * off;
    }
    return {mean, one / root<T>(square / T(width_) + T(kNormEpsilon))};
  }

  T shift(int64_t h) const { return shift_ == nullptr ? T(0) : shift_[h]; }

  static Integers<T> lanes_below(int64_t count) {
    Integers<T> inside;
    for (int n = 0; n < kLanes<T>; ++n) inside[n] = n < count ? -1 : 0;
    return inside;
  }

  NormKind kind_;
  int64_t width_;
  const T *scale_, *shift_, *mean_;
};

}  // namespace s7::S7_ISA
