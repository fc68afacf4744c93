// The kernels as XLA custom calls. This file checks the type and shape of every array and calls the kernels.
#include "xla/ffi/api/ffi.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <initializer_list>
#include <new>
#include <string>

#include "kernels.h"
#include "pool.h"

namespace s7 {
namespace {

namespace ffi = xla::ffi;

Pool pool_of(ffi::ThreadPool& threads) {
  return {&threads, [](void* handle, int64_t count, void (*task)(void*, int64_t), void* context) {
            auto& pool = *static_cast<ffi::ThreadPool*>(handle);
            for_each([&](auto function) { pool.Schedule(std::move(function)); }, pool.num_threads(), count, task,
                     context);
          }};
}

// Select a table or type by the type of a pointer.
template <class T>
const Kernels<T>& kernels_for(const T*) {
  return kernels<T>();
}
template <class T>
LayerSaved<T> saved_for(const T*) {
  return {};
}
template <class T>
LayerGradients<T> gradients_for(const T*) {
  return {};
}

template <class... P>
void advance(int64_t by, P*&... pointers) {
  ((pointers = pointers == nullptr ? nullptr : pointers + by), ...);
}

// Large results are newly allocated in every call. The page faults of the first touch can take longer than the kernel,
// so huge pages are requested where the system supports them.
void ask_for_large_pages(void* data, size_t bytes) {
#if defined(__linux__)
  constexpr uintptr_t kLargePage = uintptr_t(2) << 20;
  const uintptr_t first = (reinterpret_cast<uintptr_t>(data) + kLargePage - 1) / kLargePage * kLargePage;
  const uintptr_t last = (reinterpret_cast<uintptr_t>(data) + bytes) / kLargePage * kLargePage;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);  // only a hint
#else
  (void)data, (void)bytes;
#endif
}

// The arrays of a call, in order. The type and shape of each array are checked when it is taken. The first mismatch is
// recorded, and then no kernel runs.
template <class T>
class Arrays {
 public:
  Arrays(const char* call, ffi::DataType type, const ffi::RemainingArgs& arguments, const ffi::RemainingRets& results)
      : call_(call), type_(type), arguments_(arguments), results_(results) {}

  using Shape = std::initializer_list<int64_t>;

  // A null pointer for functions that deduce T from a pointer.
  static const T* none() { return nullptr; }

  const T* take(const char* name, Shape shape) {
    const auto buffer = arguments_.get<ffi::AnyBuffer>(taken_++);
    if (!buffer.has_value()) return missing<const T*>(name);
    check(name, *buffer, shape);
    return pointer<const T*>(*buffer);
  }

  // An omitted argument or result is an array without elements and becomes null.
  const T* take_if(bool given, const char* name, Shape shape) {
    if (given) return take(name, shape);
    ++taken_;
    return nullptr;
  }

  T* give(const char* name, Shape shape) {
    auto buffer = results_.get<ffi::AnyBuffer>(given_++);
    if (!buffer.has_value()) return missing<T*>(name);
    check(name, **buffer, shape);
    ask_for_large_pages((*buffer)->untyped_data(), (*buffer)->size_bytes());
    return pointer<T*>(**buffer);
  }

  T* give_if(bool wanted, const char* name, Shape shape) {
    if (wanted) return give(name, shape);
    ++given_;
    return nullptr;
  }

  // Returns the size of a dimension of an argument or result, or -1 if it does not exist.
  int64_t size(size_t argument, size_t dimension) const {
    return size_of(arguments_.get<ffi::AnyBuffer>(argument), dimension);
  }
  int64_t result_size(size_t result, size_t dimension) const {
    auto buffer = results_.get<ffi::AnyBuffer>(result);
    if (!buffer.has_value() || dimension >= (*buffer)->dimensions().size()) return -1;
    return (*buffer)->dimensions()[dimension];
  }
  bool has(size_t argument) const {
    const auto buffer = arguments_.get<ffi::AnyBuffer>(argument);
    return buffer.has_value() && buffer->element_count() > 0;
  }

  void require(bool holds, const char* what) {
    if (!holds && problem_.empty()) problem_ = std::string(call_) + ": " + what;
  }

  // Runs the kernel if all checks passed.
  template <class F>
  ffi::Error run(F kernel) {
    require(taken_ == arguments_.size() && given_ == results_.size(), "wrong number of arrays");
    if (!problem_.empty()) return ffi::Error(ffi::ErrorCode::kInvalidArgument, problem_);
    try {
      kernel();
      return ffi::Error::Success();
    } catch (const std::bad_alloc&) {
      return ffi::Error(ffi::ErrorCode::kResourceExhausted, std::string(call_) + ": not enough memory");
    }
  }

