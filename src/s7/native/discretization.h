// The transitions on vectors: the factor a_k and the gain g_k as functions of w_k and dt_k, and their derivatives.
//
//     Stable   r = 1 / (a w² + b)      a_k = 1 - r in regular time, exp((-r + iω) dt) otherwise
//     Plain    r = 1 - w               as Stable
//     Ring     r = exp(w)              a_k = exp((-r + iω) dt)
//     Step     Δ = softplus(w)         a_k = exp(Λ Δ dt) with Λ = -exp(decay) + iω
#pragma once

#include "kernels.h"
#include "simd.h"

namespace s7::S7_ISA {

template <class T>
struct Complex {
  Vector<T> real, imaginary;
};

// x · ȳ, which takes the gradient of a product to the gradient of a factor.
template <class T>
inline Complex<T> times_conjugate(const Complex<T>& x, const Complex<T>& y) {
  return {x.real * y.real + x.imaginary * y.imaginary, x.imaginary * y.real - x.real * y.imaginary};
}

template <class T>
inline Complex<T> product(const Complex<T>& x, const Complex<T>& y) {
  return {x.real * y.real - x.imaginary * y.imaginary, x.imaginary * y.real + x.real * y.imaginary};
}

// The transitions with a rate. Their gain is real.
template <class T>
class Discretization {
 public:
  using V = Vector<T>;

  struct Point {
    V rate;        // r
    V modulus;     // |a_k|: 1 - r in regular time, exp(-r dt) otherwise
    V slope;       // d modulus / dr
    V gain;        // g
    V gain_slope;  // dg / dr
  };

  Discretization(const LayerShape& shape, bool timed)
      : transition_(shape.transition),
        a_(T(shape.a)),
        b_(T(shape.b)),
        exponential_(timed || shape.oscillate),
        gain_(shape.gain) {}

  Point at(V w, V dt) const {
    Point point;
    const V one = all(T(1)), r = rate(w);
    point.rate = r;
    if (exponential_) {
      point.modulus = decay(-r * dt).value;
      point.slope = -dt * point.modulus;
    } else {
      point.modulus = one - r;
      point.slope = -one;
    }
    point.gain = one;
    point.gain_slope = V{};
    if (gain_ == Gain::kRate) {
      point.gain = r;
      point.gain_slope = one;
    } else if (gain_ == Gain::kVariance) {
      // 1 - |a|² over one unit of time, computed without cancellation. Where it is not positive, the gain and its slope
      // are zero.
      const V square = exponential_ ? -decay(T(-2) * r).beyond : r * (T(2) - r);
      const Integers<T> positive = square > V{};
      point.gain = root<T>(select<T>(positive, square, V{}));
      const V slope = (exponential_ ? one - square : one - r) / select<T>(positive, point.gain, one);
      point.gain_slope = select<T>(positive, slope, V{});
    }
    return point;
  }

  // Returns |a_k| over the gap dt, for a rate from `at`.
  V modulus(V rate, V dt) const { return decay(-rate * dt).value; }

  // Returns the gradient of w, which is dr / dw times `rate_gradient`.
  V raw_gradient(const Point& point, V w, V rate_gradient) const {
    if (transition_ == Transition::kPlain) return -rate_gradient;
    if (transition_ == Transition::kRing) return point.rate * rate_gradient;
    return T(-2) * a_ * w * (point.rate * rate_gradient) * point.rate;
  }

 private:
  V rate(V w) const {
    if (transition_ == Transition::kPlain) return T(1) - w;
    if (transition_ == Transition::kRing) return growth(w).value;
    return all(T(1)) / (a_ * w * w + b_);
  }

  // exp(x), where x is positive only for the transitions without a bound on w.
  Exponential<T> decay(V x) const { return transition_ == Transition::kPlain ? growth(x) : exponential(x); }

  // exp(x) for any x.
  static Exponential<T> growth(V x) {
    const V most = all(T(88)), infinite = all(std::numeric_limits<T>::infinity());
    const Integers<T> overflows = x > most;
    const Exponential<T> e = exponential(select<T>(overflows, most, x));
    return {select<T>(overflows, infinite, e.value), select<T>(overflows, infinite, e.beyond)};
  }

  Transition transition_;
  T a_, b_;
  bool exponential_;
  Gain gain_;
};

// The transitions with a step size. Their gain is complex: (exp(Λ Δ τ) - 1) / Λ, where τ is 1, or dt if the input is
// held.
template <class T>
class StepDiscretization {
 public:
  using V = Vector<T>;

