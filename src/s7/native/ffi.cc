// The kernels as XLA custom calls. These files check the type and shape of every array and call the kernels.
#include "ffi_arrays.h"
#include "ffi_block.h"
#include "ffi_window_block.h"
#include "ffi_windows.h"

namespace s7 {
namespace {

// A vector as several arrays
// -------------------------------------------------------------------------------------------

// Copies consecutive parts of a vector. XLA would compile a program for each part.
ffi::Error split(ffi::AnyBuffer vector, ffi::RemainingRets parts) {
  const char* from = static_cast<const char*>(vector.untyped_data());
  size_t left = vector.size_bytes();
  for (size_t n = 0; n < parts.size(); ++n) {
    auto part = parts.get<ffi::AnyBuffer>(n);
    if (!part.has_value() || (*part)->element_type() != vector.element_type() || (*part)->size_bytes() > left)
      return ffi::Error(ffi::ErrorCode::kInvalidArgument, "s7 split: the parts do not make up the vector");
    const size_t bytes = (*part)->size_bytes();
    if (bytes > 0) std::memcpy((*part)->untyped_data(), from, bytes);
    from += bytes;
    left -= bytes;
  }
  return ffi::Error::Success();
}

// The recurrence ------------------------------------------------------------------------------------------------------

ffi::Error scan(ffi::ThreadPool threads, ffi::RemainingArgs arguments, ffi::RemainingRets results, bool reverse) {
  return with_arrays("s7 scan", arguments, results, [&](auto& arrays, bool is_complex) {
    const int64_t N = arrays.size(0, 0), L = arrays.size(0, 1), P = arrays.size(0, 2);
    const auto a = arrays.take("a", {N, L, P}), v = arrays.take("v", {N, L, P}),
               initial = arrays.take("initial", {N, P});
    const auto x = arrays.give("x", {N, L, P});
    return arrays.run([&] { kernels_for(x).scan({N, L, P, is_complex, reverse}, a, v, initial, x, pool_of(threads)); });
  });
}

ffi::Error scan_gradient(ffi::ThreadPool threads, ffi::RemainingArgs arguments, ffi::RemainingRets results,
                         bool reverse) {
  return with_arrays("s7 scan_gradient", arguments, results, [&](auto& arrays, bool is_complex) {
    const int64_t N = arrays.size(0, 0), L = arrays.size(0, 1), P = arrays.size(0, 2);
    const auto a = arrays.take("a", {N, L, P}), x = arrays.take("x", {N, L, P}),
               initial = arrays.take("initial", {N, P});
    const auto gradient = arrays.take("gradient", {N, L, P});
    const auto da = arrays.give("da", {N, L, P}), dv = arrays.give("dv", {N, L, P});
    const auto dinitial = arrays.give("dinitial", {N, P});
    return arrays.run([&] {
      kernels_for(da).scan_gradient({N, L, P, is_complex, reverse}, a, x, initial, gradient, da, dv, dinitial,
                                    pool_of(threads));
    });
  });
}

// The forms -----------------------------------------------------------------------------------------------------------

ffi::Error quadratic(ffi::ThreadPool threads, ffi::RemainingArgs arguments, ffi::RemainingRets results) {
  return with_arrays("s7 quadratic", arguments, results, [&](auto& arrays, bool is_complex) {
    arrays.require(!is_complex, "u must be real");
    const int64_t events = arrays.size(0, 0), H = arrays.size(0, 1), outputs = arrays.size(1, 0);
    const auto u = arrays.take("u", {events, H}), W = arrays.take("W", {outputs, H, H});
    const auto y = arrays.give("y", {events, outputs});
    return arrays.run([&] { kernels_for(y).quadratic(events, H, outputs, W, u, y, pool_of(threads)); });
  });
}

ffi::Error quadratic_gradient(ffi::ThreadPool threads, ffi::RemainingArgs arguments, ffi::RemainingRets results) {
  return with_arrays("s7 quadratic_gradient", arguments, results, [&](auto& arrays, bool is_complex) {
    arrays.require(!is_complex, "u must be real");
    const int64_t events = arrays.size(0, 0), H = arrays.size(0, 1), outputs = arrays.size(1, 0);
    const int64_t G = arrays.result_size(1, 0);
    auto u = arrays.take("u", {events, H});
    const auto W = arrays.take("W", {outputs, H, H});
    auto gradient = arrays.take("gradient", {events, outputs});
    auto du = arrays.give("du", {events, H});
    auto dW = arrays.give("dW", {G, outputs, H, H});
    arrays.require(G > 0 && events % G == 0, "the groups do not divide the events");
    return arrays.run([&] {
      const int64_t each = events / G;
      for (int64_t g = 0; g < G; ++g) {
        kernels_for(du).quadratic_gradient(each, H, outputs, W, u, gradient, dW, du, pool_of(threads));
        advance(each * H, u, du);
        advance(each * outputs, gradient);
        advance(outputs * H * H, dW);
      }
    });
  });
}

ffi::Error bilinear(ffi::ThreadPool threads, ffi::RemainingArgs arguments, ffi::RemainingRets results) {
  return with_arrays("s7 bilinear", arguments, results, [&](auto& arrays, bool is_complex) {
    arrays.require(!is_complex, "x must be real");
    const int64_t events = arrays.size(0, 0), S = arrays.size(0, 1), H = arrays.size(1, 1), outputs = arrays.size(2, 0);
    const auto x = arrays.take("x", {events, S}), u = arrays.take("u", {events, H});
    const auto W = arrays.take("W", {outputs, S, H});
    const auto y = arrays.give("y", {events, outputs});
    return arrays.run([&] { kernels_for(y).bilinear(events, H, S, outputs, W, x, u, y, pool_of(threads)); });
  });
}

ffi::Error bilinear_gradient(ffi::ThreadPool threads, ffi::RemainingArgs arguments, ffi::RemainingRets results) {
  return with_arrays("s7 bilinear_gradient", arguments, results, [&](auto& arrays, bool is_complex) {
    arrays.require(!is_complex, "x must be real");
    const int64_t events = arrays.size(0, 0), S = arrays.size(0, 1), H = arrays.size(1, 1), outputs = arrays.size(2, 0);
    const int64_t G = arrays.result_size(2, 0);
    auto x = arrays.take("x", {events, S}), u = arrays.take("u", {events, H});
    const auto W = arrays.take("W", {outputs, S, H});
    auto gradient = arrays.take("gradient", {events, outputs});
    auto dx = arrays.give("dx", {events, S}), du = arrays.give("du", {events, H});
    auto dW = arrays.give("dW", {G, outputs, S, H});
    arrays.require(G > 0 && events % G == 0, "the groups do not divide the events");
    return arrays.run([&] {
      const int64_t each = events / G;
      for (int64_t g = 0; g < G; ++g) {
        kernels_for(du).bilinear_gradient(each, H, S, outputs, W, x, u, gradient, dW, dx, du, pool_of(threads));
        advance(each * S, x, dx);
        advance(each * H, u, du);
        advance(each * outputs, gradient);
        advance(outputs * S * H, dW);
      }
    });
  });
}

// The gate ------------------------------------------------------------------------------------------------------------

template <class T>
GateShape gate_shape(Arrays<T>& arrays, int64_t threshold) {
  check_threshold(arrays, threshold);
  return {arrays.size(0, 0), arrays.size(0, 1), arrays.size(0, 2), uint32_t(threshold)};
}

template <class T>
GateInputs<T> gate_inputs(Arrays<T>& arrays, const GateShape& shape, const T*) {
  const int64_t N = shape.batch, L = shape.length, H = shape.width;
  GateInputs<T> in = {};
  in.z = arrays.take("z", {N, L, H});
  in.u = arrays.take_if(arrays.has(1), "u", {N, L, H});
  in.keys = arrays.take_if(shape.threshold > 0, "keys", {N, 4});
  in.W = arrays.take("W", {H, H});
  in.c = arrays.take("c", {H});
  return in;
}

ffi::Error gate(ffi::ThreadPool threads, ffi::RemainingArgs arguments, ffi::RemainingRets results, int64_t threshold) {
  return with_arrays("s7 gate", arguments, results, [&](auto& arrays, bool is_complex) {
    arrays.require(!is_complex, "z must be real");
    const GateShape shape = gate_shape(arrays, threshold);
    const auto in = gate_inputs(arrays, shape, arrays.none());
    const auto out = arrays.give("out", {shape.batch, shape.length, shape.width});
    return arrays.run([&] { kernels_for(in.z).gate(shape, in, out, pool_of(threads)); });
  });
}

ffi::Error gate_gradient(ffi::ThreadPool threads, ffi::RemainingArgs arguments, ffi::RemainingRets results,
                         int64_t threshold) {
  return with_arrays("s7 gate_gradient", arguments, results, [&](auto& arrays, bool is_complex) {
    arrays.require(!is_complex, "z must be real");
    GateShape shape = gate_shape(arrays, threshold);
    auto in = gate_inputs(arrays, shape, arrays.none());
    const int64_t N = shape.batch, L = shape.length, H = shape.width, G = arrays.result_size(1, 0);
    auto gradient = arrays.take("gradient", {N, L, H});
    auto dz = arrays.give("dz", {N, L, H}), dW = arrays.give("dW", {G, H, H}), dc = arrays.give("dc", {G, H});
    arrays.require(G > 0 && N % G == 0, "the groups do not divide the batch");
    return arrays.run([&] {
      shape.batch = N / G;
      for (int64_t g = 0; g < G; ++g) {
        kernels_for(in.z).gate_gradient(shape, in, gradient, {dz, dW, dc}, pool_of(threads));
        advance(shape.events() * H, in.z, gradient, dz);
        advance(4 * shape.batch, in.keys);
        advance(H * H, dW);
        advance(H, dc);
      }
    });
  });
}

// The statistics of sequences -----------------------------------------------------------------------------------------

ffi::Error moments(ffi::ThreadPool threads, ffi::RemainingArgs arguments, ffi::RemainingRets results) {
  return with_arrays("s7 moments", arguments, results, [&](auto& arrays, bool is_complex) {
    arrays.require(!is_complex, "u must be real");
    const int64_t N = arrays.size(0, 0), L = arrays.size(0, 1), H = arrays.size(0, 2);
    const auto u = arrays.take("u", {N, L, H}), weights = arrays.take_if(arrays.has(1), "weights", {N, L});
    const auto count = arrays.give("count", {N}), mean = arrays.give("mean", {N, H}),
               square = arrays.give("square", {N, H});
    return arrays.run([&] { kernels_for(u).moments(N, L, H, u, weights, count, mean, square, pool_of(threads)); });
  });
}

}  // namespace
}  // namespace s7

