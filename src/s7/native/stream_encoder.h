// Encoders: from one event to a vector of the model's width.
#pragma once

#include "stream_image.h"

namespace s7::S7_ISA::stream {

using s7::stream::EncoderPlan;
using s7::stream::Encoding;

class Encoder {
 public:
  Encoder() = default;
  Encoder(const EncoderPlan& plan, int64_t width) : plan_(plan), width_(padded(width)) {
    if (reads_tokens()) {
      token_ = rows_of(plan.token, plan.tokens, width);
      x_ = rows_of(plan.x, plan.x == nullptr ? 0 : plan.tokens / 2 / plan.rows, width);
      y_ = rows_of(plan.y, plan.rows, width);
      polarity_ = rows_of(plan.polarity, 2, width);
      return;
    }
    int64_t features = plan.inputs;
    if (plan.kind == Encoding::kLinear) {
      mean_ = padded_copy(plan.mean, plan.inputs);
      scale_ = padded_copy(plan.scale, plan.inputs, 1);
    } else {
      divisor_ = plan.scale[0];
    }
    if (plan.kind == Encoding::kDense) {
      features = plan.hidden;
      hidden_ = Matrix(plan.inputs, padded(plan.hidden));
      hidden_.put(plan.W1, plan.hidden, plan.inputs, 0, 0);
      hidden_bias_ = padded_copy(plan.c1, plan.hidden);
    }
    if (plan.kind == Encoding::kImage) {
      pictures_ = Pictures(plan);
      features = pictures_.features();
    }
    last_ = Matrix(features, width_);
    last_.put(plan.W, width, features, 0, 0);
    last_bias_ = padded_copy(plan.c, width);
  }

  bool reads_tokens() const { return plan_.kind == Encoding::kToken || plan_.kind == Encoding::kEvent; }
  int64_t tokens() const { return plan_.tokens; }
  int64_t inputs() const { return plan_.inputs; }

  int64_t work_size() const {
    if (reads_tokens()) return 0;
    return padded(plan_.inputs) + hidden_.outputs() + pictures_.work_size() + kLane;
  }

  void encode(int64_t token, float* u) const {
    bool first = true;
    const auto add = [&](const Buffer<float>& table, int64_t row) {
      if (table.size() == 0) return;
      const float* from = table.data() + row * width_;
      for (int64_t n = 0; n < width_; n += kLane) store(u + n, first ? load(from + n) : load(u + n) + load(from + n));
      first = false;
    };
    add(token_, token);
    if (plan_.kind == Encoding::kToken) return;
    add(x_, token / 2 / plan_.rows);
    add(y_, token / 2 % plan_.rows);
    add(polarity_, token % 2);
  }

  void encode(const float* input, float* work, float* u) const {
    const int64_t size = padded(plan_.inputs);
    if (plan_.kind == Encoding::kLinear)
      for (int64_t n = 0; n < plan_.inputs; ++n) work[n] = (input[n] - mean_[n]) / scale_[n];
    else
      for (int64_t n = 0; n < plan_.inputs; ++n) work[n] = input[n] / divisor_;
    const float* features = work;
    if (plan_.kind == Encoding::kDense) {
      float* hidden = work + size;
      hidden_.apply(work, &hidden_bias_[0], hidden);
      for (int64_t n = 0; n < hidden_.outputs(); n += kLane) store(hidden + n, positive(load(hidden + n)));
      features = hidden;
    }
    if (plan_.kind == Encoding::kImage) features = pictures_.apply(work, work + size);
    last_.apply(features, &last_bias_[0], u);
  }

 private:
  Buffer<float> rows_of(const float* table, int64_t rows, int64_t width) const {
    if (table == nullptr) return {};
    Buffer<float> copy(rows * width_);
    copy.clear();
    for (int64_t n = 0; n < rows; ++n) std::memcpy(&copy[n * width_], table + n * width, size_t(width) * sizeof(float));
    return copy;
  }

  EncoderPlan plan_{};
  int64_t width_ = 0;
  float divisor_ = 1;
  Buffer<float> token_, x_, y_, polarity_, mean_, scale_, hidden_bias_, last_bias_;
  Matrix hidden_, last_;
  Pictures pictures_;
};

}  // namespace s7::S7_ISA::stream
