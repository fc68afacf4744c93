// Functions for single events: activations, norms, and one step of the state.
#pragma once

#include "stream_matrix.h"
#include "stream_plan.h"

namespace s7::S7_ISA::stream {

using s7::stream::Normalization;
using s7::stream::Transition;

inline V absolute(V x) { return select<float>(x < V{}, -x, x); }

// exp(x) for x of any sign, with x clamped to at most 88.
inline V exponential_any(V x) { return exponential(select<float>(x > all(88.0f), all(88.0f), x)).value; }

inline V sigmoid(V x) {
  const V decay = exponential(-absolute(x)).value;
  return select<float>(x < V{}, decay, all(1.0f)) / (decay + 1.0f);
}

// gelu(x) = x (1 + tanh(sqrt(2 / π) (x + 0.044715 x³))) / 2, the form that JAX uses.
inline V gelu(V x) { return x * sigmoid(1.5957691216f * (x + 0.044715f * x * x * x)); }

// log(1 + exp(x)) = max(x, 0) + log(1 + t), t = exp(-|x|); log(1 + t) = 2 artanh(s), s = t / (2 + t) ≤ 1/3.
inline V softplus(V x) {
  const V t = exponential(-absolute(x)).value, s = t / (t + 2.0f), q = s * s;
  V series = all(1.0f / 15);
  series = series * q + 1.0f / 13;
  series = series * q + 1.0f / 11;
  series = series * q + 1.0f / 9;
  series = series * q + 1.0f / 7;
  series = series * q + 1.0f / 5;
  series = series * q + 1.0f / 3;
  series = series * q + 1.0f;
  return select<float>(x > V{}, x, V{}) + 2.0f * s * series;
}

inline float sum(V x) {
  float total = 0;
  for (int64_t n = 0; n < kLane; ++n) total += x[n];
  return total;
}

class Norm {
 public:
  Norm() = default;
  Norm(Normalization kind, int64_t width, const float* scale, const float* shift, const float* mean,
       const float* variance)
      : kind_(kind),
        width_(width),
        scale_(padded_copy(scale, width)),
        shift_(padded_copy(shift, width)),
        mean_(padded_copy(mean, width)),
        present_(padded_copy(nullptr, width)) {
    for (int64_t n = 0; n < width; ++n) present_[n] = 1;
    if (kind == Normalization::kBatch)
      for (int64_t n = 0; n < width; ++n) scale_[n] = 1 / std::sqrt(variance[n] + kEpsilon) * scale[n];
  }

  // Returns the normalised vector, which is u itself or stored in `out`.
  const float* apply(const float* u, float* out) const {
    const int64_t size = padded(width_);
    if (kind_ == Normalization::kNone) return u;
    if (kind_ == Normalization::kBatch) {
      for (int64_t n = 0; n < size; n += kLane)
        store(out + n, (load(u + n) - load(&mean_[n])) * load(&scale_[n]) + load(&shift_[n]));
      return out;
    }
    V total{};
    if (kind_ == Normalization::kLayer)
      for (int64_t n = 0; n < size; n += kLane) total += load(u + n);
    const V mean = all(sum(total) / float(width_));
    V squares{};
    for (int64_t n = 0; n < size; n += kLane) {
      const V centred = (load(u + n) - mean) * load(&present_[n]);
      squares += centred * centred;
      store(out + n, centred);
    }
    const V factor = all(1 / std::sqrt(sum(squares) / float(width_) + kEpsilon));
    for (int64_t n = 0; n < size; n += kLane)
      store(out + n, load(out + n) * factor * load(&scale_[n]) + load(&shift_[n]));
    return out;
  }

 private:
  static constexpr float kEpsilon = 1e-5f;

  Normalization kind_ = Normalization::kNone;
  int64_t width_ = 0;
  Buffer<float> scale_, shift_, mean_, present_;
};

// One step of the state. `reduce` replaces the raw parameter w_k by a quantity that does not depend on the gap (r_k for
// Stable, Δ_k for Step, the decay rate for Ring, w_k itself for Plain). `advance` computes a_k and the gain from this
// quantity and the gap.
class StateStep {
 public:
  StateStep() = default;
  explicit StateStep(const s7::stream::BlockPlan& plan)
      : kind_(plan.transition),
        gain_(plan.gain),
        complex_(plan.complex_state),
        held_(plan.held),
        size_(padded(plan.state)),
        a_(plan.a),
        b_(plan.b_rate),
        omega_(padded_copy(plan.omega, plan.state)),
        reads_gaps_(padded_copy(nullptr, plan.state, 1)),
        decay_(padded_copy(nullptr, plan.state, 1)),
        inverse_real_(padded_copy(nullptr, plan.state)),
        inverse_imaginary_(padded_copy(nullptr, plan.state)) {
    if (plan.counting)
      for (int64_t n = 1; n < plan.state; n += 2) reads_gaps_[n] = 0;
    if (kind_ != Transition::kStep) return;
    for (int64_t n = 0; n < plan.state; ++n) {
      const double decay = std::fmax(std::exp(double(plan.decay[n])), 1e-4), omega = plan.omega[n];
      const double square = decay * decay + omega * omega;
      decay_[n] = float(decay);
      inverse_real_[n] = float(-decay / square);  // 1 / Λ with Λ = -decay + i omega
      inverse_imaginary_[n] = float(-omega / square);
    }
  }

