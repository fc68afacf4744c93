// The two convolutions of the image encoder on one image: 5×5, pool, 3×3 with stride 2, pool. The linear map is applied
// elsewhere.
#pragma once

#include "stream_math.h"

namespace s7::S7_ISA::stream {

inline V positive(V x) { return select<float>(x > V{}, x, V{}); }
inline int64_t half(int64_t size) { return (size + 1) / 2; }

// A convolution with same padding and a stride, followed by 2×2 max pooling, bias and ReLU.
class PooledConvolution {
 public:
  PooledConvolution() = default;
  // kernel: (side, side, inputs, outputs).
  PooledConvolution(const float* kernel, const float* bias, int64_t side, int64_t stride, int64_t height,
                    int64_t breadth, int64_t inputs, int64_t outputs)
      : side_(side),
        stride_(stride),
        height_(height),
        breadth_(breadth),
        inputs_(inputs),
        channels_(padded(outputs)),
        kernel_(side * side * inputs * channels_),
        bias_(padded_copy(bias, outputs)) {
    kernel_.clear();
    for (int64_t n = 0; n < side * side * inputs; ++n)
      std::memcpy(&kernel_[n * channels_], kernel + n * outputs, size_t(outputs) * sizeof(float));
  }

  int64_t rows() const { return half((height_ + stride_ - 1) / stride_); }
  int64_t columns() const { return half((breadth_ + stride_ - 1) / stride_); }
  int64_t channels() const { return channels_; }
  int64_t size() const { return rows() * columns() * channels_; }

  // picture: (height, breadth, pitch), where only the first `inputs` entries of the last axis are read. result: (rows,
  // columns, channels).
  void apply(const float* picture, int64_t pitch, float* result) const {
    const int64_t high = (height_ + stride_ - 1) / stride_, wide = (breadth_ + stride_ - 1) / stride_;
    const int64_t above = margin(height_, high), left = margin(breadth_, wide);
    for (int64_t y = 0; y < rows(); ++y)
      for (int64_t x = 0; x < columns(); ++x, result += channels_)
        for (int64_t c = 0; c < channels_; c += kLane) {
          V largest = all(-INFINITY);
          for (int64_t i = 2 * y; i < 2 * y + 2 && i < high; ++i)
            for (int64_t j = 2 * x; j < 2 * x + 2 && j < wide; ++j) {
              const V here = at(picture, pitch, i * stride_ - above, j * stride_ - left, c);
              largest = select<float>(here > largest, here, largest);
            }
          store(result + c, positive(largest + load(&bias_[c])));
        }
  }

 private:
  int64_t margin(int64_t size, int64_t results) const {
    const int64_t missing = (results - 1) * stride_ + side_ - size;
    return missing > 0 ? missing / 2 : 0;
  }

  V at(const float* picture, int64_t pitch, int64_t top, int64_t left, int64_t channel) const {
    V sum{};
    for (int64_t a = 0; a < side_; ++a) {
      if (top + a < 0 || top + a >= height_) continue;
      for (int64_t b = 0; b < side_; ++b) {
        if (left + b < 0 || left + b >= breadth_) continue;
        const float* pixel = picture + ((top + a) * breadth_ + left + b) * pitch;
        const float* weights = &kernel_[(a * side_ + b) * inputs_ * channels_ + channel];
        for (int64_t n = 0; n < inputs_; ++n) sum += pixel[n] * load(weights + n * channels_);
      }
    }
    return sum;
  }

  int64_t side_ = 0, stride_ = 1, height_ = 0, breadth_ = 0, inputs_ = 0, channels_ = 0;
  Buffer<float> kernel_, bias_;
};

class Pictures {
 public:
  Pictures() = default;
  explicit Pictures(const s7::stream::EncoderPlan& plan)
      : colours_(plan.colours),
        channels_(plan.channels),
        first_(plan.W1, plan.c1, 5, 1, plan.height, plan.breadth, plan.colours, plan.channels),
        second_(plan.W2, plan.c2, 3, 2, first_.rows(), first_.columns(), plan.channels, plan.channels) {}

  int64_t features() const { return second_.rows() * second_.columns() * channels_; }
  int64_t work_size() const { return channels_ == 0 ? 0 : first_.size() + second_.size() + padded(features()); }

  // Returns (rows, columns, channels) without padding, stored in `work`.
  const float* apply(const float* picture, float* work) const {
    float *once = work, *twice = once + first_.size(), *flat = twice + second_.size();
    first_.apply(picture, colours_, once);
    second_.apply(once, first_.channels(), twice);
    for (int64_t n = 0; n < second_.rows() * second_.columns(); ++n)
      std::memcpy(flat + n * channels_, twice + n * second_.channels(), size_t(channels_) * sizeof(float));
    return flat;
  }

 private:
  int64_t colours_ = 0, channels_ = 0;
  PooledConvolution first_, second_;
};

}  // namespace s7::S7_ISA::stream
