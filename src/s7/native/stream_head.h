// The head: what it remembers of the signal of the last block, and the answer that it reads from that.
#pragma once

#include "stream_memory.h"

namespace s7::S7_ISA::stream {

using s7::stream::HeadPlan;
using s7::stream::Reading;

class Head {
 public:
  Head() = default;
  explicit Head(const HeadPlan& plan)
      : kind_(plan.kind),
        width_(plan.width),
        outputs_(plan.outputs),
        W_(plan.width, padded(plan.outputs)),
        bias_(padded_copy(plan.c, plan.outputs)),
        scale_(padded_copy(plan.scale, plan.outputs)),
        mean_(padded_copy(plan.mean, plan.outputs)) {
    W_.put(plan.W, plan.outputs, plan.width, 0, 0);
  }

  int64_t padded_outputs() const { return padded(outputs_); }

  void lay_out(Places& state) {
    last_ = state.add<float>(kind_ == Reading::kLast ? width_ : 0);
    sum_ = state.add<double>(kind_ == Reading::kLast ? 0 : width_);
    totals_ = state.add<Totals>(1);
  }

  void absorb(State state, const float* u, float gap) const {
    if (kind_ == Reading::kLast) {
      std::memcpy(state.at<float>(last_), u, size_t(width_) * sizeof(float));
      return;
    }
    Totals& totals = *state.at<Totals>(totals_);
    const double weight = kind_ == Reading::kTimeMean ? double(gap) : 1.0;
    accumulate<double>(u, weight, totals.weight, width_, state.at<double>(sum_));
    totals.weight += weight;
    totals.number += 1;
  }

  // Writes the answer. `features` and `padded_answer` are scratch memory.
  void read(State state, float* features, float* padded_answer, float* answer) const {
    if (kind_ == Reading::kLast) {
      std::memcpy(features, state.at<float>(last_), size_t(width_) * sizeof(float));
    } else {
      const Totals totals = *state.at<Totals>(totals_);
      const double divisor = totals.weight > 0 ? totals.weight : totals.number > 0 ? totals.number : 1;
      const double* sum = state.at<double>(sum_);
      for (int64_t n = 0; n < width_; ++n) features[n] = float(sum[n] / divisor);
    }
    W_.apply(features, &bias_[0], padded_answer);
    for (int64_t n = 0; n < outputs_; ++n) answer[n] = padded_answer[n] * scale_[n] + mean_[n];
  }

  // Calls f(pointer, count) for all numbers of the head's state.
  template <class F>
  void each_number(State state, F f) const {
    if (kind_ == Reading::kLast) return f(state.at<float>(last_), width_);
    f(state.at<double>(sum_), width_);
    f(&state.at<Totals>(totals_)->weight, 1);
    f(&state.at<Totals>(totals_)->number, 1);
  }

 private:
  Reading kind_ = Reading::kMean;
  int64_t width_ = 0, outputs_ = 0, last_ = 0, sum_ = 0, totals_ = 0;
  Matrix W_;
  Buffer<float> bias_, scale_, mean_;
};

}  // namespace s7::S7_ISA::stream