  // Works in place.
  void reduce(float* w) const {
    for (int64_t n = 0; n < size_; n += kLane) {
      V q = load(w + n);
      if (kind_ == Transition::kStable) q = 1.0f / (a_ * q * q + b_);
      if (kind_ == Transition::kStep) q = softplus(q);
      if (kind_ == Transition::kRing) q = exponential_any(q);
      store(w + n, q);
    }
  }

  // x = a_k x + g_k input. `gap` is not read in regular time, nor by states that count events.
  void advance(const float* reduced, const float* input, bool timed, float gap, float* x) const {
    if (complex_)
      rotate(reduced, input, timed ? gap : 1.0f, x);
    else if (timed)
      decay<true>(reduced, input, gap, x);
    else
      decay<false>(reduced, input, gap, x);
  }

 private:
  template <bool kTimed>
  void decay(const float* reduced, const float* input, float gap, float* x) const {
    for (int64_t n = 0; n < size_; n += kLane) {
      const V q = load(reduced + n), rate = kind_ == Transition::kStable ? q : 1.0f - q;
      V a = kind_ == Transition::kStable ? 1.0f - q : q;
      if (kTimed) a = exponential_any(-rate * gap_of(n, gap));
      V v = load(input + n);
      if (gain_ == Gain::kRate) v = v * rate;
      if (gain_ == Gain::kVariance) v = v * root_or_zero(kTimed ? lost_in_a_unit(rate) : rate * (2.0f - rate));
      store(x + n, a * load(x + n) + v);
    }
  }

  void rotate(const float* reduced, const float* input, float gap, float* x) const {
    for (int64_t n = 0; n < size_; n += kLane) {
      V rate = load(reduced + n), frequency = load(&omega_[n]);
      V real = load(input + n), imaginary = load(input + size_ + n);
      if (kind_ == Transition::kStep) {
        frequency = rate * frequency;
        rate = rate * load(&decay_[n]);
      }
      const V dt = gap_of(n, gap), modulus = exponential(-rate * dt).value;
      const Turn<float> angle = turn(frequency * dt);
      const V a_real = modulus * angle.cosine, a_imaginary = modulus * angle.sine;
      if (kind_ == Transition::kStep) {
        // The gain is (exp(Λ Δ) - 1) / Λ, or (a - 1) / Λ if the input is held over the gap.
        V moved_real = a_real - 1.0f, moved_imaginary = a_imaginary;
        if (!held_ && gap != 1.0f) {
          const V unit = exponential(-rate).value;
          const Turn<float> unit_angle = turn(frequency);
          moved_real = unit * unit_angle.cosine - 1.0f;
          moved_imaginary = unit * unit_angle.sine;
        }
        const V c = load(&inverse_real_[n]), d = load(&inverse_imaginary_[n]);
        const V gain_real = moved_real * c - moved_imaginary * d, gain_imaginary = moved_real * d + moved_imaginary * c;
        const V product = real * gain_real - imaginary * gain_imaginary;
        imaginary = real * gain_imaginary + imaginary * gain_real;
        real = product;
      } else {
        V gain = all(1.0f);
        if (gain_ == Gain::kRate) gain = rate;
        if (gain_ == Gain::kVariance) gain = root_or_zero(-exponential(-2.0f * rate).beyond);
        real = real * gain;
        imaginary = imaginary * gain;
      }
      const V x_real = load(x + n), x_imaginary = load(x + size_ + n);
      store(x + n, a_real * x_real - a_imaginary * x_imaginary + real);
      store(x + size_ + n, a_real * x_imaginary + a_imaginary * x_real + imaginary);
    }
  }

  // A gap as the states from n on read it: as it is, or 1.
  V gap_of(int64_t n, float gap) const {
    const V reads = load(&reads_gaps_[n]);
    return reads * gap + (1.0f - reads);
  }

  // 1 - |a|² over one unit of time.
  V lost_in_a_unit(V rate) const {
    if (kind_ == Transition::kStable) return -exponential(-2.0f * rate).beyond;
    const V unit = exponential_any(-rate);
    return 1.0f - unit * unit;
  }

  static V root_or_zero(V x) { return root<float>(select<float>(x > V{}, x, V{})); }

  Transition kind_ = Transition::kStable;
  Gain gain_ = Gain::kNone;
  bool complex_ = false, held_ = false;
  int64_t size_ = 0;
  float a_ = 1, b_ = 1;
  Buffer<float> omega_, reads_gaps_, decay_, inverse_real_, inverse_imaginary_;
};

}  // namespace s7::S7_ISA::stream
