// The stable transition on vectors of events: a_k and the gain as functions of w_k and dt_k, and their derivatives.
#pragma once

#include "kernels.h"
#include "simd.h"

namespace s7::S7_ISA {

template <class T>
class Discretization {
 public:
  using V = Vector<T>;

  struct Point {
    V rate;        // r = 1 / (a w² + b)
    V modulus;     // |a_k|: 1 - r in regular time, exp(-r dt) otherwise
    V slope;       // d modulus / dr
    V gain;        // g
    V gain_slope;  // dg / dr
  };

  Discretization(const LayerShape& shape, bool timed)
      : a_(T(shape.a)), b_(T(shape.b)), exponential_(timed || shape.oscillate), gain_(shape.gain) {}

  Point at(V w, V dt) const {
    Point point;
    const V one = all(T(1)), r = one / (a_ * w * w + b_);
    point.rate = r;
    if (exponential_) {
      point.modulus = exponential(-r * dt).value;
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
      const V square = exponential_ ? -exponential(T(-2) * r).beyond : r * (T(2) - r);
      const Integers<T> positive = square > V{};
      point.gain = root<T>(select<T>(positive, square, V{}));
      const V slope = (exponential_ ? one - square : one - r) / select<T>(positive, point.gain, one);
      point.gain_slope = select<T>(positive, slope, V{});
    }
    return point;
  }

  // Returns the gradient of w, which is dr / dw times `rate_gradient`.
  V raw_gradient(const Point& point, V w, V rate_gradient) const {
    return T(-2) * a_ * w * (point.rate * rate_gradient) * point.rate;
  }

 private:
  T a_, b_;
  bool exponential_;
  Gain gain_;
};

}  // namespace s7::S7_ISA