XLA_FFI_DEFINE_HANDLER_SYMBOL(s7_block, s7::block, s7::bind_block());
XLA_FFI_DEFINE_HANDLER_SYMBOL(s7_block_gradient, s7::block_gradient, s7::bind_block());
XLA_FFI_DEFINE_HANDLER_SYMBOL(s7_window_block, s7::window_block, s7::bind_block());
XLA_FFI_DEFINE_HANDLER_SYMBOL(s7_window_block_gradient, s7::window_block_gradient, s7::bind_block());
XLA_FFI_DEFINE_HANDLER_SYMBOL(s7_scan, s7::scan, s7::bind().Attr<bool>("reverse"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(s7_scan_gradient, s7::scan_gradient, s7::bind().Attr<bool>("reverse"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(s7_quadratic, s7::quadratic, s7::bind());
XLA_FFI_DEFINE_HANDLER_SYMBOL(s7_quadratic_gradient, s7::quadratic_gradient, s7::bind());
XLA_FFI_DEFINE_HANDLER_SYMBOL(s7_bilinear, s7::bilinear, s7::bind());
XLA_FFI_DEFINE_HANDLER_SYMBOL(s7_bilinear_gradient, s7::bilinear_gradient, s7::bind());
XLA_FFI_DEFINE_HANDLER_SYMBOL(s7_window_scan, s7::window_scan, s7::bind_windows());
XLA_FFI_DEFINE_HANDLER_SYMBOL(s7_window_scan_gradient, s7::window_scan_gradient, s7::bind_windows());
XLA_FFI_DEFINE_HANDLER_SYMBOL(s7_pool_rows, s7::pool_rows, s7::bind().Attr<int64_t>("stride"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(s7_pool_rows_gradient, s7::pool_rows_gradient, s7::bind().Attr<int64_t>("stride"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(s7_gate, s7::gate, s7::bind().Attr<int64_t>("threshold"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(s7_gate_gradient, s7::gate_gradient, s7::bind().Attr<int64_t>("threshold"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(s7_moments, s7::moments, s7::bind());
XLA_FFI_DEFINE_HANDLER_SYMBOL(s7_split, s7::split, xla::ffi::Ffi::Bind().Arg<xla::ffi::AnyBuffer>().RemainingRets());

extern "C" const char* s7_instruction_set() { return s7::instruction_set(); }
