// The kernels of windows as XLA custom calls.
#pragma once

#include "ffi_arrays.h"

namespace s7 {
namespace {

inline bool has_step(Transition transition) { return transition >= Transition::kStep; }

struct WindowOptions {
  bool oscillate, counting, reverse;
  int64_t transition, gain, stride;
  double a, b;
};

// Derives the sizes from the arrays token, dt, marks, initial, raw, drive, omega and, for transitions with a step size,
// decay.
template <class T>
WindowShape window_shape(Arrays<T>& arrays, const WindowOptions& options, int64_t length) {
  const bool tokens = arrays.has(0);
  WindowShape shape = {};
  shape.layer.batch = arrays.size(3, 0);
  shape.layer.length = length;
  shape.layer.state = arrays.size(4, tokens ? 1 : 2);
  shape.layer.oscillate = options.oscillate;
  shape.layer.counting = options.counting;
  shape.layer.reverse = options.reverse;
  shape.layer.transition = Transition(options.transition);
  shape.layer.gain = Gain(options.gain);
  shape.layer.a = options.a;
  shape.layer.b = options.b;
  shape.stride = options.stride;
  shape.table = tokens ? arrays.size(4, 0) : 0;
  arrays.require(options.stride > 0 && length > 0 && length % options.stride == 0,
                 "the length is not a multiple of the stride");
  arrays.require(!has_step(shape.layer.transition) || options.oscillate, "the states must be complex");
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
  if (has_step(shape.layer.transition)) in.decay = arrays.take("decay", {P});
  if (arrays.fit() && in.token != nullptr)
    arrays.require(all_below(in.token, N * L, T(shape.table)), "a token is not a row of the table");
  return in;
}

ffi::Error window_scan(ffi::ThreadPool threads, ffi::RemainingArgs arguments, ffi::RemainingRets results,
                       bool oscillate, bool counting, bool reverse, int64_t transition, int64_t gain, int64_t stride,
                       double a, double b) {
  return with_arrays("s7 window_scan", arguments, results, [&](auto& arrays, bool is_complex) {
    arrays.require(!is_complex, "raw must be real");
    const int64_t M = arrays.result_size(0, 1);
    const WindowOptions options = {oscillate, counting, reverse, transition, gain, stride, a, b};
    const WindowShape shape = window_shape(arrays, options, M * stride);
    const auto in = window_inputs(arrays, shape, arrays.none());
    const auto x = arrays.give("x", {shape.layer.batch, M, shape.layer.rows()});
    return arrays.run([&] { kernels_for(in.raw).window_scan(shape, in, x, pool_of(threads)); });
  });
}

ffi::Error window_scan_gradient(ffi::ThreadPool threads, ffi::RemainingArgs arguments, ffi::RemainingRets results,
                                bool oscillate, bool counting, bool reverse, int64_t transition, int64_t gain,
                                int64_t stride, double a, double b) {
  return with_arrays("s7 window_scan_gradient", arguments, results, [&](auto& arrays, bool is_complex) {
    arrays.require(!is_complex, "raw must be real");
    const int64_t M = arrays.size(has_step(Transition(transition)) ? 8 : 7, 1), L = M * stride;
    WindowShape shape = window_shape(arrays, {oscillate, counting, reverse, transition, gain, stride, a, b}, L);
    auto in = window_inputs(arrays, shape, arrays.none());
    const int64_t N = shape.layer.batch, P = shape.layer.state, S = shape.layer.rows(), V = shape.table;
    auto x = arrays.take("x", {N, M, S}), gradient = arrays.take("gradient", {N, M, S});
    const int64_t G = arrays.result_size(4, 0);
    auto ddt = arrays.give_if(arrays.result_size(0, 1) > 0, "ddt", {N, L});
    auto dinitial = arrays.give("dinitial", {N, S});
    auto draw = V > 0 ? arrays.give("draw", {G, V, P}) : arrays.give("draw", {N, L, P});
    auto ddrive = V > 0 ? arrays.give("ddrive", {G, V, S}) : arrays.give("ddrive", {N, L, S});
    auto domega = arrays.give_if(oscillate, "domega", {G, P});
    auto ddecay = in.decay == nullptr ? nullptr : arrays.give("ddecay", {G, P});
    arrays.require(G > 0 && N % G == 0, "the groups do not divide the batch");
    return arrays.run([&] {
      const int64_t each = N / G;
      shape.layer.batch = each;
      for (int64_t g = 0; g < G; ++g) {
        kernels_for(in.raw).window_scan_gradient(shape, in, x, gradient, {ddt, dinitial, draw, ddrive, domega, ddecay},
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
        advance(P, domega, ddecay);
      }
    });
  });
}

// Derives the sizes from the arrays values, token, share and last.
template <class T>
PoolShape pool_shape(Arrays<T>& arrays, int64_t stride, int64_t batch, int64_t windows) {
  const bool tokens = arrays.has(1);
  arrays.require(stride > 0 && windows > 0, "there are no windows");
  return {batch, windows, stride, arrays.size(0, tokens ? 1 : 2), tokens ? arrays.size(0, 0) : 0};
}

template <class T>
PoolInputs<T> pool_inputs(Arrays<T>& arrays, const PoolShape& shape, const T*) {
  const int64_t N = shape.batch, L = shape.windows * shape.stride, H = shape.width;
  const bool tokens = arrays.has(1), means = arrays.has(2), places = arrays.has(3);
  PoolInputs<T> in = {};
  in.values = tokens ? arrays.take("values", {shape.table, H}) : arrays.take("values", {N, L, H});
  in.token = arrays.take_if(tokens, "token", {N, L});
  in.share = arrays.take_if(means, "share", {N, L});
  in.last = arrays.take_if(places, "last", {N, shape.windows});
  if (arrays.fit() && in.token != nullptr)
    arrays.require(all_below(in.token, N * L, T(shape.table)), "a token is not a row of the table");
  if (arrays.fit() && in.last != nullptr)
    arrays.require(all_below(in.last, N * shape.windows, T(shape.stride)), "a last event is not in its window");
  return in;
}

ffi::Error pool_rows(ffi::ThreadPool threads, ffi::RemainingArgs arguments, ffi::RemainingRets results,
                     int64_t stride) {
  return with_arrays("s7 pool_rows", arguments, results, [&](auto& arrays, bool is_complex) {
    arrays.require(!is_complex, "values must be real");
    const PoolShape shape = pool_shape(arrays, stride, arrays.result_size(1, 0), arrays.result_size(1, 1));
    const auto in = pool_inputs(arrays, shape, arrays.none());
    const auto mean = arrays.give_if(in.share != nullptr, "mean", {shape.batch, shape.windows, shape.width});
    const auto ends = arrays.give("ends", {shape.batch, shape.windows, shape.width});
    return arrays.run([&] { kernels_for(in.values).pool_rows(shape, in, mean, ends, pool_of(threads)); });
  });
}

ffi::Error pool_rows_gradient(ffi::ThreadPool threads, ffi::RemainingArgs arguments, ffi::RemainingRets results,
                              int64_t stride) {
  return with_arrays("s7 pool_rows_gradient", arguments, results, [&](auto& arrays, bool is_complex) {
    arrays.require(!is_complex, "values must be real");
    PoolShape shape = pool_shape(arrays, stride, arrays.size(5, 0), arrays.size(5, 1));
    auto in = pool_inputs(arrays, shape, arrays.none());
    const int64_t N = shape.batch, M = shape.windows, L = M * stride, H = shape.width, V = shape.table;
    auto mean = arrays.take_if(in.share != nullptr, "mean_gradient", {N, M, H});
    auto ends = arrays.take("ends_gradient", {N, M, H});
    const int64_t G = V > 0 ? arrays.result_size(0, 0) : 1;
    auto values = V > 0 ? arrays.give("dvalues", {G, V, H}) : arrays.give("dvalues", {N, L, H});
    auto share = arrays.give_if(arrays.result_size(1, 1) > 0, "dshare", {N, L});
    arrays.require(G > 0 && N % G == 0, "the groups do not divide the batch");
    return arrays.run([&] {
      const int64_t each = N / G;
      shape.batch = each;
      for (int64_t g = 0; g < G; ++g) {
        kernels_for(in.values).pool_rows_gradient(shape, in, mean, ends, values, share, pool_of(threads));
        advance(each * L, in.token, in.share, share);
        advance(each * M, in.last);
        advance(each * M * H, mean, ends);
        advance(V * H, values);
      }
    });
  });
}

auto bind_windows() {
  return bind()
      .Attr<bool>("oscillate")
      .Attr<bool>("counting")
      .Attr<bool>("reverse")
      .Attr<int64_t>("transition")
      .Attr<int64_t>("gain")
      .Attr<int64_t>("stride")
      .Attr<double>("a")
      .Attr<double>("b");
}

}  // namespace
}  // namespace s7