 private:
  template <class B>
  static int64_t size_of(const B& buffer, size_t dimension) {
    if (!buffer.has_value() || dimension >= buffer->dimensions().size()) return -1;
    return buffer->dimensions()[dimension];
  }

  template <class P>
  static P pointer(const ffi::AnyBuffer& buffer) {
    return buffer.element_count() == 0 ? nullptr : reinterpret_cast<P>(buffer.untyped_data());
  }

  template <class P>
  P missing(const char* name) {
    require(false, (std::string(name) + " is missing").c_str());
    return nullptr;
  }

  void check(const char* name, const ffi::AnyBuffer& buffer, Shape shape) {
    const auto dimensions = buffer.dimensions();
    bool same = dimensions.size() == shape.size();
    size_t n = 0;
    for (int64_t size : shape) same = same && size > 0 && dimensions[n++] == size;
    if (!same) {
      std::string what = std::string(name) + " has shape (";
      for (n = 0; n < dimensions.size(); ++n) what += (n ? ", " : "") + std::to_string(dimensions[n]);
      what += "), expected (";
      n = 0;
      for (int64_t size : shape) what += (n++ ? ", " : "") + std::to_string(size);
      require(false, (what + ")").c_str());
    }
    require(buffer.element_type() == type_, (std::string(name) + " is of another type than the first array").c_str());
  }

