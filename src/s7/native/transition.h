// The transition of a layer on tiles of events: the factors a_k and the inputs v_k of the recurrence, and their
// gradients.
#pragma once

#include "discretization.h"
#include "tiles.h"

namespace s7::S7_ISA {

// Time gaps and flags of the events of a tile, as numbers.
template <class T>
struct Circumstances {
  alignas(64) T dt[kTile];
  alignas(64) T absent[kTile];
  alignas(64) T reset[kTile];

  Circumstances(const LayerInputs<T>& in, int64_t first, int64_t events) {
    for (int64_t k = 0; k < kTile; ++k) {
      const int mark = in.marks != nullptr && k < events ? int(in.marks[first + k]) : 0;
      dt[k] = in.dt == nullptr ? T(1) : k < events ? in.dt[first + k] : T(0);
      absent[k] = T((mark & kAbsent) != 0);
      reset[k] = T((mark & kReset) != 0);
    }
  }
};

template <class T>
class TileTransition {
 public:
  using V = Vector<T>;

  TileTransition(const LayerShape& shape, const LayerInputs<T>& in)
      : shape_(shape),
        states_(shape.state),
        half_(shape.state * kTile),
        oscillate_(shape.oscillate),
        has_step_(shape.transition == Transition::kStep || shape.transition == Transition::kHeldStep),
        marked_(in.marks != nullptr),
        in_(in),
        by_rate_(shape, in.dt != nullptr),
        by_step_(shape),
        decay_(has_step_ ? shape.state : 0) {
    for (int64_t p = 0; p < decay_.size(); ++p) decay_[p] = by_step_.decay_of(in.decay[p]);
    if (!oscillate_ || (in.dt != nullptr && !shape.counting)) return;
    regular_ = Buffer<T>(2 * states_);
    for (int64_t p = 0; p < states_; ++p) {
      const Turn<T> turned = turn(all(in.omega[p]));
      regular_[p] = turned.cosine[0];
      regular_[states_ + p] = turned.sine[0];
    }
  }

  // Computes a_k in `factor` from the raw parameters, and replaces `input` by v_k.
  void apply(const Circumstances<T>& here, const T* raw, T* factor, T* input) const {
    for_events(here, raw, [&](int64_t at, int64_t k, const Values& found) {
      set_factor(here, k, found.factor, factor + at);
      set_input(here, k, found.gain, input + at);
    });
  }

  // Computes a_k alone.
  void recompute_factor(const Circumstances<T>& here, const T* raw, T* factor) const {
    for_events(here, raw,
               [&](int64_t at, int64_t k, const Values& found) { set_factor(here, k, found.factor, factor + at); });
  }

  // The number of sums over events: the gradients of omega and decay.
  int64_t sums_size() const { return 2 * states_; }

  // Replaces `raw` by the gradient of w_k and `input` by the gradient of B_k u_k + b, given the adjoint `lambda` of x_k
  // and the state `before`. Writes the gradient of dt to `gap`.
  void back(const Circumstances<T>& here, const T* lambda, const T* before, T* raw, T* input, T* gap, T* sums) const {
    std::memset(gap, 0, kTile * sizeof(T));
    for (int64_t p = 0; p < states_; ++p) {
      V omega = {}, decay = {};
      for (int64_t k = 0; k < kTile; k += kLanes<T>) {
        const int64_t at = p * kTile + k;
        const Complex<T> adjoint = complex_at(lambda + at), drive = complex_at(input + at);
        Complex<T> of_factor = times_conjugate(adjoint, complex_at(before + at));
        Complex<T> of_gain = times_conjugate(adjoint, drive);
        if (marked_) {
          const Integers<T> absent = load(here.absent + k) != V{}, fixed = absent | (load(here.reset + k) != V{});
          of_factor = without(fixed, of_factor);
          of_gain = without(absent, of_gain);
        }
        const V dt = gap_of(here, p, k);
        const Gradients found =
            has_step_ ? step_back(p, dt, of_factor, of_gain, raw + at) : rate_back(p, dt, of_factor, of_gain, raw + at);
        Complex<T> of_drive =
            oscillate_ ? times_conjugate(adjoint, found.gain) : Complex<T>{adjoint.real * found.gain.real, V{}};
        if (marked_) of_drive = without(load(here.absent + k) != V{}, of_drive);
        store(input + at, of_drive.real);
        if (oscillate_) store(input + half_ + at, of_drive.imaginary);
        if (!shape_.counts(p)) store(gap + k, load(gap + k) + found.dt);
        omega += found.omega;
        decay += found.decay;
      }
      for (int lane = 0; lane < kLanes<T>; ++lane) {
        sums[p] += omega[lane];
        sums[states_ + p] += decay[lane];
      }
    }
  }

  void unpack(const T* sums, const LayerGradients<T>& out) const {
    if (out.omega != nullptr) std::memcpy(out.omega, sums, size_t(states_) * sizeof(T));
    if (out.decay == nullptr) return;
    // The parameter is the logarithm of the decay. Below its least value the decay is constant.
    for (int64_t p = 0; p < states_; ++p)
      out.decay[p] = decay_[p] > by_step_.kLeastDecay ? sums[states_ + p] * decay_[p] : T(0);
  }

