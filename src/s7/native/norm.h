// The norm at the start or end of a block, on tiles of events, and its gradient.
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

  // Normalises the rows u of a tile.
  void apply(const T* u, T* rows) const {
    for (int64_t k = 0; k < kTile; k += kGroup<T>) {
      const Statistics at = statistics(u + k);
      for (int64_t h = 0; h < width_; ++h)
        for (int v = 0; v < kVectors; ++v) {
          const int64_t place = h * kTile + k + v * kLanes<T>;
          store(rows + place, unit(load(u + place), h, at, v) * scale_[h] + shift(h));
        }
    }
  }

  // Replaces the gradient of the normalised rows by the gradient of the rows u. Adds the gradients of scale and shift
  // to `sums`.
  void back(const T* u, int64_t events, T* gradient, T* sums) const {
    clear_after(events, width_, gradient);
    for (int64_t k = 0; k < events; k += kGroup<T>) {
      const Statistics at = statistics(u + k);
      V mean[kVectors] = {}, along[kVectors] = {};
      for (int64_t h = 0; h < width_; ++h) {
        V of_scale = {}, of_shift = {};
        for (int v = 0; v < kVectors; ++v) {
          const int64_t place = h * kTile + k + v * kLanes<T>;
          const V arriving = load(gradient + place), weighted = arriving * scale_[h];
          const V unit = this->unit(load(u + place), h, at, v);
          mean[v] += weighted;
          along[v] += weighted * unit;
          of_scale += arriving * unit;
          of_shift += arriving;
        }
        sums[h] += total<T>(of_scale);
        sums[width_ + h] += total<T>(of_shift);
      }
      for (int v = 0; v < kVectors; ++v) {
        mean[v] = kind_ == NormKind::kLayer ? mean[v] / T(width_) : V{};
        along[v] = kind_ == NormKind::kAffine ? V{} : along[v] / T(width_);
      }
      for (int64_t h = 0; h < width_; ++h)
        for (int v = 0; v < kVectors; ++v) {
          const int64_t place = h * kTile + k + v * kLanes<T>;
          const V unit = this->unit(load(u + place), h, at, v);
          store(gradient + place, (load(gradient + place) * scale_[h] - mean[v] - unit * along[v]) * at.factor[v]);
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
  // The statistics of a group of events.
  struct Statistics {
    V mean[kVectors], factor[kVectors];
  };

  // u without its mean, in units of its deviation.
  V unit(V u, int64_t h, const Statistics& at, int v) const {
    return mean_ == nullptr ? (u - at.mean[v]) * at.factor[v] : u - mean_[h];
  }

  Statistics statistics(const T* u) const {
    Statistics at = {};
    V square[kVectors] = {};
    for (int v = 0; v < kVectors; ++v) at.factor[v] = all(T(1));
    if (kind_ == NormKind::kAffine) return at;
    if (kind_ == NormKind::kLayer) {
      for (int64_t h = 0; h < width_; ++h)
        for (int v = 0; v < kVectors; ++v) at.mean[v] += load(u + h * kTile + v * kLanes<T>);
      for (int v = 0; v < kVectors; ++v) at.mean[v] = at.mean[v] / T(width_);
    }
    for (int64_t h = 0; h < width_; ++h)
      for (int v = 0; v < kVectors; ++v) {
        const V off = load(u + h * kTile + v * kLanes<T>) - at.mean[v];
        square[v] += off * off;
      }
    for (int v = 0; v < kVectors; ++v) at.factor[v] = all(T(1)) / root<T>(square[v] / T(width_) + T(kNormEpsilon));
    return at;
  }

  T shift(int64_t h) const { return shift_ == nullptr ? T(0) : shift_[h]; }

  NormKind kind_;
  int64_t width_;
  const T *scale_, *shift_, *mean_;
};

}  // namespace s7::S7_ISA