  const char* call_;
  const ffi::DataType type_;
  const ffi::RemainingArgs& arguments_;
  const ffi::RemainingRets& results_;
  size_t taken_ = 0, given_ = 0;
  std::string problem_;
};

// Calls body(arrays, is_complex), where `arrays` has the type of the first argument.
template <class F>
ffi::Error with_arrays(const char* call, const ffi::RemainingArgs& arguments, const ffi::RemainingRets& results,
                       F body) {
  const auto first = arguments.get<ffi::AnyBuffer>(0);
  const ffi::DataType type = first.has_value() ? first->element_type() : ffi::DataType::INVALID;
  const bool is_complex = type == ffi::C64 || type == ffi::C128;
  if (type == ffi::F32 || type == ffi::C64) {
    Arrays<float> arrays(call, type, arguments, results);
    return body(arrays, is_complex);
  }
  if (type == ffi::F64 || type == ffi::C128) {
    Arrays<double> arrays(call, type, arguments, results);
    return body(arrays, is_complex);
  }
  return ffi::Error(ffi::ErrorCode::kInvalidArgument, std::string(call) + ": numbers of a type that has no kernel");
}

// The layer -----------------------------------------------------------------------------------------------------------

struct Options {
  bool oscillate, reverse;
  int64_t gain, direct, rank;
  double a, b;
  int64_t norm;
  bool gated, skip;
  int64_t threshold;
};

template <class T>
void check_threshold(Arrays<T>& arrays, int64_t threshold) {
  arrays.require(threshold >= 0 && threshold < 65536, "the dropout threshold must be from 0 to 65535");
}

template <class T>
LayerShape layer_shape(Arrays<T>& arrays, const Options& options) {
  check_threshold(arrays, options.threshold);
  LayerShape shape;
  shape.batch = arrays.size(0, 0);
  shape.length = arrays.size(0, 1);
  shape.width = arrays.size(0, 2);
  shape.state = arrays.size(5, 0);
  shape.oscillate = options.oscillate;
  shape.reverse = options.reverse;
  shape.gain = Gain(options.gain);
  shape.direct = Direct(options.direct);
  shape.a = options.a;
  shape.b = options.b;
  shape.rank = options.rank;
  shape.norm = NormKind(options.norm);
  shape.skip = options.skip;
  shape.threshold = uint32_t(options.threshold);
  return shape;
}

template <class T>
LayerInputs<T> layer_inputs(Arrays<T>& arrays, const LayerShape& shape, bool gated) {
  const int64_t N = shape.batch, L = shape.length, H = shape.width, P = shape.state, S = shape.rows();
  const bool full = shape.direct == Direct::kFull;
  LayerInputs<T> in = {};
  in.u = arrays.take("u", {N, L, H});
  in.dt = arrays.take_if(arrays.has(1), "dt", {N, L});
  in.marks = arrays.take_if(arrays.has(2), "marks", {N, L});
  in.initial = arrays.take("initial", {N, S});
  in.keys = arrays.take_if(shape.threshold > 0, "keys", {N, 4});
  in.w = arrays.take("w", {P});
  in.W_w = arrays.take("W_w", {P, H});
  in.omega = arrays.take_if(shape.oscillate, "omega", {P});
  in.B = arrays.take("B", {S, H});
  in.b = arrays.take("b", {S});
  in.C = arrays.take("C", {H, S});
  in.D = full ? arrays.take("D", {H, H}) : arrays.take("D", {H});
  in.W_D = full ? arrays.take("W_D", {H, H, H}) : arrays.take_if(shape.direct == Direct::kDiagonal, "W_D", {H, H});
  const int64_t R = shape.rank;
  if (R > 0) {
    in.V1 = arrays.take("V1", {R, H});
    in.V2 = arrays.take("V2", {R, H});
    in.V3 = arrays.take("V3", {S, R});
    in.U1 = arrays.take("U1", {R, S});
    in.U2 = arrays.take("U2", {R, H});
    in.U3 = arrays.take("U3", {H, R});
  } else {
    in.W_B = arrays.take("W_B", {S, H, H});
    in.W_C = arrays.take("W_C", {H, S, H});
  }
  const bool normed = shape.norm != NormKind::kNone, shifted = normed && shape.norm != NormKind::kRms;
  in.scale = arrays.take_if(normed, "scale", {H});
  in.shift = arrays.take_if(shifted, "shift", {H});
  in.gate_W = arrays.take_if(gated, "gate_W", {H, H});
  in.gate_c = arrays.take_if(gated, "gate_c", {H});
  return in;
}

ffi::Error block(ffi::ThreadPool threads, ffi::RemainingArgs arguments, ffi::RemainingRets results, bool oscillate,
                 bool reverse, int64_t gain, int64_t direct, int64_t rank, double a, double b, int64_t norm, bool gated,
                 bool skip, int64_t threshold) {
  return with_arrays("s7 block", arguments, results, [&](auto& arrays, bool is_complex) {
    arrays.require(!is_complex, "u must be real");
    const LayerShape shape =
        layer_shape(arrays, {oscillate, reverse, gain, direct, rank, a, b, norm, gated, skip, threshold});
    const auto in = layer_inputs(arrays, shape, gated);
    const int64_t N = shape.batch, L = shape.length, S = shape.rows();
    const bool saved = arrays.result_size(2, 1) == L;
    const auto y = arrays.give("y", {N, L, shape.width});
    const auto x = arrays.give("x", {N, L, S});
    const auto raw = arrays.give_if(saved, "raw", {N, L, shape.state});
    const auto input = arrays.give_if(saved, "input", {N, L, S});
    return arrays.run([&] { kernels_for(y).layer(shape, in, {y, x, raw, input}, pool_of(threads)); });
  });
}

// The gradients of weights have an additional leading dimension: the batch is divided into that many groups, and each
// group has its own sum.
ffi::Error block_gradient(ffi::ThreadPool threads, ffi::RemainingArgs arguments, ffi::RemainingRets results,
                          bool oscillate, bool reverse, int64_t gain, int64_t direct, int64_t rank, double a, double b,
                          int64_t norm, bool gated, bool skip, int64_t threshold) {
  return with_arrays("s7 block_gradient", arguments, results, [&](auto& arrays, bool is_complex) {
    arrays.require(!is_complex, "u must be real");
    LayerShape shape =
        layer_shape(arrays, {oscillate, reverse, gain, direct, rank, a, b, norm, gated, skip, threshold});
    auto in = layer_inputs(arrays, shape, gated);
    const int64_t N = shape.batch, L = shape.length, H = shape.width, P = shape.state, S = shape.rows();
    const int64_t G = arrays.result_size(3, 0);
    const bool full = shape.direct == Direct::kFull, diagonal = shape.direct == Direct::kDiagonal;
    auto saved = saved_for(in.u);
    saved.x = arrays.take("x", {N, L, S});
    saved.raw = arrays.take("raw", {N, L, P});
    saved.input = arrays.take("input", {N, L, S});
    saved.y_gradient = arrays.take("y_gradient", {N, L, H});
    saved.final_gradient = arrays.take("final_gradient", {N, S});
    auto out = gradients_for(in.u);
    out.u = arrays.give("du", {N, L, H});
    out.dt = arrays.give_if(in.dt != nullptr, "ddt", {N, L});
    out.initial = arrays.give("dinitial", {N, S});
    out.w = arrays.give("dw", {G, P});
    out.W_w = arrays.give("dW_w", {G, P, H});
    out.omega = arrays.give_if(oscillate, "domega", {G, P});
    out.B = arrays.give("dB", {G, S, H});
    out.b = arrays.give("db", {G, S});
    out.C = arrays.give("dC", {G, H, S});
    out.D = full ? arrays.give("dD", {G, H, H}) : arrays.give("dD", {G, H});
    out.W_D = full ? arrays.give("dW_D", {G, H, H, H}) : arrays.give_if(diagonal, "dW_D", {G, H, H});
    if (rank > 0) {
      out.V1 = arrays.give("dV1", {G, rank, H});
      out.V2 = arrays.give("dV2", {G, rank, H});
      out.V3 = arrays.give("dV3", {G, S, rank});
      out.U1 = arrays.give("dU1", {G, rank, S});
      out.U2 = arrays.give("dU2", {G, rank, H});
      out.U3 = arrays.give("dU3", {G, H, rank});
    } else {
      out.W_B = arrays.give("dW_B", {G, S, H, H});
      out.W_C = arrays.give("dW_C", {G, H, S, H});
    }
    out.scale = arrays.give_if(in.scale != nullptr, "dscale", {G, H});
    out.shift = arrays.give_if(in.shift != nullptr, "dshift", {G, H});
    out.gate_W = arrays.give_if(gated, "dgate_W", {G, H, H});
    out.gate_c = arrays.give_if(gated, "dgate_c", {G, H});
    arrays.require(G > 0 && N % G == 0, "the groups do not divide the batch");
    return arrays.run([&] {
      const int64_t each = N / G, events = each * L, D = full ? H * H : H;
      shape.batch = each;
      for (int64_t g = 0; g < G; ++g) {
        kernels_for(out.u).layer_gradient(shape, in, saved, out, pool_of(threads));
        advance(events * H, in.u, saved.y_gradient, out.u);
        advance(events, in.dt, in.marks, out.dt);
        advance(events * S, saved.x, saved.input);
        advance(events * P, saved.raw);
        advance(each * S, in.initial, saved.final_gradient, out.initial);
        advance(P, out.w, out.omega);
        advance(S, out.b);
        advance(P * H, out.W_w);
        advance(S * H, out.B, out.C);
        advance(S * H * H, out.W_B, out.W_C);
        advance(D, out.D);
        advance(D * H, out.W_D);
        advance(rank * H, out.V1, out.V2, out.U2, out.U3);
        advance(rank * S, out.V3, out.U1);
        advance(4 * each, in.keys);
        advance(H, out.scale, out.shift, out.gate_c);
        advance(H * H, out.gate_W);
      }
    });
  });
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

// Windows -------------------------------------------------------------------------------------------------------------

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

auto bind() { return ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().RemainingArgs().RemainingRets(); }

auto bind_block() {
  return bind()
      .Attr<bool>("oscillate")
      .Attr<bool>("reverse")
      .Attr<int64_t>("gain")
      .Attr<int64_t>("direct")
      .Attr<int64_t>("rank")
      .Attr<double>("a")
      .Attr<double>("b")
      .Attr<int64_t>("norm")
      .Attr<bool>("gated")
      .Attr<bool>("skip")
      .Attr<int64_t>("threshold");
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

XLA_FFI_DEFINE_HANDLER_SYMBOL(s7_block, s7::block, s7::bind_block());
XLA_FFI_DEFINE_HANDLER_SYMBOL(s7_block_gradient, s7::block_gradient, s7::bind_block());
XLA_FFI_DEFINE_HANDLER_SYMBOL(s7_scan, s7::scan, s7::bind().Attr<bool>("reverse"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(s7_scan_gradient, s7::scan_gradient, s7::bind().Attr<bool>("reverse"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(s7_quadratic, s7::quadratic, s7::bind());
XLA_FFI_DEFINE_HANDLER_SYMBOL(s7_quadratic_gradient, s7::quadratic_gradient, s7::bind());
XLA_FFI_DEFINE_HANDLER_SYMBOL(s7_bilinear, s7::bilinear, s7::bind());
XLA_FFI_DEFINE_HANDLER_SYMBOL(s7_bilinear_gradient, s7::bilinear_gradient, s7::bind());
XLA_FFI_DEFINE_HANDLER_SYMBOL(s7_window_scan, s7::window_scan, s7::bind_windows());
XLA_FFI_DEFINE_HANDLER_SYMBOL(s7_window_scan_gradient, s7::window_scan_gradient, s7::bind_windows());
XLA_FFI_DEFINE_HANDLER_SYMBOL(s7_gate, s7::gate, s7::bind().Attr<int64_t>("threshold"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(s7_gate_gradient, s7::gate_gradient, s7::bind().Attr<int64_t>("threshold"));

extern "C" const char* s7_instruction_set() { return s7::instruction_set(); }
