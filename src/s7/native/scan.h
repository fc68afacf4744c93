// The recurrence x_k = a_k x_{k-1} + v_k, one sequence at a time, with states in the lanes of the vectors.
#pragma once

#include "kernels.h"
#include "parallel.h"
#include "simd.h"

namespace s7::S7_ISA {

// The order in which the events of one sequence are visited.
struct Walk {
  int64_t first, step, count;
  static Walk along(int64_t length, bool reverse) {
    return reverse ? Walk{length - 1, -1, length} : Walk{0, 1, length};
  }
};

// Scans kWide vectors of states. The last one starts at `last` and may overlap the one before. x and v may be the same
// array.
template <class T, int kWide>
inline void scan_vectors(Walk walk, int64_t stride, int64_t last, const T* a, const T* v, const T* initial, T* x) {
  const auto offset = [=](int n) { return n == kWide - 1 ? last : int64_t(n * kLanes<T>); };
  Vector<T> state[kWide];
  for (int n = 0; n < kWide; ++n) state[n] = load(initial + offset(n));
  for (int64_t k = 0, at = walk.first * stride; k < walk.count; ++k, at += walk.step * stride) {
    // Compute all states before storing any: overlapping states are computed twice and must read the same v.
    for (int n = 0; n < kWide; ++n) state[n] = load(a + at + offset(n)) * state[n] + load(v + at + offset(n));
    for (int n = 0; n < kWide; ++n) store(x + at + offset(n), state[n]);
  }
}

template <class T>
inline void scan_numbers(Walk walk, int64_t stride, int64_t count, const T* a, const T* v, const T* initial, T* x) {
  T state[kLanes<T>];
  for (int64_t p = 0; p < count; ++p) state[p] = initial[p];
  for (int64_t k = 0, at = walk.first * stride; k < walk.count; ++k, at += walk.step * stride)
    for (int64_t p = 0; p < count; ++p) x[at + p] = state[p] = a[at + p] * state[p] + v[at + p];
}

template <class T>
inline void scan_real(Walk walk, int64_t states, const T* a, const T* v, const T* initial, T* x) {
  constexpr int64_t kLane = kLanes<T>;
  if (states < kLane) return scan_numbers<T>(walk, states, states, a, v, initial, x);
  // Groups of up to four vectors. If there are several groups, the last has at least two vectors, so that vectors
  // overlap only within a group.
  int64_t p = 0;
  while (states - p > 4 * kLane) {
    const bool leaves_one = states - p <= 5 * kLane;
    if (leaves_one) {
      scan_vectors<T, 3>(walk, states, 2 * kLane, a + p, v + p, initial + p, x + p);
    } else {
      scan_vectors<T, 4>(walk, states, 3 * kLane, a + p, v + p, initial + p, x + p);
    }
    p += (leaves_one ? 3 : 4) * kLane;
  }
  const int64_t left = states - p, last = left - kLane;
  switch ((left + kLane - 1) / kLane) {
    case 1:
      return scan_vectors<T, 1>(walk, states, last, a + p, v + p, initial + p, x + p);
    case 2:
      return scan_vectors<T, 2>(walk, states, last, a + p, v + p, initial + p, x + p);
    case 3:
      return scan_vectors<T, 3>(walk, states, last, a + p, v + p, initial + p, x + p);
    default:
      return scan_vectors<T, 4>(walk, states, last, a + p, v + p, initial + p, x + p);
  }
}

// Complex states with the real and imaginary parts in separate halves of a row. kSign = -1 multiplies by the conjugate
// of a.
template <class T, int kSign = 1>
inline void scan_halves(Walk walk, int64_t states, const T* a, const T* v, const T* initial, T* x) {
  const int64_t stride = 2 * states;
  constexpr int kLane = kLanes<T>;
  int64_t p = 0;
  for (; p + kLane <= states; p += kLane) {
    Vector<T> real = load(initial + p), imaginary = load(initial + states + p);
    for (int64_t k = 0, at = walk.first * stride + p; k < walk.count; ++k, at += walk.step * stride) {
      const Vector<T> c = load(a + at), s = T(kSign) * load(a + at + states), before = real;
      real = c * before - s * imaginary + load(v + at);
      imaginary = c * imaginary + s * before + load(v + at + states);
      store(x + at, real);
      store(x + at + states, imaginary);
    }
  }
  for (; p < states; ++p) {
    T real = initial[p], imaginary = initial[states + p];
    for (int64_t k = 0, at = walk.first * stride + p; k < walk.count; ++k, at += walk.step * stride) {
      const T c = a[at], s = T(kSign) * a[at + states], before = real;
      x[at] = real = c * before - s * imaginary + v[at];
      x[at + states] = imaginary = c * imaginary + s * before + v[at + states];
    }
  }
}

// Complex states with interleaved real and imaginary parts.
template <class T>
inline void scan_complex(Walk walk, int64_t states, const T* a, const T* v, const T* initial, T* x) {
  const T* before = initial;
  for (int64_t k = 0, at = walk.first * 2 * states; k < walk.count; ++k, at += walk.step * 2 * states) {
    const T *a_k = a + at, *v_k = v + at;
    T* x_k = x + at;
#pragma GCC ivdep
    for (int64_t p = 0; p < 2 * states; p += 2) {
      const T real = a_k[p] * before[p] - a_k[p + 1] * before[p + 1] + v_k[p];
      const T imaginary = a_k[p] * before[p + 1] + a_k[p + 1] * before[p] + v_k[p + 1];
      x_k[p] = real;
      x_k[p + 1] = imaginary;
    }
    before = x_k;
  }
}

template <class T>
void scan(const ScanShape& shape, const T* a, const T* v, const T* initial, T* x, Pool pool) {
  const int64_t numbers = shape.complex_numbers ? 2 * shape.state : shape.state;
  const Walk walk = Walk::along(shape.length, shape.reverse);
  parallel(pool, shape.batch, [&](int64_t n) {
    const int64_t at = n * shape.length * numbers;
    if (shape.complex_numbers) {
      scan_complex(walk, shape.state, a + at, v + at, initial + n * numbers, x + at);
    } else {
      scan_real(walk, shape.state, a + at, v + at, initial + n * numbers, x + at);
    }
  });
}

// Computes λ_k = g_k + a_{k+1} λ_{k+1}, the gradient λ_k x_{k-1} of a_k and the gradient λ_k of v_k, for kWide vectors
// of states.
template <class T, int kWide>
inline void scan_gradient_vectors(Walk walk, int64_t stride, const T* a, const T* x, const T* initial,
                                  const T* gradient, T* a_gradient, T* v_gradient, T* initial_gradient) {
  using V = Vector<T>;
  V passed[kWide] = {};  // a_{k+1} λ_{k+1}
  const int64_t step = walk.step * stride;
  int64_t at = walk.first * stride + (walk.count - 1) * step;
  for (int64_t k = walk.count - 1; k >= 0; --k, at -= step) {
    const T* before = k > 0 ? x + at - step : initial;
    for (int n = 0; n < kWide; ++n) {
      const int64_t place = at + n * kLanes<T>;
      const V adjoint = load(gradient + place) + passed[n];
      store(v_gradient + place, adjoint);
      store(a_gradient + place, adjoint * load(before + n * kLanes<T>));
      passed[n] = load(a + place) * adjoint;
    }
  }
  for (int n = 0; n < kWide; ++n) store(initial_gradient + n * kLanes<T>, passed[n]);
}

template <class T>
inline void scan_gradient_numbers(Walk walk, int64_t stride, int64_t count, bool complex_numbers, const T* a,
                                  const T* x, const T* initial, const T* gradient, T* a_gradient, T* v_gradient,
                                  T* initial_gradient) {
  const int64_t step = walk.step * stride;
  for (int64_t p = 0; p < count; ++p) initial_gradient[p] = 0;
  int64_t at = walk.first * stride + (walk.count - 1) * step;
  for (int64_t k = walk.count - 1; k >= 0; --k, at -= step) {
    const T *before = k > 0 ? x + at - step : initial, *a_k = a + at, *g_k = gradient + at;
    T *passed = initial_gradient, *da_k = a_gradient + at, *dv_k = v_gradient + at;
    if (complex_numbers) {
#pragma GCC ivdep
      for (int64_t p = 0; p < count; p += 2) {
        const T real = g_k[p] + passed[p], imaginary = g_k[p + 1] + passed[p + 1];
        const T a_real = a_k[p], a_imaginary = a_k[p + 1], x_real = before[p], x_imaginary = before[p + 1];
        dv_k[p] = real;
        dv_k[p + 1] = imaginary;
        da_k[p] = real * x_real - imaginary * x_imaginary;
        da_k[p + 1] = real * x_imaginary + imaginary * x_real;
        passed[p] = a_real * real - a_imaginary * imaginary;
        passed[p + 1] = a_real * imaginary + a_imaginary * real;
      }
    } else {
      for (int64_t p = 0; p < count; ++p) {
        const T adjoint = g_k[p] + passed[p];
        dv_k[p] = adjoint;
        da_k[p] = adjoint * before[p];
        passed[p] = a_k[p] * adjoint;
      }
    }
  }
}

template <class T>
void scan_gradient(const ScanShape& shape, const T* a, const T* x, const T* initial, const T* gradient, T* a_gradient,
                   T* v_gradient, T* initial_gradient, Pool pool) {
  const int64_t numbers = shape.complex_numbers ? 2 * shape.state : shape.state;
  const Walk walk = Walk::along(shape.length, shape.reverse);
  parallel(pool, shape.batch, [&](int64_t n) {
    const int64_t at = n * shape.length * numbers, first = n * numbers;
    int64_t p = 0;
    if (!shape.complex_numbers) {
      constexpr int64_t kWide = 4 * kLanes<T>;
      for (; p + kWide <= numbers; p += kWide)
        scan_gradient_vectors<T, 4>(walk, numbers, a + at + p, x + at + p, initial + first + p, gradient + at + p,
                                    a_gradient + at + p, v_gradient + at + p, initial_gradient + first + p);
      for (; p + kLanes<T> <= numbers; p += kLanes<T>)
        scan_gradient_vectors<T, 1>(walk, numbers, a + at + p, x + at + p, initial + first + p, gradient + at + p,
                                    a_gradient + at + p, v_gradient + at + p, initial_gradient + first + p);
    }
    if (p < numbers)
      scan_gradient_numbers(walk, numbers, numbers - p, shape.complex_numbers, a + at + p, x + at + p,
                            initial + first + p, gradient + at + p, a_gradient + at + p, v_gradient + at + p,
                            initial_gradient + first + p);
  });
}

}  // namespace s7::S7_ISA
