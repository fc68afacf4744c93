// The kernels of windows as XLA custom calls.
#pragma once

#include "ffi_arrays.h"

namespace s7 {
namespace {

struct WindowOptions {
  bool oscillate, reverse;
  int64_t gain, stride;
  double a, b;
};

// Derives the sizes from the arrays token, dt, marks, initial, raw, drive and omega.
template <class T>
WindowShape window_shape(Arrays<T>& arrays, const WindowOptions& options, int64_t length) {
  const bool tokens = arrays.has(0);
  WindowShape shape = {};
  shape.layer.batch = arrays.size(3, 0);
  shape.layer.length = length;
  shape.layer.state = arrays.size(4, tokens ? 1 : 2);
  shape.layer.oscillate = options.oscillate;
  shape.layer.reverse = options.reverse;
  shape.layer.gain = Gain(options.gain);
  shape.layer.a = options.a;
  shape.layer.b = options.b;
  shape.stride = options.stride;
  shape.table = tokens ? arrays.size(4, 0) : 0;
  arrays.require(options.stride > 0 && length > 0 && length % options.stride == 0,
                 "the length is not a multiple of the stride");
  return shape;
}

template <class T>
WindowInputs<T> window_inputs(Arrays<T>& arrays, const WindowShape& shape, const T*) {
  const int64_t N = shape.layer.batch, L = shape.layer.length, P = shape.layer.state, S = shape.layer.rows();
  const bool tokens = arrays.has(0);
  WindowInputs<T> in = {};
  in.token = arrays.take_if(tokens, "token", {N, L});
  in.dt = arrays.take_if(arrays.has(1), "dt", {N, L});
  in.marks = arrays.take_if(arrays.has(2), "marks", {N, L});
  in.initial = arrays.take("initial", {N, S});
  in.raw = tokens ? arrays.take("raw", {shape.table, P}) : arrays.take("raw", {N, L, P});
  in.drive = tokens ? arrays.take("drive", {shape.table, S}) : arrays.take("drive", {N, L, S});
  in.omega = arrays.take_if(shape.layer.oscillate, "omega", {P});
  if (in.token != nullptr)
    for (int64_t n = 0; n < N * L; ++n)
      arrays.require(in.token[n] >= 0 && in.token[n] < T(shape.table), "a token is not a row of the table");
  return in;
}

ffi::Error window_scan(ffi::ThreadPool threads, ffi::RemainingArgs arguments, ffi::RemainingRets results,
                       bool oscillate, bool reverse, int64_t gain, int64_t stride, double a, double b) {
  return with_arrays("s7 window_scan", arguments, results, [&](auto& arrays, bool is_complex) {
    arrays.require(!is_complex, "raw must be real");
    const int64_t M = arrays.result_size(0, 1);
    const WindowShape shape = window_shape(arrays, {oscillate, reverse, gain, stride, a, b}, M * stride);
    const auto in = window_inputs(arrays, shape, arrays.none());
    const auto x = arrays.give("x", {shape.layer.batch, M, shape.layer.rows()});
    return arrays.run([&] { kernels_for(in.raw).window_scan(shape, in, x, pool_of(threads)); });
  });
}

ffi::Error window_scan_gradient(ffi::ThreadPool threads, ffi::RemainingArgs arguments, ffi::RemainingRets results,
                                bool oscillate, bool reverse, int64_t gain, int64_t stride, double a, double b) {
  return with_arrays("s7 window_scan_gradient", arguments, results, [&](auto& arrays, bool is_complex) {
    arrays.require(!is_complex, "raw must be real");
    const int64_t M = arrays.size(7, 1), L = M * stride;
    WindowShape shape = window_shape(arrays, {oscillate, reverse, gain, stride, a, b}, L);
    auto in = window_inputs(arrays, shape, arrays.none());
    const int64_t N = shape.layer.batch, P = shape.layer.state, S = shape.layer.rows(), V = shape.table;
    auto x = arrays.take("x", {N, M, S}), gradient = arrays.take("gradient", {N, M, S});
    const int64_t G = arrays.result_size(4, 0);
    auto ddt = arrays.give_if(in.dt != nullptr, "ddt", {N, L});
    auto dinitial = arrays.give("dinitial", {N, S});
    auto draw = V > 0 ? arrays.give("draw", {G, V, P}) : arrays.give("draw", {N, L, P});
    auto ddrive = V > 0 ? arrays.give("ddrive", {G, V, S}) : arrays.give("ddrive", {N, L, S});
    auto domega = arrays.give_if(oscillate, "domega", {G, P});
    arrays.require(G > 0 && N % G == 0, "the groups do not divide the batch");
    return arrays.run([&] {
      const int64_t each = N / G;
      shape.layer.batch = each;
      for (int64_t g = 0; g < G; ++g) {
        kernels_for(in.raw).window_scan_gradient(shape, in, x, gradient, {ddt, dinitial, draw, ddrive, domega},
                                                 pool_of(threads));
        advance(each * L, in.token, in.dt, in.marks, ddt);
        advance(each * S, in.initial, dinitial);
        advance(each * M * S, x, gradient);
        advance(V > 0 ? V * P : each * L * P, draw);
        advance(V > 0 ? V * S : each * L * S, ddrive);
        if (V == 0) {
          advance(each * L * P, in.raw);
          advance(each * L * S, in.drive);
        }
        advance(P, domega);
      }
    });
  });
}

auto bind_windows() {
  return bind()
      .Attr<bool>("oscillate")
      .Attr<bool>("reverse")
      .Attr<int64_t>("gain")
      .Attr<int64_t>("stride")
      .Attr<double>("a")
      .Attr<double>("b");
}

}  // namespace
}  // namespace s7