  struct Point {
    V size, size_slope;  // Δ and dΔ / dw
    Complex<T> factor;   // a_k
    Complex<T> hold;     // exp(Λ Δ τ)
    Complex<T> gain;     // g_k
  };

  struct Gradients {
    V w, dt, decay, omega;
  };

  // -Λ is kept away from zero, by which the gain divides.
  static constexpr T kLeastDecay = T(1e-4);

  // Returns exp(decay), not below its least value.
  static T decay_of(T decay) {
    const T e = std::exp(decay);
    return e > kLeastDecay ? e : kLeastDecay;
  }

  explicit StepDiscretization(const LayerShape& shape) : held_(shape.transition == Transition::kHeldStep) {}

  // `decay` is that of `decay_of`, so Λ = -decay + iω.
  Point at(V w, V decay, V omega, V dt) const {
    Point point;
    const V one = all(T(1)), small = exponential(select<T>(w < V{}, w, -w)).value;
    point.size = select<T>(w > V{}, w, V{}) + log_of_one_plus(small);
    point.size_slope = select<T>(w < V{}, small, one) / (one + small);
    const Power over_gap = power(point.size * decay * dt, point.size * omega * dt);
    const Power over_hold = held_ ? over_gap : power(point.size * decay, point.size * omega);
    point.factor = over_gap.value;
    point.hold = over_hold.value;
    point.gain = divided(over_hold.beyond, decay, omega);
    return point;
  }

  // Returns the gradients of w, dt, `decay` and omega from those of a_k and g_k.
  Gradients back(const Point& point, V decay, V omega, V dt, const Complex<T>& factor_gradient,
                 const Complex<T>& gain_gradient) const {
    const V unit = held_ ? dt : all(T(1));
    // The gradients of the exponents Λ Δ dt and Λ Δ τ.
    const Complex<T> of_gap = times_conjugate(factor_gradient, point.factor);
    const Complex<T> numerator = conjugate_divided(gain_gradient, decay, omega);
    const Complex<T> of_hold = times_conjugate(numerator, point.hold);
    const V along_gap = of_gap.imaginary * omega - of_gap.real * decay;
    const V along_hold = of_hold.imaginary * omega - of_hold.real * decay;
    // The gain also depends on Λ through its denominator.
    const Complex<T> denominator = times_conjugate(numerator, point.gain);
    const V size = along_gap * dt + along_hold * unit;
    V gap = along_gap * point.size;
    if (held_) gap += along_hold * point.size;
    const V real = (of_gap.real * dt + of_hold.real * unit) * point.size - denominator.real;
    const V imaginary = (of_gap.imaginary * dt + of_hold.imaginary * unit) * point.size - denominator.imaginary;
    return {size * point.size_slope, gap, -real, imaginary};
  }

 private:
  struct Power {
    Complex<T> value, beyond;  // exp(-x + iy) and exp(-x + iy) - 1
  };

  // By the half angle, so that nothing cancels for small x and y.
  static Power power(V x, V y) {
    const Exponential<T> e = exponential(-x);
    const Turn<T> half = turn(T(0.5) * y);
    const V versine = T(2) * half.sine * half.sine, sine = T(2) * half.sine * half.cosine;
    const V cosine = T(1) - versine;
    return {{e.value * cosine, e.value * sine}, {e.beyond * cosine - versine, e.value * sine}};
  }

  // z / Λ with Λ = -decay + iω.
  static Complex<T> divided(const Complex<T>& z, V decay, V omega) {
    const V square = decay * decay + omega * omega;
    return {(z.imaginary * omega - z.real * decay) / square, -(z.imaginary * decay + z.real * omega) / square};
  }

  // z divided by the conjugate of Λ.
  static Complex<T> conjugate_divided(const Complex<T>& z, V decay, V omega) { return divided(z, decay, -omega); }

  // log(1 + t) for t from 0 to 1: 2 artanh(t / (2 + t)) by its series, whose argument is at most 1/3.
  static V log_of_one_plus(V t) {
    if constexpr (sizeof(T) > sizeof(float)) return each<T>(t, [](T q) { return std::log1p(q); });
    const V s = t / (t + T(2)), q = s * s;
    V series = all(T(1) / 17);
    for (int n = 15; n > 0; n -= 2) series = series * q + T(1) / T(n);
    return T(2) * s * series;
  }

  bool held_;
};

}  // namespace s7::S7_ISA