 private:
  struct Values {
    Complex<T> factor, gain;
  };

  struct Gradients {
    Complex<T> gain;  // g_k itself
    V dt, omega, decay;
  };

  // Calls task(offset in the tile, event, a_k and g_k) for every vector of events of every state. With a constant rate,
  // all events of a state that reads no gaps have the same a_k and g_k.
  template <class F>
  void for_events(const Circumstances<T>& here, const T* raw, F task) const {
    for (int64_t p = 0; p < states_; ++p) {
      const bool constant = in_.W_w == nullptr && !reads_gaps(p);
      Values found;
      for (int64_t k = 0; k < kTile; k += kLanes<T>) {
        const int64_t at = p * kTile + k;
        if (k == 0 || !constant) found = values(p, load(raw + at), gap_of(here, p, k));
        task(at, k, found);
      }
    }
  }

  bool reads_gaps(int64_t p) const { return in_.dt != nullptr && !shape_.counts(p); }

  // The gaps of a vector of events, as state p reads them.
  V gap_of(const Circumstances<T>& here, int64_t p, int64_t k) const {
    return reads_gaps(p) ? load(here.dt + k) : all(T(1));
  }

  Complex<T> complex_at(const T* rows) const { return {load(rows), oscillate_ ? load(rows + half_) : V{}}; }

  static Complex<T> without(Integers<T> where, const Complex<T>& z) {
    return {select<T>(where, V{}, z.real), select<T>(where, V{}, z.imaginary)};
  }

  Values values(int64_t p, V w, V dt) const {
    if (has_step_) {
      const auto point = by_step_.at(w, all(decay_[p]), all(in_.omega[p]), dt);
      return {point.factor, point.gain};
    }
    const auto point = by_rate_.at(w, dt);
    if (!oscillate_) return {{point.modulus, V{}}, {point.gain, V{}}};
    const Turn<T> turned = turn_of(p, dt);
    return {{point.modulus * turned.cosine, point.modulus * turned.sine}, {point.gain, V{}}};
  }

  // exp(iω dt). It is the same for all events of a state that reads no gaps.
  Turn<T> turn_of(int64_t p, V dt) const {
    if (reads_gaps(p)) return turn(in_.omega[p] * dt);
    return {all(regular_[p]), all(regular_[states_ + p])};
  }

  void set_factor(const Circumstances<T>& here, int64_t k, Complex<T> a, T* factor) const {
    if (marked_) {
      const Integers<T> absent = load(here.absent + k) != V{}, reset = load(here.reset + k) != V{};
      a.real = select<T>(reset, V{}, select<T>(absent, all(T(1)), a.real));
      a.imaginary = select<T>(reset | absent, V{}, a.imaginary);
    }
    store(factor, a.real);
    if (oscillate_) store(factor + half_, a.imaginary);
  }

  void set_input(const Circumstances<T>& here, int64_t k, const Complex<T>& gain, T* input) const {
    const Complex<T> drive = complex_at(input);
    Complex<T> v = {drive.real * gain.real, drive.imaginary * gain.real};
    if (has_step_) v = product(drive, gain);
    if (marked_) v = without(load(here.absent + k) != V{}, v);
    store(input, v.real);
    if (oscillate_) store(input + half_, v.imaginary);
  }

  Gradients rate_back(int64_t p, V dt, const Complex<T>& of_factor, const Complex<T>& of_gain, T* raw) const {
    const V w = load(raw);
    const auto point = by_rate_.at(w, dt);
    V modulus = of_factor.real, angle = V{};
    if (oscillate_) {
      const Turn<T> turned = turn_of(p, dt);
      modulus = of_factor.real * turned.cosine + of_factor.imaginary * turned.sine;
      angle = (of_factor.imaginary * turned.cosine - of_factor.real * turned.sine) * point.modulus;
    }
    store(raw, by_rate_.raw_gradient(point, w, modulus * point.slope + of_gain.real * point.gain_slope));
    const V gap = angle * (oscillate_ ? in_.omega[p] : T(0)) - modulus * point.rate * point.modulus;
    return {{point.gain, V{}}, gap, angle * dt, V{}};
  }

  Gradients step_back(int64_t p, V dt, const Complex<T>& of_factor, const Complex<T>& of_gain, T* raw) const {
    const V w = load(raw), decay = all(decay_[p]), omega = all(in_.omega[p]);
    const auto point = by_step_.at(w, decay, omega, dt);
    const auto found = by_step_.back(point, decay, omega, dt, of_factor, of_gain);
    store(raw, found.w);
    return {point.gain, found.dt, found.omega, found.decay};
  }

  const LayerShape shape_;
  const int64_t states_, half_;
  const bool oscillate_, has_step_, marked_;
  const LayerInputs<T>& in_;
  const Discretization<T> by_rate_;
  const StepDiscretization<T> by_step_;
  Buffer<T> decay_, regular_;  // regular_: cos ω and sin ω
};

}  // namespace s7::S7_ISA
