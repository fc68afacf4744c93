// Tests the native kernels against plain loops, for every instruction set that this processor supports. Run with `make
// sanitize`.
//
// The plain loops follow the formulas and use long double. Gradients are compared with finite differences of the plain
// loss along random directions. Every array is an allocation of exactly its size and is filled with NaN before a kernel
// writes to it. So AddressSanitizer detects accesses out of bounds, and elements that a kernel does not write fail the
// comparison.
#include "kernels.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "pool.h"

#if defined(__SANITIZE_ADDRESS__)
// Fills new memory with NaN, so that reading uninitialised memory shows in the results.
extern "C" const char* __asan_default_options() {
  return "malloc_fill_byte=255:max_malloc_fill_size=1073741824:detect_stack_use_after_return=1";
}
#endif

namespace s7 {

#define S7_DECLARE(isa)                        \
  namespace isa {                              \
  extern const Kernels<float>* const kSingle;  \
  extern const Kernels<double>* const kDouble; \
  }
S7_DECLARE(baseline)
S7_DECLARE(wide)  // vectors as wide as AVX-512 without its instructions: tests its tails on any processor
S7_DECLARE(avx2)
S7_DECLARE(avx512)
#undef S7_DECLARE

namespace {

// Checks --------------------------------------------------------------------------------------------------------------

int passed = 0, failed = 0;

void check(bool holds, const std::string& what) {
  ++(holds ? passed : failed);
  if (!holds && failed <= 20) std::printf("FAILED: %s\n", what.c_str());
}

// Checks the largest difference, relative to the largest expected number if that is above one.
template <class T, class U>
void check_close(const std::vector<T>& got, const std::vector<U>& wanted, double tolerance, const std::string& what) {
  double largest = 1, difference = got.size() == wanted.size() ? 0 : INFINITY;
  for (size_t n = 0; n < wanted.size() && n < got.size(); ++n) {
    const double off = std::fabs(double(got[n]) - double(wanted[n]));
    if (std::isnan(off) || off > difference) difference = off;  // a NaN stays
    largest = std::max(largest, std::fabs(double(wanted[n])));
  }
  char off_by[32];
  std::snprintf(off_by, sizeof off_by, "%.2g", difference / largest);
  check(difference <= tolerance * largest, what + " is off by " + off_by);
}

// Compares bits, unlike operator==, so that NaN equals NaN.
template <class T>
bool same_bits(const std::vector<T>& one, const std::vector<T>& other) {
  if (one.size() != other.size()) return false;
  return one.empty() || std::memcmp(one.data(), other.data(), one.size() * sizeof(T)) == 0;
}

// Numbers -------------------------------------------------------------------------------------------------------------

using Real = long double;  // type of the plain loops
static_assert(std::numeric_limits<Real>::digits > 60, "differences need more digits than a double has");

std::mt19937 generator(7);

double uniform(double low, double high) {
  return low + (high - low) * (double(generator()) / double(std::mt19937::max()));
}

int64_t one_of(const std::vector<int64_t>& choices) { return choices[generator() % choices.size()]; }

// Uniform numbers between -scale and scale, rounded to float so that both precisions use the same inputs.
std::vector<double> numbers(int64_t count, double scale = 1) {
  std::vector<double> drawn(count);
  for (double& number : drawn) number = float(uniform(-scale, scale));
  return drawn;
}

template <class T, class U>
std::vector<T> as(const std::vector<U>& from) {
  return std::vector<T>(from.begin(), from.end());
}

template <class T>
std::vector<T> unwritten(size_t count) {
  return std::vector<T>(count, std::numeric_limits<T>::quiet_NaN());
}

template <class T>
T* pointer(std::vector<T>& array) {
  return array.empty() ? nullptr : array.data();
}
template <class T>
const T* pointer(const std::vector<T>& array) {
  return array.empty() ? nullptr : array.data();
}

// Instruction sets and pools ------------------------------------------------------------------------------------------

struct InstructionSet {
  const char* name;
  bool supported;
  const Kernels<float>* single_precision;
  const Kernels<double>* double_precision;

  template <class T>
  const Kernels<T>& kernels() const {
    if constexpr (sizeof(T) == sizeof(float))
      return *single_precision;
    else
      return *double_precision;
  }
};

const std::vector<InstructionSet>& all_sets() {
  static const std::vector<InstructionSet> sets = {
#if defined(__x86_64__)
      {"avx512",
       __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("fma"),
       avx512::kSingle, avx512::kDouble},
      {"avx2", __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"), avx2::kSingle, avx2::kDouble},
#endif
      {"baseline", true, baseline::kSingle, baseline::kDouble},
      {"wide", true, wide::kSingle, wide::kDouble},
  };
  return sets;
}

std::vector<InstructionSet> usable_sets() {
  std::vector<InstructionSet> sets;
  for (const InstructionSet& set : all_sets())
    if (set.supported) sets.push_back(set);
  return sets;
}

// A serial loop, the reference for all other pools.
const Pool kSerial = {nullptr, [](void*, int64_t count, void (*task)(void*, int64_t), void* context) {
                        for (int64_t n = 0; n < count; ++n) task(context, n);
                      }};

// Makes a Pool from any type with `threads` and `schedule(function)`.
template <class P>
Pool pool_of(P& pool) {
  return {&pool, [](void* handle, int64_t count, void (*task)(void*, int64_t), void* context) {
            P& pool = *static_cast<P*>(handle);
            for_each([&](auto function) { pool.schedule(function); }, pool.threads, count, task, context);
          }};
}

struct Alone {
  int64_t threads = 1;
  void schedule(const std::function<void()>&) { check(false, "a pool of one thread was asked for help"); }
};

class Threads {
 public:
  explicit Threads(int64_t count) : threads(count) {
    for (int64_t n = 0; n < count; ++n) workers_.emplace_back([this] { work(); });
  }
  ~Threads() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      closing_ = true;
    }
    changed_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  void schedule(std::function<void()> function) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      waiting_.push_back(std::move(function));
    }
    changed_.notify_one();
  }

  const int64_t threads;

 private:
  void work() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return closing_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      const std::function<void()> function = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      function();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  bool closing_ = false;
  std::vector<std::thread> workers_;
};

// A pool whose threads are busy until long after the call.
struct Saturated {
  int64_t threads = 4;
  std::vector<std::function<void()>> waiting;
  void schedule(std::function<void()> function) { waiting.push_back(std::move(function)); }
};

// A pool that accepts one helper and runs out of memory for the next.
struct Exhausted : Saturated {
  void schedule(std::function<void()> function) {
    if (!waiting.empty()) throw std::bad_alloc();
    waiting.push_back(std::move(function));
  }
};

// The layer -----------------------------------------------------------------------------------------------------------

// Arrays that a layer does not use are empty.
template <class T>
struct LayerArrays {
  std::vector<T> u, dt, marks, initial, w, W_w, omega, decay, B, W_B, b, C, W_C, D, W_D, V1, V2, V3, U1, U2, U3;
  // Parameters of the block.
  std::vector<T> scale, shift, mean, gate_W, gate_c, keys, after_scale, after_shift, project_W, project_c;
};

template <class T>
struct Named {
  const char* name;
  std::vector<T> LayerArrays<T>::* array;
};

// All arrays that have a gradient.
template <class T>
const Named<T> kDifferentiable[] = {
    {"u", &LayerArrays<T>::u},
    {"dt", &LayerArrays<T>::dt},
    {"initial", &LayerArrays<T>::initial},
    {"w", &LayerArrays<T>::w},
    {"W_w", &LayerArrays<T>::W_w},
    {"omega", &LayerArrays<T>::omega},
    {"B", &LayerArrays<T>::B},
    {"W_B", &LayerArrays<T>::W_B},
    {"b", &LayerArrays<T>::b},
    {"C", &LayerArrays<T>::C},
    {"W_C", &LayerArrays<T>::W_C},
    {"D", &LayerArrays<T>::D},
    {"W_D", &LayerArrays<T>::W_D},
    {"V1", &LayerArrays<T>::V1},
    {"V2", &LayerArrays<T>::V2},
    {"V3", &LayerArrays<T>::V3},
    {"U1", &LayerArrays<T>::U1},
    {"U2", &LayerArrays<T>::U2},
    {"U3", &LayerArrays<T>::U3},
    {"scale", &LayerArrays<T>::scale},
    {"shift", &LayerArrays<T>::shift},
    {"gate_W", &LayerArrays<T>::gate_W},
    {"gate_c", &LayerArrays<T>::gate_c},
    {"decay", &LayerArrays<T>::decay},
    {"mean", &LayerArrays<T>::mean},
    {"after_scale", &LayerArrays<T>::after_scale},
    {"after_shift", &LayerArrays<T>::after_shift},
    {"project_W", &LayerArrays<T>::project_W},
    {"project_c", &LayerArrays<T>::project_c},
};

template <class T, class U>
LayerArrays<T> as(const LayerArrays<U>& from) {
  LayerArrays<T> to;
  to.marks = as<T>(from.marks);
  to.keys = as<T>(from.keys);
  for (size_t n = 0; n < std::size(kDifferentiable<T>); ++n)
    to.*kDifferentiable<T>[n].array = as<T>(from.*kDifferentiable<U>[n].array);
  return to;
}

// A block of one layer or two. `in` holds the arrays of the block and of the first layer, `second` those of the second.
struct LayerProblem {
  BlockShape shape;
  LayerArrays<double> in, second;
  std::vector<double> y_gradient, final_gradient, second_final_gradient;

  std::string name() const {
    const auto number = [](auto n) { return std::to_string(int64_t(n)); };
    const LayerShape& layer = shape.layer;
    return "layer batch=" + number(layer.batch) + " length=" + number(layer.length) + " width=" + number(layer.width) +
           " state=" + number(layer.state) + " transition=" + number(layer.transition) + " gain=" + number(layer.gain) +
           " direct=" + number(layer.direct) + " rank=" + number(layer.rank) +
           (in.W_B.empty() && in.V1.empty() ? " static B" : "") + (in.W_C.empty() && in.U1.empty() ? " static C" : "") +
           (layer.oscillate ? " oscillating" : "") + (layer.counting ? " counting" : "") +
           (layer.reverse ? " reverse" : "") + (in.W_w.empty() ? " static" : "") + (in.b.empty() ? "" : " bias") +
           (in.dt.empty() ? "" : " dt") + (in.marks.empty() ? "" : " marks") +
           " directions=" + number(shape.directions) + " norm=" + number(shape.norm) +
           (in.gate_W.empty() ? "" : " gate") + (shape.skip ? " skip" : "") + (in.keys.empty() ? "" : " dropout") +
           " after=" + number(shape.after) + " out=" + number(shape.out);
  }
};

// The block around the layer.
struct BlockOptions {
  NormKind norm = NormKind::kNone;
  bool gated = false, skip = false;
  uint32_t threshold = 0;
  int64_t directions = 1;
  NormKind after = NormKind::kNone;
  int64_t out = 0;
};

BlockOptions any_block() {
  const bool gated = generator() % 2 == 0, skip = generator() % 2 == 0;
  const NormKind norm = NormKind(generator() % 4), after = NormKind(one_of({0, 0, 1, 2}));
  return {norm, gated, skip, uint32_t(one_of({0, 6554, 32768})), one_of({1, 2}), after, one_of({0, 0, 1, 3, 18})};
}

struct Options {
  bool oscillate, reverse, timed, marked;
  Gain gain;
  Direct direct;
  int64_t rank = 0;
  BlockOptions block = {};
  Transition transition = Transition::kStable;
  bool selective = true, bias = true, counting = false;
  bool selective_input = true, selective_output = true;  // otherwise B or C is static
};

std::vector<Options> all_options() {
  std::vector<Options> options;
  for (int flags = 0; flags < 16; ++flags)
    for (const Gain gain : {Gain::kNone, Gain::kRate, Gain::kVariance})
      for (const Direct direct : {Direct::kStatic, Direct::kDiagonal, Direct::kFull})
        for (const int64_t rank : {int64_t(0), one_of({1, 2, 3, 5, 13})})
          for (const BlockOptions& block : {BlockOptions{}, any_block()}) {
            Options one = {
                (flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0, (flags & 8) != 0, gain, direct, rank, block};
            // The transitions with a spectrum of their own always oscillate.
            one.transition = Transition(one.oscillate ? one_of({0, 1, 2, 3, 4}) : one_of({0, 0, 1}));
            one.selective = generator() % 3 != 0;
            one.bias = generator() % 4 != 0;
            one.counting = options.size() % 3 == 0;
            one.selective_input = generator() % 3 != 0;
            one.selective_output = generator() % 3 != 0;
            options.push_back(one);
          }
  return options;
}

Options any_options() {
  static const std::vector<Options> options = all_options();
  return options[generator() % options.size()];
}

// The arrays of a layer, without those of the block.
LayerArrays<double> layer_arrays(const Options& options, const LayerShape& shape) {
  const int64_t events = shape.events(), rows = shape.rows(), width = shape.width, state = shape.state;
  const int64_t entries = options.direct == Direct::kFull ? width : 1;
  const double scale = 1 / std::sqrt(double(width));
  LayerArrays<double> in;
  if (options.timed) {
    in.dt = numbers(events);
    // Most gaps are around one. Some are zero, and some are so long that the state decays to zero in single precision.
    // For the others, a long gap amplifies the rounding errors of w_k.
    const bool bounded = options.transition == Transition::kStable || options.transition == Transition::kRing;
    const int64_t longest = bounded ? 500 : 3;
    for (double& dt : in.dt) dt = generator() % 8 == 0 ? double(one_of({0, longest})) : dt + 1;
  }
  if (options.marked) {
    in.marks.resize(events);
    for (double& mark : in.marks) mark = double(one_of({0, 0, 0, 0, 0, 0, kAbsent, kAbsent, kReset, kAbsent + kReset}));
  }
  in.initial = numbers(shape.batch * rows);
  in.w = numbers(state, 2);
  if (options.transition == Transition::kPlain)
    for (double& w : in.w) w = float(0.6 + w / 8);  // |a| < 1
  if (options.selective) {
    const double weak = options.transition == Transition::kPlain ? 0.1 : 1;
    in.W_w = numbers(state * width, weak * scale);
  }
  if (options.oscillate) in.omega = numbers(state, 3);
  if (options.transition == Transition::kStep || options.transition == Transition::kHeldStep) {
    in.decay = numbers(state);
    if (generator() % 4 == 0) in.decay[0] = -12;  // below the least decay
  }
  in.B = numbers(rows * width, scale);
  if (options.bias) in.b = numbers(rows);
  in.C = numbers(width * rows, 1 / std::sqrt(double(rows)));
  if (options.selective_input && options.rank == 0) in.W_B = numbers(rows * width * width, scale);
  if (options.selective_output && options.rank == 0)
    in.W_C = numbers(width * rows * width, 1 / std::sqrt(double(rows)));
  if (options.selective_input && options.rank > 0) {
    in.V1 = numbers(options.rank * width);
    in.V2 = numbers(options.rank * width, scale);
    in.V3 = numbers(rows * options.rank);
  }
  if (options.selective_output && options.rank > 0) {
    in.U1 = numbers(options.rank * rows, 1 / std::sqrt(double(rows)));
    in.U2 = numbers(options.rank * width, scale);
    in.U3 = numbers(width * options.rank);
  }
  in.D = numbers(width * entries);
  if (options.direct != Direct::kStatic) in.W_D = numbers(width * entries * width, scale);
  return in;
}

LayerProblem layer_problem(const Options& options, int64_t batch, int64_t length, int64_t width, int64_t state) {
  LayerProblem problem;
  LayerShape& layer = problem.shape.layer;
  // b keeps the rate away from 2, where the slope of the variance gain is infinite.
  layer = {batch,          length, width, state,        options.oscillate,  options.reverse, options.gain,
           options.direct, 0.75,   0.625, options.rank, options.transition, options.counting};
  const BlockOptions& block = options.block;
  problem.shape.directions = block.directions;
  problem.shape.norm = block.norm;
  problem.shape.skip = block.skip;
  problem.shape.threshold = block.threshold;
  problem.shape.after = block.after;
  problem.shape.out = block.out;
  const int64_t events = layer.events(), rows = layer.rows();
  const double scale = 1 / std::sqrt(double(width));
  LayerArrays<double>& in = problem.in;
  in = layer_arrays(options, layer);
  if (block.directions > 1) problem.second = layer_arrays(options, layer);
  in.u = numbers(events * width);
  if (block.norm != NormKind::kNone) in.scale = numbers(width);
  if (block.norm == NormKind::kLayer || block.norm == NormKind::kAffine) in.shift = numbers(width);
  if (block.norm == NormKind::kAffine) in.mean = numbers(width);
  if (block.gated) {
    in.gate_W = numbers(width * width, scale);
    in.gate_c = numbers(width);
  }
  if (block.after != NormKind::kNone) in.after_scale = numbers(width);
  if (block.after == NormKind::kLayer) in.after_shift = numbers(width);
  in.project_W = numbers(block.out * width, scale);
  in.project_c = numbers(block.out);
  if (block.threshold > 0) {
    in.keys.resize(4 * batch);
    for (double& key : in.keys) key = double(generator() % 65536);
  }
  problem.y_gradient = numbers(events * problem.shape.out_width());
  problem.final_gradient = numbers(batch * rows);
  if (block.directions > 1) problem.second_final_gradient = numbers(batch * rows);
  return problem;
}

template <class T>
struct LayerResults {
  std::vector<T> y, x, raw, input, second_x, second_raw, second_input;
  std::vector<T> z;  // saved by blocks with a gate and a full output map
};

struct Discretized {
  std::complex<Real> a, gain;
};

Discretized discretize(const LayerShape& shape, bool timed, Real w, Real omega, Real decay, Real dt) {
  if (shape.transition == Transition::kStep || shape.transition == Transition::kHeldStep) {
    const std::complex<Real> spectrum(-std::max(std::exp(decay), Real(1e-4)), omega);
    const Real size = std::log1p(std::exp(w));
    const std::complex<Real> a = std::exp(spectrum * size * dt), unit = std::exp(spectrum * size);
    return {a, ((shape.transition == Transition::kHeldStep ? a : unit) - Real(1)) / spectrum};
  }
  Real rate = 1 / (shape.a * w * w + shape.b);
  if (shape.transition == Transition::kPlain) rate = 1 - w;
  if (shape.transition == Transition::kRing) rate = std::exp(w);
  const bool euler = !timed && !shape.oscillate;
  Discretized at = {euler ? 1 - rate : std::exp(-rate * dt) * std::polar(Real(1), omega * dt), 1};
  if (shape.gain == Gain::kRate) at.gain = rate;
  if (shape.gain == Gain::kVariance)
    at.gain = std::sqrt(std::max(Real(0), euler ? rate * (2 - rate) : -std::expm1(-2 * rate)));
  return at;
}

// The gap before event k as state p reads it.
Real plain_gap(const LayerShape& shape, const std::vector<Real>& dt, int64_t k, int64_t p) {
  return dt.empty() || (shape.counting && p % 2 != 0) ? Real(1) : dt[k];
}

Real inner(const Real* one, const Real* other, int64_t count) {
  Real sum = 0;
  for (int64_t n = 0; n < count; ++n) sum += one[n] * other[n];
  return sum;
}

uint32_t plain_scramble(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

// The dropout factor: 0, or 1 / (1 - probability). `key` is not read if the threshold is 0.
template <class T>
Real plain_keep(const T* key, uint32_t threshold, int64_t position, int64_t channel) {
  if (threshold == 0) return 1;
  const uint32_t first = uint32_t(key[0]) + 65536u * uint32_t(key[1]),
                 second = uint32_t(key[2]) + 65536u * uint32_t(key[3]);
  const uint32_t event = plain_scramble(uint32_t(position) * 0x9e3779b1u + first);
  const uint32_t bits = plain_scramble(event ^ (uint32_t(channel / 2) * 0x85ebca77u + second));
  const uint32_t draw = channel % 2 == 0 ? bits % 65536 : bits / 65536;
  return draw < threshold ? Real(0) : Real(65536) / (65536 - Real(threshold));
}

struct PlainGelu {
  Real value, slope;

  explicit PlainGelu(Real x) {
    const Real scale = std::sqrt(Real(2) / std::acos(Real(-1))), cubic = Real(0.044715L);
    const Real t = std::tanh(scale * (x + cubic * x * x * x));
    value = x * (1 + t) / 2;
    slope = (1 + t) / 2 + x * (1 - t * t) / 2 * scale * (1 + 3 * cubic * x * x);
  }
};

Real plain_sigmoid(Real x) { return 1 / (1 + std::exp(-x)); }

using Reals = std::vector<Real>;

Reals plain_norm(NormKind kind, const Reals& scale, const Reals& shift, const Reals& means, const Real* u,
                 int64_t width) {
  Reals out(u, u + width);
  Real mean = 0, square = 0;
  if (kind == NormKind::kLayer)
    for (const Real q : out) mean += q / width;
  for (const Real q : out) square += (q - mean) * (q - mean) / width;
  if (kind == NormKind::kLayer || kind == NormKind::kRms)
    for (Real& q : out) q = (q - mean) / std::sqrt(square + Real(kNormEpsilon));
  for (int64_t h = 0; h < width; ++h)
    out[h] =
        (out[h] - (means.empty() ? 0 : means[h])) * (scale.empty() ? 1 : scale[h]) + (shift.empty() ? 0 : shift[h]);
  return out;
}

// Returns the block's output from the layers' output.
Reals plain_end(const BlockShape& shape, const LayerArrays<Real>& in, int64_t event, Reals y) {
  const int64_t width = shape.layer.width, length = shape.layer.length, sequence = event / length;
  const Reals z = y;
  for (int64_t h = 0; h < width; ++h) {
    if (!in.gate_W.empty()) {
      Real sum = in.gate_c[h];
      for (int64_t j = 0; j < width; ++j) sum += in.gate_W[h * width + j] * PlainGelu(z[j]).value;
      y[h] *= plain_sigmoid(sum);
    }
    y[h] *= plain_keep(in.keys.empty() ? nullptr : &in.keys[4 * sequence], shape.threshold, event % length, h);
    if (shape.skip) y[h] += in.u[event * width + h];
  }
  y = plain_norm(shape.after, in.after_scale, in.after_shift, {}, y.data(), width);
  if (shape.out == 0) return y;
  Reals out = in.project_c;
  for (int64_t n = 0; n < shape.out; ++n) out[n] += inner(&in.project_W[n * width], y.data(), width);
  return out;
}

// Adds the outputs of a layer to out.y, and computes its other results.
void plain_layer(const LayerShape& shape, const LayerArrays<Real>& in, const std::vector<Real>& normalised,
                 LayerResults<Real>& out) {
  const int64_t length = shape.length, width = shape.width, state = shape.state, rows = shape.rows();
  for (auto* array : {&out.input, &out.x}) array->resize(shape.events() * rows);
  out.raw.resize(shape.events() * state);
  std::vector<std::complex<Real>> x(state);
  for (int64_t n = 0; n < shape.batch; ++n) {
    const Real* initial = &in.initial[n * rows];
    for (int64_t p = 0; p < state; ++p) x[p] = {initial[p], shape.oscillate ? initial[state + p] : 0};
    for (int64_t step = 0; step < length; ++step) {
      const int64_t k = n * length + (shape.reverse ? length - 1 - step : step);
      const Real* u = &normalised[k * width];
      const int mark = in.marks.empty() ? 0 : int(in.marks[k]);
      Real *raw = &out.raw[k * state], *input = &out.input[k * rows], *states = &out.x[k * rows],
           *y = &out.y[k * width];
      for (int64_t p = 0; p < state; ++p) raw[p] = in.w[p] + (in.W_w.empty() ? 0 : inner(&in.W_w[p * width], u, width));
      for (int64_t p = 0; p < rows; ++p) input[p] = (in.b.empty() ? 0 : in.b[p]) + inner(&in.B[p * width], u, width);
      if (!in.W_B.empty())
        for (int64_t p = 0; p < rows; ++p)
          for (int64_t j = 0; j < width; ++j) input[p] += inner(&in.W_B[(p * width + j) * width], u, width) * u[j];
      for (int64_t r = 0; r < (in.V1.empty() ? 0 : shape.rank); ++r)
        for (int64_t p = 0; p < rows; ++p)
          input[p] +=
              in.V3[p * shape.rank + r] * inner(&in.V1[r * width], u, width) * inner(&in.V2[r * width], u, width);
      for (int64_t p = 0; p < state; ++p) {
        auto [a, gain] = discretize(shape, !in.dt.empty(), raw[p], in.omega.empty() ? 0 : in.omega[p],
                                    in.decay.empty() ? 0 : in.decay[p], plain_gap(shape, in.dt, k, p));
        std::complex<Real> v = gain * std::complex<Real>(input[p], shape.oscillate ? input[state + p] : 0);
        if (mark & kAbsent) a = 1, v = 0;
        if (mark & kReset) a = 0;
        x[p] = a * x[p] + v;
        states[p] = x[p].real();
        if (shape.oscillate) states[state + p] = x[p].imag();
      }
      for (int64_t h = 0; h < width; ++h) {
        y[h] += inner(&in.C[h * rows], states, rows);
        if (!in.W_C.empty())
          for (int64_t p = 0; p < rows; ++p) y[h] += inner(&in.W_C[(h * rows + p) * width], u, width) * states[p];
        for (int64_t r = 0; r < (in.U1.empty() ? 0 : shape.rank); ++r)
          y[h] +=
              in.U3[h * shape.rank + r] * inner(&in.U1[r * rows], states, rows) * inner(&in.U2[r * width], u, width);
        if (shape.direct == Direct::kStatic) y[h] += in.D[h] * u[h];
        if (shape.direct == Direct::kDiagonal) y[h] += (in.D[h] + inner(&in.W_D[h * width], u, width)) * u[h];
        if (shape.direct == Direct::kFull)
          for (int64_t i = 0, at = h * width; i < width; ++i, ++at)
            y[h] += (in.D[at] + inner(&in.W_D[at * width], u, width)) * u[i];
      }
    }
  }
}

LayerShape opposite(LayerShape shape) {
  shape.reverse = !shape.reverse;
  return shape;
}

LayerResults<Real> plain_block(const BlockShape& shape, const LayerArrays<Real>& in, const LayerArrays<Real>& second) {
  const int64_t events = shape.layer.events(), width = shape.layer.width;
  std::vector<Real> normalised;
  for (int64_t k = 0; k < events; ++k) {
    const Reals one = plain_norm(shape.norm, in.scale, in.shift, in.mean, &in.u[k * width], width);
    normalised.insert(normalised.end(), one.begin(), one.end());
  }
  LayerResults<Real> out;
  out.y.resize(events * width);
  if (shape.directions > 1) {
    plain_layer(opposite(shape.layer), second, normalised, out);
    std::swap(out.x, out.second_x);
    std::swap(out.raw, out.second_raw);
    std::swap(out.input, out.second_input);
  }
  plain_layer(shape.layer, in, normalised, out);
  Reals ends;
  for (int64_t k = 0; k < events; ++k) {
    const Reals one = plain_end(shape, in, k, Reals(&out.y[k * width], &out.y[k * width] + width));
    ends.insert(ends.end(), one.begin(), one.end());
  }
  out.y = ends;
  if (in.W_w.empty()) out.raw = out.second_raw = {};  // the kernels do not save it
  return out;
}

Real plain_final(const LayerShape& shape, const std::vector<Real>& x, const std::vector<double>& gradient) {
  Real loss = 0;
  for (int64_t n = 0; n < shape.batch; ++n)
    for (int64_t p = 0; p < shape.rows(); ++p) {
      const int64_t last = n * shape.length + (shape.reverse ? 0 : shape.length - 1);
      loss += x[last * shape.rows() + p] * gradient[n * shape.rows() + p];
    }
  return loss;
}

// The loss whose gradients are tested.
Real plain_loss(const LayerProblem& problem, const LayerArrays<Real>& in, const LayerArrays<Real>& second) {
  const BlockShape& shape = problem.shape;
  const LayerResults<Real> out = plain_block(shape, in, second);
  Real loss = plain_final(shape.layer, out.x, problem.final_gradient);
  if (shape.directions > 1) loss += plain_final(opposite(shape.layer), out.second_x, problem.second_final_gradient);
  for (size_t n = 0; n < out.y.size(); ++n) loss += out.y[n] * problem.y_gradient[n];
  return loss;
}

// A direction in one array, and the derivative of the loss along it.
struct Slope {
  std::vector<double> direction;
  double along;

  template <class T>
  void check(const std::vector<T>& gradient, const std::string& what) const {
    double sum = 0, scale = 1;
    for (size_t n = 0; n < direction.size(); ++n) {
      sum += direction[n] * gradient[n];
      scale += std::fabs(direction[n] * gradient[n]);
    }
    check_close(std::vector<double>{sum / scale}, std::vector<double>{along / scale}, 1e-9, what);
  }
};

template <class Loss>
Slope slope_of(std::vector<Real>& array, Loss loss) {
  constexpr Real kStep = 1e-6L;
  const std::vector<Real> here = array;
  const std::vector<double> direction = numbers(int64_t(here.size()));
  const auto loss_at = [&](Real step) {
    for (size_t n = 0; n < here.size(); ++n) array[n] = here[n] + step * direction[n];
    return loss();
  };
  const Real near = loss_at(kStep) - loss_at(-kStep), far = loss_at(2 * kStep) - loss_at(-2 * kStep);
  array = here;
  return {direction, double((8 * near - far) / (12 * kStep))};
}

// The slopes of the first layer and the block, then those of the second layer.
std::vector<Slope> layer_slopes(const LayerProblem& problem) {
  LayerArrays<Real> in = as<Real>(problem.in), second = as<Real>(problem.second);
  std::vector<Slope> slopes;
  for (auto* arrays : {&in, &second})
    for (const auto& [name, array] : kDifferentiable<Real>)
      slopes.push_back(slope_of(arrays->*array, [&] { return plain_loss(problem, in, second); }));
  return slopes;
}

template <class T>
LayerInputs<T> layer_pointers(const LayerArrays<T>& in) {
  return {pointer(in.dt),    pointer(in.marks), pointer(in.initial), pointer(in.w),   pointer(in.W_w),
          pointer(in.omega), pointer(in.decay), pointer(in.B),       pointer(in.W_B), pointer(in.b),
          pointer(in.C),     pointer(in.W_C),   pointer(in.D),       pointer(in.W_D), pointer(in.V1),
          pointer(in.V2),    pointer(in.V3),    pointer(in.U1),      pointer(in.U2),  pointer(in.U3)};
}

template <class T>
LayerGradients<T> layer_pointers(LayerArrays<T>& out) {
  return {pointer(out.dt),    pointer(out.initial), pointer(out.w),   pointer(out.W_w), pointer(out.omega),
          pointer(out.decay), pointer(out.B),       pointer(out.W_B), pointer(out.b),   pointer(out.C),
          pointer(out.W_C),   pointer(out.D),       pointer(out.W_D), pointer(out.V1),  pointer(out.V2),
          pointer(out.V3),    pointer(out.U1),      pointer(out.U2),  pointer(out.U3)};
}

template <class T>
BlockInputs<T> pointers(const LayerArrays<T>& in, const LayerArrays<T>& second) {
  return {pointer(in.u),           {layer_pointers(in), layer_pointers(second)},
          pointer(in.scale),       pointer(in.shift),
          pointer(in.mean),        pointer(in.gate_W),
          pointer(in.gate_c),      pointer(in.keys),
          pointer(in.after_scale), pointer(in.after_shift),
          pointer(in.project_W),   pointer(in.project_c)};
}

template <class T>
LayerResults<T> run_layer(const Kernels<T>& kernels, const LayerProblem& problem, bool save, Pool pool) {
  const LayerShape& shape = problem.shape.layer;
  const LayerArrays<T> in = as<T>(problem.in), second = as<T>(problem.second);
  const bool both = problem.shape.directions > 1;
  LayerResults<T> out;
  out.y = unwritten<T>(shape.events() * problem.shape.out_width());
  out.x = unwritten<T>(shape.events() * shape.rows());
  if (both) out.second_x = out.x;
  if (save) {
    out.input = out.x;
    if (!in.W_w.empty()) out.raw = unwritten<T>(shape.events() * shape.state);
    if (both) out.second_input = out.input, out.second_raw = out.raw;
    const bool has_tail = problem.shape.after != NormKind::kNone || problem.shape.out > 0;
    if ((!in.gate_W.empty() || problem.shape.threshold > 0 || has_tail) && !in.W_C.empty())
      out.z = unwritten<T>(shape.events() * shape.width);
  }
  kernels.block(problem.shape, pointers(in, second),
                {pointer(out.y),
                 pointer(out.z),
                 {{pointer(out.x), pointer(out.raw), pointer(out.input)},
                  {pointer(out.second_x), pointer(out.second_raw), pointer(out.second_input)}}},
                pool);
  return out;
}

// The gradients of the first layer and the block, and those of the second layer.
template <class T>
struct BlockArrays {
  LayerArrays<T> first, second;
};

template <class T>
BlockGradients<T> block_pointers(BlockArrays<T>& of) {
  LayerArrays<T>& first = of.first;
  return {pointer(first.u),           {layer_pointers(first), layer_pointers(of.second)},
          pointer(first.scale),       pointer(first.shift),
          pointer(first.mean),        pointer(first.gate_W),
          pointer(first.gate_c),      pointer(first.after_scale),
          pointer(first.after_shift), pointer(first.project_W),
          pointer(first.project_c)};
}

template <class T>
BlockArrays<T> run_layer_gradient(const Kernels<T>& kernels, const LayerProblem& problem, const LayerResults<T>& saved,
                                  Pool pool) {
  const LayerArrays<T> in = as<T>(problem.in), second = as<T>(problem.second);
  const std::vector<T> y_gradient = as<T>(problem.y_gradient), final_gradient = as<T>(problem.final_gradient);
  const std::vector<T> second_final_gradient = as<T>(problem.second_final_gradient);
  BlockArrays<T> found;
  LayerArrays<T>& out = found.first;
  for (const auto& [name, array] : kDifferentiable<T>) {
    out.*array = unwritten<T>((in.*array).size());
    found.second.*array = unwritten<T>((second.*array).size());
  }
  kernels.block_gradient(problem.shape, pointers(in, second),
                         {pointer(y_gradient),
                          pointer(saved.z),
                          {{pointer(saved.x), pointer(saved.raw), pointer(saved.input), pointer(final_gradient)},
                           {pointer(saved.second_x), pointer(saved.second_raw), pointer(saved.second_input),
                            pointer(second_final_gradient)}}},
                         block_pointers(found), pool);
  return found;
}

template <class T>
void check_layer_results(const LayerResults<T>& got, const LayerResults<Real>& wanted, double tolerance,
                         const std::string& name) {
  check_close(got.y, wanted.y, tolerance, name + ": y");
  check_close(got.x, wanted.x, tolerance, name + ": x");
  check_close(got.raw, wanted.raw, tolerance, name + ": raw");
  check_close(got.input, wanted.input, tolerance, name + ": input");
  check_close(got.second_x, wanted.second_x, tolerance, name + ": second x");
  check_close(got.second_raw, wanted.second_raw, tolerance, name + ": second raw");
  check_close(got.second_input, wanted.second_input, tolerance, name + ": second input");
}

template <class T>
const std::vector<T>& array_of(const BlockArrays<T>& of, size_t n) {
  constexpr size_t kCount = std::size(kDifferentiable<T>);
  return (n < kCount ? of.first : of.second).*kDifferentiable<T>[n % kCount].array;
}

std::string name_of(size_t n) {
  constexpr size_t kCount = std::size(kDifferentiable<double>);
  return (n < kCount ? ": d" : ": second d") + std::string(kDifferentiable<double>[n % kCount].name);
}

void check_layer(const LayerProblem& problem) {
  const LayerResults<Real> plain = plain_block(problem.shape, as<Real>(problem.in), as<Real>(problem.second));
  const std::vector<Slope> slopes = layer_slopes(problem);
  for (const InstructionSet& set : usable_sets()) {
    const std::string name = problem.name() + ", " + set.name;
    const auto results = run_layer(set.kernels<double>(), problem, true, kSerial);
    const auto gradients = run_layer_gradient(set.kernels<double>(), problem, results, kSerial);
    check_layer_results(results, plain, 1e-13, name + " double");
    for (size_t n = 0; n < slopes.size(); ++n) slopes[n].check(array_of(gradients, n), name + " double" + name_of(n));

    // A norm divides by a standard deviation that may be small, which amplifies rounding errors of single precision.
    const bool normed = problem.shape.norm != NormKind::kNone || problem.shape.after != NormKind::kNone;
    const double loose = normed ? 5e-4 : 2e-5;
    const auto single_results = run_layer(set.kernels<float>(), problem, true, kSerial);
    const auto single_gradients = run_layer_gradient(set.kernels<float>(), problem, single_results, kSerial);
    check_layer_results(single_results, plain, normed ? 5e-5 : 5e-6, name + " float");
    for (size_t n = 0; n < slopes.size(); ++n)
      check_close(array_of(single_gradients, n), array_of(gradients, n), loose, name + " float" + name_of(n));

    const auto unsaved = run_layer(set.kernels<float>(), problem, false, kSerial);
    check(same_bits(unsaved.x, single_results.x) && same_bits(unsaved.y, single_results.y) &&
              same_bits(unsaved.second_x, single_results.second_x),
          name + " float: other numbers if nothing is saved");
  }
}

void test_layer() {
  const std::vector<int64_t> lengths = {1, 2, 3, 5, 7, 11, 13, 31, 97}, sizes = {1, 2, 3, 4, 5, 7, 8, 11, 13};
  for (const Options& options : all_options()) {
    int64_t batch, length, width, state;
    do {
      batch = one_of({1, 2, 3}), length = one_of(lengths), width = one_of(sizes), state = one_of(sizes);
    } while (batch * length * width * width * state > 10000);  // plain loops are slow
    check_layer(layer_problem(options, batch, length, width, state));
  }
  for (int64_t length = 1; length <= 200; ++length)
    check_layer(layer_problem(any_options(), 1, length, one_of({1, 2, 3}), one_of({1, 2, 3, 5})));
  for (int64_t size = 1; size <= 36; ++size) {
    check_layer(layer_problem(any_options(), 2, 2, size, one_of({1, 2, 3})));
    check_layer(layer_problem(any_options(), 2, 5, one_of({1, 2, 3}), size));
    Options factored = any_options();
    factored.rank = size;
    check_layer(layer_problem(factored, 2, 3, one_of({1, 2, 3}), one_of({1, 2, 3})));
  }
}

// Covers several chunks of tiles, the maximum number of chunks, sums in several blocks, and sequences that end within a
// tile.
void test_large_layers() {
  Options options = {true, false, true, true, Gain::kVariance, Direct::kFull};
  check_layer(layer_problem(options, 3, 47, 17, 19));
  options = {false, true, true, false, Gain::kNone, Direct::kDiagonal, 41};
  check_layer(layer_problem(options, 2, 53, 23, 29));
  options = {false, true, true, true, Gain::kRate, Direct::kDiagonal, 2};
  check_layer(layer_problem(options, 3, 523, 3, 2));
  options = {true, true, false, false, Gain::kVariance, Direct::kStatic};
  check_layer(layer_problem(options, 3, 5501, 1, 1));
  options = {true, false, true, true, Gain::kRate, Direct::kDiagonal, 5, {NormKind::kLayer, true, true, 6554}};
  check_layer(layer_problem(options, 3, 131, 19, 7));
  options = {false, true, false, true, Gain::kRate, Direct::kFull, 0, {NormKind::kRms, true, true, 32768}};
  check_layer(layer_problem(options, 2, 197, 5, 7));
  options = {true, false, true, true, Gain::kRate, Direct::kDiagonal, 3, {NormKind::kAffine, true, true, 6554, 2}};
  options.transition = Transition::kHeldStep;
  check_layer(layer_problem(options, 2, 331, 5, 11));
}

// Many long sequences: these are computed along sequences, tile by tile.
void test_large_batches() {
  Options options = {true, false, true, true, Gain::kRate, Direct::kDiagonal, 3, {NormKind::kLayer, true, true, 6554}};
  check_layer(layer_problem(options, 8, 293, 5, 3));
  options = {true, true, false, true, Gain::kVariance, Direct::kStatic, 0, {NormKind::kRms, true, false, 0, 2}};
  options.selective = options.selective_input = options.selective_output = false;
  check_layer(layer_problem(options, 9, 288, 3, 2));
  options = {false, true, true, false, Gain::kRate, Direct::kDiagonal, 2, {NormKind::kAffine, false, true, 32768, 2}};
  options.selective_input = false;
  check_layer(layer_problem(options, 35, 290, 2, 3));
  options = {false, false, false, false, Gain::kNone, Direct::kDiagonal, 2};
  options.selective_output = false;
  check_layer(layer_problem(options, 10, 385, 4, 5));
}

// Angles that are too large for the fast sine. The products omega · dt are exact, so single precision can be compared.
void test_large_angles() {
  for (const bool reverse : {false, true}) {
    LayerProblem problem = layer_problem({true, reverse, true, false, Gain::kRate, Direct::kFull}, 2, 29, 2, 5);
    problem.shape.layer.a = 16;
    for (double& omega : problem.in.omega) omega = 512 * double(one_of({-9, -4, -1, 1, 2, 5, 9}));
    for (double& dt : problem.in.dt) dt = double(one_of({1, 2, 7, 16, 31, 64}));
    check_layer(problem);
  }
}

// For a rate above 2, 1 - |a|² is negative: the variance gain and its slope are zero.
void test_unstable_rates() {
  LayerProblem problem = layer_problem({false, false, false, false, Gain::kVariance, Direct::kStatic}, 2, 5, 3, 5);
  problem.shape.layer.a = 0.001;
  problem.shape.layer.b = 0.375;
  check_layer(problem);
}

template <class T>
std::vector<T> second_half(const std::vector<T>& array) {
  return std::vector<T>(array.begin() + int64_t(array.size() / 2), array.end());
}

// A NaN in the input makes the rest of its sequence NaN and does not affect the other sequence in the same tile.
template <class T>
void check_nan(const InstructionSet& set, const Options& options) {
  LayerProblem problem = layer_problem(options, 2, 31, 3, 5);
  const auto healthy = run_layer(set.kernels<T>(), problem, true, kSerial);
  const LayerArrays<T> healthy_gradients = run_layer_gradient(set.kernels<T>(), problem, healthy, kSerial).first;
  problem.in.u[40] = std::numeric_limits<double>::quiet_NaN();
  const auto results = run_layer(set.kernels<T>(), problem, true, kSerial);
  const LayerArrays<T> gradients = run_layer_gradient(set.kernels<T>(), problem, results, kSerial).first;
  const std::string name = problem.name() + ", " + set.name + (sizeof(T) == sizeof(float) ? " float" : " double");
  const int64_t last = problem.shape.layer.length * problem.shape.layer.width - 1;
  check(std::isnan(results.y[last]) && std::isnan(gradients.w[0]), name + ": NaN was lost");
  check(same_bits(second_half(results.y), second_half(healthy.y)) &&
            same_bits(second_half(results.x), second_half(healthy.x)) &&
            same_bits(second_half(gradients.u), second_half(healthy_gradients.u)) &&
            same_bits(second_half(gradients.initial), second_half(healthy_gradients.initial)),
        name + ": NaN went from one sequence to another");
}

void test_nan() {
  for (const InstructionSet& set : usable_sets())
    for (const bool oscillate : {false, true})
      for (const int64_t rank : {0, 3}) {
        const Options options = {oscillate, false, true, false, Gain::kVariance, Direct::kFull, rank};
        check_nan<float>(set, options);
        check_nan<double>(set, options);
      }
}

// The recurrence ------------------------------------------------------------------------------------------------------

struct ScanProblem {
  ScanShape shape;
  std::vector<double> a, v, initial, gradient;

  std::string name() const {
    return "scan batch=" + std::to_string(shape.batch) + " length=" + std::to_string(shape.length) +
           " state=" + std::to_string(shape.state) + (shape.complex_numbers ? " complex" : " real") +
           (shape.reverse ? " reverse" : "");
  }
};

ScanProblem scan_problem(const ScanShape& shape) {
  const int64_t row = shape.batch * shape.state * (shape.complex_numbers ? 2 : 1), count = row * shape.length;
  return {shape, numbers(count, 0.7), numbers(count), numbers(row), numbers(count)};
}

using Complex = std::complex<Real>;

// Entry n of an array, real or complex.
Complex entry(const ScanShape& shape, const std::vector<Real>& array, int64_t n) {
  return shape.complex_numbers ? Complex(array[2 * n], array[2 * n + 1]) : Complex(array[n]);
}

std::vector<Real> plain_scan(const ScanShape& shape, const std::vector<Real>& a, const std::vector<Real>& v,
                             const std::vector<Real>& initial) {
  std::vector<Real> out(v.size());
  for (int64_t n = 0; n < shape.batch; ++n)
    for (int64_t p = 0; p < shape.state; ++p) {
      Complex x = entry(shape, initial, n * shape.state + p);
      for (int64_t step = 0; step < shape.length; ++step) {
        const int64_t k = shape.reverse ? shape.length - 1 - step : step, at = (n * shape.length + k) * shape.state + p;
        x = entry(shape, a, at) * x + entry(shape, v, at);
        if (shape.complex_numbers) {
          out[2 * at] = x.real();
          out[2 * at + 1] = x.imag();
        } else {
          out[at] = x.real();
        }
      }
    }
  return out;
}

struct ScanSlopes {
  Slope a, v, initial;
};

// JAX defines the gradient of a real loss with respect to complex numbers without conjugation: the loss is Re Σ g x,
// and its change is Re Σ da δa.
ScanSlopes scan_slopes(const ScanProblem& problem) {
  std::vector<Real> a = as<Real>(problem.a), v = as<Real>(problem.v), initial = as<Real>(problem.initial);
  const auto loss = [&] {
    const std::vector<Real> x = plain_scan(problem.shape, a, v, initial);
    Real sum = 0;
    for (size_t n = 0; n < x.size(); ++n)
      sum += x[n] * problem.gradient[n] * (problem.shape.complex_numbers && n % 2 == 1 ? -1 : 1);
    return sum;
  };
  ScanSlopes slopes = {slope_of(a, loss), slope_of(v, loss), slope_of(initial, loss)};
  if (problem.shape.complex_numbers)
    for (Slope* slope : {&slopes.a, &slopes.v, &slopes.initial})
      for (size_t n = 1; n < slope->direction.size(); n += 2) slope->direction[n] *= -1;
  return slopes;
}

template <class T>
std::vector<T> run_scan(const Kernels<T>& kernels, const ScanProblem& problem, Pool pool) {
  const std::vector<T> a = as<T>(problem.a), v = as<T>(problem.v), initial = as<T>(problem.initial);
  std::vector<T> x = unwritten<T>(v.size());
  kernels.scan(problem.shape, a.data(), v.data(), initial.data(), x.data(), pool);
  return x;
}

template <class T>
struct ScanGradients {
  std::vector<T> a, v, initial;
};

template <class T>
ScanGradients<T> run_scan_gradient(const Kernels<T>& kernels, const ScanProblem& problem, const std::vector<T>& x,
                                   Pool pool) {
  const std::vector<T> a = as<T>(problem.a), initial = as<T>(problem.initial), gradient = as<T>(problem.gradient);
  ScanGradients<T> out = {unwritten<T>(a.size()), unwritten<T>(a.size()), unwritten<T>(initial.size())};
  kernels.scan_gradient(problem.shape, a.data(), x.data(), initial.data(), gradient.data(), out.a.data(), out.v.data(),
                        out.initial.data(), pool);
  return out;
}

void check_scan(const ScanProblem& problem) {
  const std::vector<Real> plain =
      plain_scan(problem.shape, as<Real>(problem.a), as<Real>(problem.v), as<Real>(problem.initial));
  const ScanSlopes slopes = scan_slopes(problem);
  for (const InstructionSet& set : usable_sets()) {
    const std::string name = problem.name() + ", " + set.name;
    const auto x = run_scan(set.kernels<double>(), problem, kSerial);
    const auto gradients = run_scan_gradient(set.kernels<double>(), problem, x, kSerial);
    check_close(x, plain, 1e-14, name + " double: x");
    slopes.a.check(gradients.a, name + " double: da");
    slopes.v.check(gradients.v, name + " double: dv");
    slopes.initial.check(gradients.initial, name + " double: dinitial");

    const auto single = run_scan(set.kernels<float>(), problem, kSerial);
    const auto single_gradients = run_scan_gradient(set.kernels<float>(), problem, single, kSerial);
    check_close(single, plain, 2e-6, name + " float: x");
    check_close(single_gradients.a, gradients.a, 2e-6, name + " float: da");
    check_close(single_gradients.v, gradients.v, 2e-6, name + " float: dv");
    check_close(single_gradients.initial, gradients.initial, 2e-6, name + " float: dinitial");
  }
}

void test_scan() {
  for (const bool complex_numbers : {false, true})
    for (const bool reverse : {false, true}) {
      for (int64_t state = 1; state <= 100; ++state)
        check_scan(scan_problem({one_of({1, 2, 3}), one_of({1, 2, 3, 7}), state, complex_numbers, reverse}));
      check_scan(scan_problem({2, 211, 3, complex_numbers, reverse}));
    }
}

// The forms -----------------------------------------------------------------------------------------------------------

struct FormShape {
  int64_t events, width, rows, outputs;
  std::string name() const {
    return "events=" + std::to_string(events) + " width=" + std::to_string(width) + " rows=" + std::to_string(rows) +
           " outputs=" + std::to_string(outputs);
  }
};

template <class T>
struct FormResults {
  std::vector<T> y, W_gradient, x_gradient, u_gradient;

  void check_against(const FormResults<Real>& wanted, double tolerance, const std::string& name) const {
    check_close(y, wanted.y, tolerance, name + ": y");
    check_close(W_gradient, wanted.W_gradient, tolerance, name + ": dW");
    check_close(x_gradient, wanted.x_gradient, tolerance, name + ": dx");
    check_close(u_gradient, wanted.u_gradient, tolerance, name + ": du");
  }
};

struct FormProblem {
  FormShape shape;
  std::vector<double> W, x, u, gradient;
};

FormProblem form_problem(const FormShape& shape) {
  return {shape, numbers(shape.outputs * shape.rows * shape.width), numbers(shape.events * shape.rows),
          numbers(shape.events * shape.width), numbers(shape.events * shape.outputs)};
}

FormResults<Real> plain_bilinear(const FormProblem& problem, const std::vector<double>& x) {
  const auto [events, width, rows, outputs] = problem.shape;
  FormResults<Real> out;
  out.y.resize(events * outputs);
  out.W_gradient.resize(outputs * rows * width);
  out.x_gradient.resize(events * rows);
  out.u_gradient.resize(events * width);
  for (int64_t k = 0; k < events; ++k)
    for (int64_t n = 0; n < outputs; ++n)
      for (int64_t p = 0; p < rows; ++p)
        for (int64_t j = 0; j < width; ++j) {
          const int64_t at = (n * rows + p) * width + j;
          const Real W = problem.W[at], x_p = x[k * rows + p], u_j = problem.u[k * width + j];
          const Real gradient = problem.gradient[k * outputs + n];
          out.y[k * outputs + n] += W * x_p * u_j;
          out.W_gradient[at] += gradient * x_p * u_j;
          out.x_gradient[k * rows + p] += gradient * W * u_j;
          out.u_gradient[k * width + j] += gradient * W * x_p;
        }
  return out;
}

// A bilinear form in u and u. The gradient of u is the sum over both arguments.
FormResults<Real> plain_quadratic(const FormProblem& problem) {
  FormResults<Real> out = plain_bilinear(problem, problem.u);
  for (size_t n = 0; n < out.u_gradient.size(); ++n) out.u_gradient[n] += out.x_gradient[n];
  out.x_gradient.clear();
  return out;
}

template <class T>
FormResults<T> run_bilinear(const Kernels<T>& kernels, const FormProblem& problem, Pool pool) {
  const auto [events, width, rows, outputs] = problem.shape;
  const std::vector<T> W = as<T>(problem.W), x = as<T>(problem.x), u = as<T>(problem.u),
                       gradient = as<T>(problem.gradient);
  FormResults<T> out = {unwritten<T>(gradient.size()), unwritten<T>(W.size()), unwritten<T>(x.size()),
                        unwritten<T>(u.size())};
  kernels.bilinear(events, width, rows, outputs, W.data(), x.data(), u.data(), out.y.data(), pool);
  kernels.bilinear_gradient(events, width, rows, outputs, W.data(), x.data(), u.data(), gradient.data(),
                            out.W_gradient.data(), out.x_gradient.data(), out.u_gradient.data(), pool);
  return out;
}

template <class T>
FormResults<T> run_quadratic(const Kernels<T>& kernels, const FormProblem& problem, Pool pool) {
  const FormShape& shape = problem.shape;
  const std::vector<T> W = as<T>(problem.W), u = as<T>(problem.u), gradient = as<T>(problem.gradient);
  FormResults<T> out = {unwritten<T>(gradient.size()), unwritten<T>(W.size()), {}, unwritten<T>(u.size())};
  kernels.quadratic(shape.events, shape.width, shape.outputs, W.data(), u.data(), out.y.data(), pool);
  kernels.quadratic_gradient(shape.events, shape.width, shape.outputs, W.data(), u.data(), gradient.data(),
                             out.W_gradient.data(), out.u_gradient.data(), pool);
  return out;
}

void check_forms(FormShape shape) {
  const FormProblem bilinear = form_problem(shape);
  shape.rows = shape.width;
  const FormProblem quadratic = form_problem(shape);
  const FormResults<Real> plain_b = plain_bilinear(bilinear, bilinear.x), plain_q = plain_quadratic(quadratic);
  for (const InstructionSet& set : usable_sets()) {
    const std::string b = "bilinear " + bilinear.shape.name() + ", " + set.name,
                      q = "quadratic " + shape.name() + ", " + set.name;
    run_bilinear(set.kernels<double>(), bilinear, kSerial).check_against(plain_b, 1e-14, b + " double");
    run_bilinear(set.kernels<float>(), bilinear, kSerial).check_against(plain_b, 5e-6, b + " float");
    run_quadratic(set.kernels<double>(), quadratic, kSerial).check_against(plain_q, 1e-14, q + " double");
    run_quadratic(set.kernels<float>(), quadratic, kSerial).check_against(plain_q, 5e-6, q + " float");
  }
}

void test_forms() {
  for (int64_t events = 1; events <= 200; ++events)
    check_forms({events, one_of({1, 2, 3, 5}), one_of({1, 2, 3, 5}), one_of({1, 2, 3, 5})});
  for (int64_t outputs = 1; outputs <= 90; ++outputs)
    check_forms({one_of({1, 5, 7}), one_of({1, 2, 3}), one_of({1, 2, 3}), outputs});
  for (int64_t size = 1; size <= 20; ++size)
    check_forms({one_of({1, 3, 5}), size, one_of({1, 2, 7, 13}), one_of({1, 2, 7})});
  check_forms({1451, 3, 2, 2});
}

// Windows -------------------------------------------------------------------------------------------------------------

template <class T>
struct WindowArrays {
  std::vector<T> token, dt, marks, initial, raw, drive, omega, decay;
};

struct WindowProblem {
  WindowShape shape;
  WindowArrays<double> in;
  std::vector<double> gradient;

  std::string name() const {
    const LayerShape& layer = shape.layer;
    return "windows batch=" + std::to_string(layer.batch) + " length=" + std::to_string(layer.length) +
           " state=" + std::to_string(layer.state) + " stride=" + std::to_string(shape.stride) +
           " transition=" + std::to_string(int(layer.transition)) + " gain=" + std::to_string(int(layer.gain)) +
           (layer.oscillate ? " oscillating" : "") + (layer.counting ? " counting" : "") +
           (layer.reverse ? " reverse" : "") + (in.token.empty() ? "" : " tokens") + (in.dt.empty() ? "" : " dt") +
           (in.marks.empty() ? "" : " marks");
  }
};

WindowProblem window_problem(const Options& options, int64_t batch, int64_t windows, int64_t stride, int64_t state,
                             int64_t table) {
  // The layer problem already covers all kinds of marks, gaps, rates and gains.
  LayerProblem layer = layer_problem(options, batch, windows * stride, 1, state);
  const LayerShape& of_layer = layer.shape.layer;
  WindowProblem problem = {{of_layer, stride, table}, {}, {}};
  const int64_t events = of_layer.events(), rows = of_layer.rows(), count = table > 0 ? table : events;
  problem.in.dt = layer.in.dt;
  problem.in.marks = layer.in.marks;
  problem.in.initial = layer.in.initial;
  problem.in.omega = layer.in.omega;
  problem.in.decay = layer.in.decay;
  // Plain has no bound on the states, and differences of large states are not exact.
  problem.in.raw = numbers(count * state, options.transition == Transition::kPlain ? 0.5 : 2);
  problem.in.drive = numbers(count * rows);
  if (table > 0)
    for (int64_t k = 0; k < events; ++k) problem.in.token.push_back(double(int64_t(generator() % uint32_t(table))));
  problem.gradient = numbers(batch * windows * rows);
  return problem;
}

std::vector<Real> plain_windows(const WindowProblem& problem, const WindowArrays<Real>& in) {
  const LayerShape& shape = problem.shape.layer;
  const int64_t state = shape.state, rows = shape.rows(), stride = problem.shape.stride;
  std::vector<Real> out(problem.gradient.size());
  std::vector<std::complex<Real>> x(state);
  for (int64_t n = 0; n < shape.batch; ++n) {
    for (int64_t p = 0; p < state; ++p)
      x[p] = {in.initial[n * rows + p], shape.oscillate ? in.initial[n * rows + state + p] : 0};
    for (int64_t step = 0; step < shape.length; ++step) {
      const int64_t k = shape.reverse ? shape.length - 1 - step : step, at = n * shape.length + k;
      const int64_t row = in.token.empty() ? at : int64_t(in.token[at]);
      const int mark = in.marks.empty() ? 0 : int(in.marks[at]);
      for (int64_t p = 0; p < state; ++p) {
        auto [a, gain] = discretize(shape, !in.dt.empty(), in.raw[row * state + p], shape.oscillate ? in.omega[p] : 0,
                                    in.decay.empty() ? 0 : in.decay[p], plain_gap(shape, in.dt, at, p));
        const Real* drive = &in.drive[row * rows];
        std::complex<Real> v = gain * std::complex<Real>(drive[p], shape.oscillate ? drive[state + p] : 0);
        if (mark & kAbsent) a = 1, v = 0;
        if (mark & kReset) a = 0;
        x[p] = a * x[p] + v;
        if (k % stride == (shape.reverse ? 0 : stride - 1)) {
          Real* to = &out[(n * shape.length + k) / stride * rows];
          to[p] = x[p].real();
          if (shape.oscillate) to[state + p] = x[p].imag();
        }
      }
    }
  }
  return out;
}

template <class T>
struct WindowResults {
  std::vector<T> x;
  WindowArrays<T> gradients;
};

template <class T>
WindowResults<T> run_windows(const Kernels<T>& kernels, const WindowProblem& problem, Pool pool) {
  const WindowArrays<double>& from = problem.in;
  const WindowArrays<T> in = {as<T>(from.token), as<T>(from.dt),    as<T>(from.marks), as<T>(from.initial),
                              as<T>(from.raw),   as<T>(from.drive), as<T>(from.omega), as<T>(from.decay)};
  const std::vector<T> gradient = as<T>(problem.gradient);
  WindowResults<T> out = {unwritten<T>(gradient.size()),
                          {{},
                           unwritten<T>(in.dt.size()),
                           {},
                           unwritten<T>(in.initial.size()),
                           unwritten<T>(in.raw.size()),
                           unwritten<T>(in.drive.size()),
                           unwritten<T>(in.omega.size()),
                           unwritten<T>(in.decay.size())}};
  const WindowInputs<T> inputs = {pointer(in.token), pointer(in.dt),    pointer(in.marks), pointer(in.initial),
                                  pointer(in.raw),   pointer(in.drive), pointer(in.omega), pointer(in.decay)};
  kernels.window_scan(problem.shape, inputs, out.x.data(), pool);
  WindowArrays<T>& of = out.gradients;
  kernels.window_scan_gradient(
      problem.shape, inputs, out.x.data(), gradient.data(),
      {pointer(of.dt), pointer(of.initial), pointer(of.raw), pointer(of.drive), pointer(of.omega), pointer(of.decay)},
      pool);
  return out;
}

void check_windows(const WindowProblem& problem) {
  const WindowArrays<double>& from = problem.in;
  WindowArrays<Real> in = {as<Real>(from.token), as<Real>(from.dt),    as<Real>(from.marks), as<Real>(from.initial),
                           as<Real>(from.raw),   as<Real>(from.drive), as<Real>(from.omega), as<Real>(from.decay)};
  const std::vector<Real> plain = plain_windows(problem, in);
  const auto loss = [&] {
    const std::vector<Real> x = plain_windows(problem, in);
    Real sum = 0;
    for (size_t n = 0; n < x.size(); ++n) sum += x[n] * problem.gradient[n];
    return sum;
  };
  const Slope dt = slope_of(in.dt, loss), initial = slope_of(in.initial, loss), raw = slope_of(in.raw, loss),
              drive = slope_of(in.drive, loss), omega = slope_of(in.omega, loss), decay = slope_of(in.decay, loss);
  for (const InstructionSet& set : usable_sets()) {
    const std::string name = problem.name() + ", " + set.name;
    const auto found = run_windows(set.kernels<double>(), problem, kSerial);
    check_close(found.x, plain, 1e-13, name + " double: x");
    dt.check(found.gradients.dt, name + " double: ddt");
    initial.check(found.gradients.initial, name + " double: dinitial");
    raw.check(found.gradients.raw, name + " double: draw");
    drive.check(found.gradients.drive, name + " double: ddrive");
    omega.check(found.gradients.omega, name + " double: domega");
    decay.check(found.gradients.decay, name + " double: ddecay");
    const auto single = run_windows(set.kernels<float>(), problem, kSerial);
    check_close(single.x, plain, 5e-6, name + " float: x");
    check_close(single.gradients.raw, found.gradients.raw, 5e-5, name + " float: draw");
    check_close(single.gradients.drive, found.gradients.drive, 5e-5, name + " float: ddrive");
    check_close(single.gradients.dt, found.gradients.dt, 5e-5, name + " float: ddt");
  }
}

void test_windows() {
  for (int n = 0; n < 150; ++n) {
    Options options = any_options();
    options.rank = 0;
    options.block = {};
    const int64_t table = one_of({0, 1, 3, 7});
    check_windows(window_problem(options, one_of({1, 2, 5}), one_of({1, 2, 7}), one_of({1, 2, 3, 8}),
                                 one_of({1, 2, 3, 7, 8, 9, 16, 17, 33}), table));
  }
}

template <class T>
void add(const std::vector<T>& more, std::vector<T>& to) {
  for (size_t n = 0; n < to.size(); ++n) to[n] += more[n];
}

// Pooling -------------------------------------------------------------------------------------------------------------

template <class T>
struct PoolArrays {
  std::vector<T> values, token, share, last;
};

struct PoolProblem {
  PoolShape shape;
  PoolArrays<double> in;
  std::vector<double> mean_gradient, ends_gradient;

  std::string name() const {
    const auto number = [](int64_t n) { return std::to_string(n); };
    return "pool batch=" + number(shape.batch) + " windows=" + number(shape.windows) +
           " stride=" + number(shape.stride) + " width=" + number(shape.width) + " table=" + number(shape.table) +
           (in.share.empty() ? "" : " mean") + (in.last.empty() ? "" : " last");
  }
};

PoolProblem pool_problem(const PoolShape& shape, bool mean, bool partial) {
  const int64_t windows = shape.batch * shape.windows, events = windows * shape.stride;
  PoolProblem problem = {shape, {}, {}, numbers(windows * shape.width)};
  problem.in.values = numbers((shape.table > 0 ? shape.table : events) * shape.width);
  if (shape.table > 0)
    for (int64_t k = 0; k < events; ++k) problem.in.token.push_back(double(int64_t(generator() % shape.table)));
  if (mean) {
    problem.in.share = numbers(events);
    for (double& share : problem.in.share)
      if (generator() % 4 == 0) share = 0;  // padding
    problem.mean_gradient = numbers(windows * shape.width);
  }
  if (partial)
    for (int64_t m = 0; m < windows; ++m) problem.in.last.push_back(double(int64_t(generator() % shape.stride)));
  return problem;
}

template <class T>
struct PoolResults {
  std::vector<T> mean, ends, values_gradient, share_gradient;

  void check_against(const PoolResults<Real>& wanted, double tolerance, const std::string& name) const {
    check_close(mean, wanted.mean, tolerance, name + ": mean");
    check_close(ends, wanted.ends, tolerance, name + ": ends");
    check_close(values_gradient, wanted.values_gradient, tolerance, name + ": dvalues");
    check_close(share_gradient, wanted.share_gradient, tolerance, name + ": dshare");
  }
};

PoolResults<Real> plain_pool(const PoolProblem& problem) {
  const auto& [batch, windows, stride, width, table] = problem.shape;
  const PoolArrays<double>& in = problem.in;
  PoolResults<Real> out;
  out.ends.resize(batch * windows * width);
  out.mean.resize(in.share.empty() ? 0 : out.ends.size());
  out.values_gradient.resize(in.values.size());
  out.share_gradient.resize(in.share.size());
  for (int64_t m = 0; m < batch * windows; ++m)
    for (int64_t j = 0; j < stride; ++j) {
      const int64_t k = m * stride + j, row = in.token.empty() ? k : int64_t(in.token[k]);
      for (int64_t h = 0; h < width; ++h) {
        const Real value = in.values[row * width + h];
        if (j == (in.last.empty() ? stride - 1 : int64_t(in.last[m]))) {
          out.ends[m * width + h] = value;
          out.values_gradient[row * width + h] += problem.ends_gradient[m * width + h];
        }
        if (in.share.empty()) continue;
        out.mean[m * width + h] += in.share[k] * value;
        out.values_gradient[row * width + h] += in.share[k] * problem.mean_gradient[m * width + h];
        out.share_gradient[k] += value * problem.mean_gradient[m * width + h];
      }
    }
  return out;
}

template <class T>
PoolResults<T> run_pool(const Kernels<T>& kernels, const PoolProblem& problem, Pool pool) {
  const PoolArrays<double>& from = problem.in;
  const PoolArrays<T> in = {as<T>(from.values), as<T>(from.token), as<T>(from.share), as<T>(from.last)};
  const std::vector<T> of_mean = as<T>(problem.mean_gradient), of_ends = as<T>(problem.ends_gradient);
  PoolResults<T> out = {unwritten<T>(of_mean.size()), unwritten<T>(of_ends.size()), unwritten<T>(in.values.size()),
                        unwritten<T>(in.share.size())};
  const PoolInputs<T> inputs = {pointer(in.values), pointer(in.token), pointer(in.share), pointer(in.last)};
  kernels.pool_rows(problem.shape, inputs, pointer(out.mean), pointer(out.ends), pool);
  kernels.pool_rows_gradient(problem.shape, inputs, pointer(of_mean), pointer(of_ends), pointer(out.values_gradient),
                             pointer(out.share_gradient), pool);
  return out;
}

void test_pooling() {
  for (int n = 0; n < 200; ++n) {
    const PoolShape shape = {one_of({1, 2, 5}), one_of({1, 2, 9, 70}), one_of({1, 2, 3, 8}),
                             one_of({1, 3, 4, 8, 15, 16, 17, 64, 65, 100}), one_of({0, 1, 3, 300})};
    const PoolProblem problem = pool_problem(shape, generator() % 3 > 0, generator() % 2 > 0);
    const PoolResults<Real> plain = plain_pool(problem);
    for (const InstructionSet& set : usable_sets()) {
      const std::string name = problem.name() + ", " + set.name;
      run_pool(set.kernels<double>(), problem, kSerial).check_against(plain, 1e-14, name + " double");
      run_pool(set.kernels<float>(), problem, kSerial).check_against(plain, 5e-6, name + " float");
    }
  }
}

// Blocks over windows -------------------------------------------------------------------------------------------------

// A block that is read at the ends of windows. With tokens, `block.in.u` is the table.
struct WindowBlockProblem {
  LayerProblem block;
  int64_t stride;
  std::vector<double> token, share, last, ends, skip;

  int64_t windows() const { return block.shape.layer.events() / stride; }
  std::string name() const {
    return "windows of " + std::to_string(stride) + (token.empty() ? "" : " tokens") + (share.empty() ? "" : " mean") +
           (last.empty() ? "" : " last") + (ends.empty() ? "" : " ends") + " of " + block.name();
  }
};

template <class T>
struct WindowBlockResults {
  std::vector<T> y, x[kDirections], share, ends, skip;
  BlockArrays<T> gradients;
};

template <class T>
WindowBlockResults<T> run_window_block(const Kernels<T>& kernels, const WindowBlockProblem& problem, Pool pool) {
  const BlockShape& shape = problem.block.shape;
  const LayerArrays<T> first = as<T>(problem.block.in), second = as<T>(problem.block.second);
  const std::vector<T> token = as<T>(problem.token), share = as<T>(problem.share), last = as<T>(problem.last),
                       ends = as<T>(problem.ends), skip = as<T>(problem.skip);
  const int64_t windows = problem.windows(), rows = int64_t(first.u.size()) / shape.layer.width;
  const WindowBlockShape sizes = {shape, problem.stride, token.empty() ? 0 : rows};
  const WindowBlockInputs<T> in = {pointers(first, second), pointer(token), pointer(share),
                                   pointer(last),           pointer(ends),  pointer(skip)};
  const std::vector<T> y_gradient = as<T>(problem.block.y_gradient);
  const std::vector<T> finals[] = {as<T>(problem.block.final_gradient), as<T>(problem.block.second_final_gradient)};
  WindowBlockResults<T> out;
  std::vector<T> raw[kDirections], drive[kDirections];
  out.y = unwritten<T>(windows * shape.out_width());
  for (int64_t d = 0; d < shape.directions; ++d) {
    out.x[d] = unwritten<T>(windows * shape.layer.rows());
    raw[d] = unwritten<T>(rows * shape.layer.state);
    drive[d] = unwritten<T>(rows * shape.layer.rows());
  }
  WindowBlockOutputs<T> results = {pointer(out.y), {pointer(out.x[0]), pointer(out.x[1])}, {}, {}};
  kernels.window_block(sizes, in, results, pool);
  const std::vector<T> unsaved = out.y;
  for (int64_t d = 0; d < shape.directions; ++d) results.raw[d] = raw[d].data(), results.drive[d] = drive[d].data();
  kernels.window_block(sizes, in, results, pool);
  check(same_bits(unsaved, out.y), problem.name() + ": other numbers if nothing is saved");

  out.share = unwritten<T>(share.size());
  out.ends = unwritten<T>(ends.size());
  out.skip = unwritten<T>(skip.size());
  BlockArrays<T>& of = out.gradients;
  for (const auto& [name, array] : kDifferentiable<T>) {
    of.first.*array = unwritten<T>((first.*array).size());
    of.second.*array = unwritten<T>((second.*array).size());
  }
  kernels.window_block_gradient(sizes, in,
                                {pointer(y_gradient),
                                 {pointer(out.x[0]), pointer(out.x[1])},
                                 {pointer(raw[0]), pointer(raw[1])},
                                 {pointer(drive[0]), pointer(drive[1])},
                                 {pointer(finals[0]), pointer(finals[1])}},
                                {block_pointers(of), pointer(out.share), pointer(out.ends), pointer(out.skip)}, pool);
  return out;
}

// The numbers at the last event of each window, or with `back` the array of all events that has these and zeros.
template <class T>
std::vector<T> at_ends(const std::vector<T>& array, int64_t stride, int64_t width, bool back = false) {
  std::vector<T> found(back ? array.size() * stride : array.size() / stride);
  for (size_t n = 0; n < (back ? array : found).size(); ++n) {
    const size_t all = (n / width * stride + stride - 1) * width + n % width;
    back ? found[all] = array[n] : found[n] = array[all];
  }
  return found;
}

// With full windows whose last event the skip adds, the outputs are those of the block at the ends of windows, which
// `check_layer` compares with plain loops. With tokens, the gradient of the table is a sum over its events.
void check_window_block(const LayerProblem& block, int64_t stride, int64_t table) {
  const LayerShape& layer = block.shape.layer;
  LayerProblem whole = block;
  WindowBlockProblem problem = {block, stride, {}, {}, {}, {}, {}};
  if (table > 0) {
    problem.block.in.u = numbers(table * layer.width);
    for (int64_t k = 0; k < layer.events(); ++k) {
      problem.token.push_back(double(int64_t(generator() % uint32_t(table))));
      for (int64_t h = 0; h < layer.width; ++h)
        whole.in.u[k * layer.width + h] = problem.block.in.u[int64_t(problem.token[k]) * layer.width + h];
    }
  }
  const int64_t out = block.shape.out_width();
  problem.block.y_gradient = at_ends(block.y_gradient, stride, out);
  whole.y_gradient = at_ends(problem.block.y_gradient, stride, out, true);
  for (const InstructionSet& set : usable_sets()) {
    const std::string name = problem.name() + ", " + set.name;
    const auto wanted = run_layer(set.kernels<double>(), whole, true, kSerial);
    BlockArrays<double> slopes = run_layer_gradient(set.kernels<double>(), whole, wanted, kSerial);
    if (table > 0) {
      std::vector<double> sums(problem.block.in.u.size());
      for (size_t n = 0; n < slopes.first.u.size(); ++n)
        sums[int64_t(problem.token[n / layer.width]) * layer.width + n % layer.width] += slopes.first.u[n];
      slopes.first.u = sums;
    }
    const std::vector<double> y = at_ends(wanted.y, stride, out);
    const auto found = run_window_block(set.kernels<double>(), problem, kSerial);
    const auto single = run_window_block(set.kernels<float>(), problem, kSerial);
    check_close(found.y, y, 1e-13, name + " double: y");
    check_close(single.y, y, 5e-5, name + " float: y");
    for (size_t n = 0; n < 2 * std::size(kDifferentiable<double>); ++n) {
      check_close(array_of(found.gradients, n), array_of(slopes, n), 1e-11, name + " double" + name_of(n));
      check_close(array_of(single.gradients, n), array_of(slopes, n), 5e-4, name + " float" + name_of(n));
    }
  }
}

// Adds pooling to a problem: padding at the ends of windows and means of the others.
WindowBlockProblem pooled(const LayerProblem& block, int64_t stride, int64_t table) {
  const LayerShape& layer = block.shape.layer;
  WindowBlockProblem problem = {block, stride, {}, {}, {}, {}, {}};
  PoolShape shape = {layer.batch, layer.length / stride, stride, layer.width, table};
  PoolArrays<double> in = pool_problem(shape, true, true).in;
  problem.token = in.token, problem.share = in.share, problem.last = in.last;
  if (table > 0) problem.block.in.u = in.values;
  problem.block.y_gradient = at_ends(block.y_gradient, stride, block.shape.out_width());
  return problem;
}

// What is pooled inside of the call gives the numbers of what is pooled before it.
void check_pooling_inside(const WindowBlockProblem& inside) {
  const LayerShape& layer = inside.block.shape.layer;
  const int64_t table = inside.token.empty() ? 0 : int64_t(inside.block.in.u.size()) / layer.width;
  const PoolShape shape = {layer.batch, layer.length / inside.stride, inside.stride, layer.width, table};
  PoolProblem pooling = {shape, {inside.block.in.u, inside.token, inside.share, inside.last}, {}, {}};
  for (const InstructionSet& set : usable_sets()) {
    const auto& kernels = set.kernels<double>();
    pooling.mean_gradient = pooling.ends_gradient = numbers(inside.windows() * layer.width);  // not used
    WindowBlockProblem outside = inside;
    outside.ends = run_pool(kernels, pooling, kSerial).ends;
    outside.skip = run_pool(kernels, pooling, kSerial).mean;
    outside.share = outside.last = {};
    const auto found = run_window_block(kernels, inside, kSerial), given = run_window_block(kernels, outside, kSerial);
    pooling.mean_gradient = given.skip;
    pooling.ends_gradient = given.ends;
    const auto pooled = run_pool(kernels, pooling, kSerial);
    BlockArrays<double> wanted = given.gradients;
    add(pooled.values_gradient, wanted.first.u);
    const std::string name = inside.name() + ", " + set.name;
    check_close(found.y, given.y, 1e-14, name + ": y");
    check_close(found.share, pooled.share_gradient, 1e-12, name + ": dshare");
    for (size_t n = 0; n < 2 * std::size(kDifferentiable<double>); ++n)
      check_close(array_of(found.gradients, n), array_of(wanted, n), 1e-12, name + name_of(n));
  }
}

void test_window_blocks() {
  for (int n = 0; n < 150; ++n) {
    Options options = any_options();
    // Plain has no bound on the states, so that rounding grows with them.
    if (options.transition == Transition::kPlain) options.transition = Transition::kStable;
    const int64_t table = one_of({0, 1, 5, 200}), width = one_of({1, 2, 5, 8, 17}), state = one_of({1, 2, 3, 8, 17});
    int64_t stride = 1;
    // A layer that reads from the end is read at the first event of a window, and dropout counts the windows.
    if (options.block.directions == 1 && !options.reverse && options.block.threshold == 0) stride = one_of({1, 2, 5});
    check_window_block(layer_problem(options, one_of({1, 2, 3}), one_of({1, 2, 7, 31, 97}) * stride, width, state),
                       stride, table);
    options.block.skip = true;
    stride = one_of({1, 3, 8});
    check_pooling_inside(
        pooled(layer_problem(options, one_of({1, 3}), one_of({1, 7, 41}) * stride, width, state), stride, table));
  }
}

// The gate ------------------------------------------------------------------------------------------------------------

template <class T>
struct GateResults {
  std::vector<T> out, z_gradient, W_gradient, c_gradient;

  void check_against(const GateResults<Real>& wanted, double tolerance, const std::string& name) const {
    check_close(out, wanted.out, tolerance, name + ": out");
    check_close(z_gradient, wanted.z_gradient, tolerance, name + ": dz");
    check_close(W_gradient, wanted.W_gradient, tolerance, name + ": dW");
    check_close(c_gradient, wanted.c_gradient, tolerance, name + ": dc");
  }
};

struct GateProblem {
  GateShape shape;
  std::vector<double> z, u, W, c, keys, gradient;

  std::string name() const {
    return "gate " + std::to_string(shape.batch) + "x" + std::to_string(shape.length) + "x" +
           std::to_string(shape.width) + (u.empty() ? "" : " skip") + " dropout " + std::to_string(shape.threshold);
  }
};

GateProblem gate_problem(GateShape shape, bool skip) {
  const int64_t size = shape.events() * shape.width;
  std::vector<double> keys(shape.threshold > 0 ? 4 * shape.batch : 0);
  for (double& key : keys) key = double(generator() % 65536);
  return {shape, numbers(size, 4), numbers(skip ? size : 0), numbers(shape.width * shape.width), numbers(shape.width),
          keys,  numbers(size)};
}

GateResults<Real> plain_gate(const GateProblem& problem) {
  const auto [batch, length, width, threshold] = problem.shape;
  const int64_t size = batch * length * width;
  GateResults<Real> out = {std::vector<Real>(size), std::vector<Real>(size), std::vector<Real>(width * width),
                           std::vector<Real>(width)};
  std::vector<Real> gelu(width), slope(width);
  for (int64_t event = 0; event < batch * length; ++event) {
    const double *z = problem.z.data() + event * width, *g = problem.gradient.data() + event * width;
    for (int64_t h = 0; h < width; ++h) {
      const PlainGelu at(z[h]);
      gelu[h] = at.value;
      slope[h] = at.slope;
    }
    for (int64_t h = 0; h < width; ++h) {
      Real sum = problem.c[h];
      for (int64_t j = 0; j < width; ++j) sum += problem.W[h * width + j] * gelu[j];
      const double* key = problem.keys.empty() ? nullptr : &problem.keys[4 * (event / length)];
      const Real s = plain_sigmoid(sum), keep = plain_keep(key, threshold, event % length, h);
      out.out[event * width + h] = keep * z[h] * s + (problem.u.empty() ? 0 : problem.u[event * width + h]);
      out.z_gradient[event * width + h] += g[h] * keep * s;
      const Real back = g[h] * keep * z[h] * s * (1 - s);
      out.c_gradient[h] += back;
      for (int64_t j = 0; j < width; ++j) {
        out.W_gradient[h * width + j] += back * gelu[j];
        out.z_gradient[event * width + j] += back * problem.W[h * width + j] * slope[j];
      }
    }
  }
  return out;
}

template <class T>
GateResults<T> run_gate(const Kernels<T>& kernels, const GateProblem& problem, Pool pool) {
  const std::vector<T> z = as<T>(problem.z), u = as<T>(problem.u), W = as<T>(problem.W), c = as<T>(problem.c),
                       keys = as<T>(problem.keys), gradient = as<T>(problem.gradient);
  GateResults<T> out = {unwritten<T>(z.size()), unwritten<T>(z.size()), unwritten<T>(W.size()), unwritten<T>(c.size())};
  const GateInputs<T> in = {z.data(), pointer(u), W.data(), c.data(), pointer(keys)};
  kernels.gate(problem.shape, in, out.out.data(), pool);
  kernels.gate_gradient(problem.shape, in, gradient.data(),
                        {out.z_gradient.data(), out.W_gradient.data(), out.c_gradient.data()}, pool);
  return out;
}

void check_gate(const GateProblem& problem) {
  const GateResults<Real> plain = plain_gate(problem);
  for (const InstructionSet& set : usable_sets()) {
    const std::string name = problem.name() + ", " + set.name;
    run_gate(set.kernels<double>(), problem, kSerial).check_against(plain, 1e-13, name + " double");
    run_gate(set.kernels<float>(), problem, kSerial).check_against(plain, 1e-5, name + " float");
  }
}

void test_gate() {
  for (int64_t width = 1; width <= 70; ++width) {
    const bool skip = width % 3 != 0;
    check_gate(gate_problem({one_of({1, 2, 3}), one_of({1, 5, 97}), width, uint32_t(width % 2 == 0 ? 6554 : 0)}, skip));
  }
  for (int64_t length = 1; length <= 200; length += 3)
    check_gate(gate_problem({one_of({1, 3, 5}), length, one_of({1, 2, 3, 5}), 32768}, true));
}

// The statistics of sequences -----------------------------------------------------------------------------------------

struct MomentsProblem {
  int64_t batch, length, width;
  std::vector<double> u, weights;  // no weights: 1 each
};

MomentsProblem moments_problem(int64_t batch, int64_t length, int64_t width, bool weighted) {
  MomentsProblem problem = {batch, length, width, numbers(batch * length * width), {}};
  for (int64_t k = 0; weighted && k < batch * length; ++k) problem.weights.push_back(double(one_of({0, 1, 1})));
  return problem;
}

// The count, the mean and the sum of squared deviations of each sequence, concatenated.
template <class T>
std::vector<T> run_moments(const Kernels<T>& kernels, const MomentsProblem& problem, Pool pool) {
  const std::vector<T> u = as<T>(problem.u), weights = as<T>(problem.weights);
  std::vector<T> count = unwritten<T>(problem.batch), mean = unwritten<T>(problem.batch * problem.width), square = mean;
  kernels.moments(problem.batch, problem.length, problem.width, u.data(), pointer(weights), count.data(), mean.data(),
                  square.data(), pool);
  count.insert(count.end(), mean.begin(), mean.end());
  count.insert(count.end(), square.begin(), square.end());
  return count;
}

std::vector<Real> plain_moments(const MomentsProblem& problem) {
  const auto& [batch, length, width, u, weights] = problem;
  std::vector<Real> count(batch), mean(batch * width), square(batch * width);
  const auto weight = [&](int64_t event) { return problem.weights.empty() ? Real(1) : Real(problem.weights[event]); };
  for (int64_t k = 0; k < batch * length; ++k) count[k / length] += weight(k);
  for (int64_t n = 0; n < batch; ++n)
    for (int64_t h = 0; h < width; ++h) {
      const auto at = [&](int64_t k) { return Real(problem.u[(n * problem.length + k) * problem.width + h]); };
      Real &m = mean[n * width + h], &s = square[n * width + h];
      for (int64_t k = 0; k < length; ++k) m += weight(n * problem.length + k) * at(k);
      m /= std::max(count[n], Real(1));
      for (int64_t k = 0; k < length; ++k) s += weight(n * problem.length + k) * (at(k) - m) * (at(k) - m);
    }
  count.insert(count.end(), mean.begin(), mean.end());
  count.insert(count.end(), square.begin(), square.end());
  return count;
}

void test_moments() {
  for (int64_t width = 1; width <= 70; ++width) {
    const MomentsProblem problem =
        moments_problem(one_of({1, 2, 3}), one_of({1, 2, 7, 128, 129, 300}), width, width % 2 == 0);
    const std::vector<Real> plain = plain_moments(problem);
    for (const InstructionSet& set : usable_sets()) {
      const std::string name = "moments of width " + std::to_string(width) + ", " + set.name;
      check_close(run_moments(set.kernels<double>(), problem, kSerial), plain, 1e-14, name + " double");
      check_close(run_moments(set.kernels<float>(), problem, kSerial), plain, 1e-5, name + " float");
    }
  }
}

// Threads -------------------------------------------------------------------------------------------------------------

template <class T>
void append(std::vector<T>& all, std::initializer_list<std::vector<T>> arrays) {
  for (const std::vector<T>& array : arrays) all.insert(all.end(), array.begin(), array.end());
}

struct Problems {
  LayerProblem full = layer_problem({true, false, true, true, Gain::kVariance, Direct::kFull}, 3, 523, 5, 9);
  LayerProblem factored = layer_problem({false, true, true, false, Gain::kRate, Direct::kDiagonal, 7}, 3, 523, 5, 9);
  LayerProblem block = block_of(3, 523, 9);
  LayerProblem sequences = layer_problem(
      {true, false, true, true, Gain::kRate, Direct::kDiagonal, 3, {NormKind::kLayer, true, true, 6554, 2}}, 11, 301, 5,
      3);
  ScanProblem real = scan_problem({5, 31, 37, false, false}), complex_numbers = scan_problem({5, 31, 7, true, true});
  FormProblem bilinear = form_problem({1451, 3, 5, 7}), quadratic = form_problem({1451, 5, 5, 7});
  GateProblem gate = gate_problem({3, 523, 9, 6554}, true);
  MomentsProblem moments = moments_problem(5, 131, 19, true);
  WindowProblem tokens = window_problem({true, false, true, true, Gain::kRate, Direct::kStatic}, 5, 31, 8, 9, 7);
  WindowProblem events = window_problem({false, true, true, false, Gain::kNone, Direct::kStatic}, 5, 31, 8, 9, 0);
  PoolProblem pooled_tokens = pool_problem({5, 31, 8, 9, 7}, true, true);
  PoolProblem pooled_events = pool_problem({5, 31, 8, 70, 0}, true, false);
  WindowBlockProblem window_block = pooled(block_of(3, 523 * 4, 9), 4, 0);
  WindowBlockProblem token_block = pooled(block_of(5, 211 * 2, 3), 2, 300);

  static LayerProblem block_of(int64_t batch, int64_t length, int64_t state) {
    const BlockOptions around = {NormKind::kLayer, true, true, 6554, 2, NormKind::kRms, 3};
    return layer_problem({true, false, true, true, Gain::kRate, Direct::kDiagonal, 7, around}, batch, length, 5, state);
  }
};

// Returns the results of all kernels, concatenated.
template <class T>
std::vector<T> run_everything(const Kernels<T>& kernels, const Problems& problems, Pool pool) {
  std::vector<T> all;
  for (const LayerProblem* problem : {&problems.full, &problems.factored, &problems.block, &problems.sequences}) {
    const auto results = run_layer(kernels, *problem, true, pool);
    append(all, {results.y, results.x, results.raw, results.input, results.second_x});
    const auto gradients = run_layer_gradient(kernels, *problem, results, pool);
    for (size_t n = 0; n < 2 * std::size(kDifferentiable<T>); ++n) append(all, {array_of(gradients, n)});
  }
  for (const ScanProblem* problem : {&problems.real, &problems.complex_numbers}) {
    const auto x = run_scan(kernels, *problem, pool);
    const auto of = run_scan_gradient(kernels, *problem, x, pool);
    append(all, {x, of.a, of.v, of.initial});
  }
  const auto b = run_bilinear(kernels, problems.bilinear, pool), q = run_quadratic(kernels, problems.quadratic, pool);
  append(all, {b.y, b.W_gradient, b.x_gradient, b.u_gradient, q.y, q.W_gradient, q.u_gradient});
  const auto gate = run_gate(kernels, problems.gate, pool);
  append(all, {gate.out, gate.z_gradient, gate.W_gradient, gate.c_gradient});
  append(all, {run_moments(kernels, problems.moments, pool)});
  for (const WindowProblem* problem : {&problems.tokens, &problems.events}) {
    const auto found = run_windows(kernels, *problem, pool);
    const WindowArrays<T>& of = found.gradients;
    append(all, {found.x, of.dt, of.initial, of.raw, of.drive, of.omega, of.decay});
  }
  for (const PoolProblem* problem : {&problems.pooled_tokens, &problems.pooled_events}) {
    const auto found = run_pool(kernels, *problem, pool);
    append(all, {found.mean, found.ends, found.values_gradient, found.share_gradient});
  }
  for (const WindowBlockProblem* problem : {&problems.window_block, &problems.token_block}) {
    const auto found = run_window_block(kernels, *problem, pool);
    append(all, {found.y, found.x[0], found.x[1], found.share});
    for (size_t n = 0; n < 2 * std::size(kDifferentiable<T>); ++n) append(all, {array_of(found.gradients, n)});
  }
  return all;
}

template <class T>
void check_pools(const Kernels<T>& kernels, const Problems& problems, const std::string& name) {
  const std::vector<T> serial = run_everything(kernels, problems, kSerial);
  Alone alone;
  check(same_bits(run_everything(kernels, problems, pool_of(alone)), serial), name + ": other bits without threads");
  for (const int64_t count : {2, 3, 8}) {
    Threads threads(count);
    check(same_bits(run_everything(kernels, problems, pool_of(threads)), serial),
          name + ": other bits with " + std::to_string(count) + " threads");
  }
  Saturated saturated;
  check(same_bits(run_everything(kernels, problems, pool_of(saturated)), serial),
        name + ": other bits with a saturated pool");
  check(!saturated.waiting.empty(), name + ": a pool of four threads was not asked for help");
  // Late helpers run after all arrays and tasks of the calls have been destroyed.
  for (const auto& helper : saturated.waiting) helper();
}

void test_kernels_on_threads() {
  const Problems problems;
  for (const InstructionSet& set : usable_sets()) {
    check_pools(set.kernels<float>(), problems, std::string(set.name) + " float");
    check_pools(set.kernels<double>(), problems, std::string(set.name) + " double");
  }
}

void test_every_task_once() {
  for (const int64_t count : {0, 1, 2, 7, 1000}) {
    Alone alone;
    Threads threads(3);
    Saturated saturated;
    Exhausted exhausted;
    for (const Pool pool : {pool_of(alone), pool_of(threads), pool_of(saturated), pool_of(exhausted)}) {
      auto done = std::make_unique<std::vector<int>>(count);
      pool.for_each(
          pool.handle, count, [](void* context, int64_t n) { ++(*static_cast<std::vector<int>*>(context))[n]; },
          done.get());
      check(*done == std::vector<int>(count, 1), "a task did not run exactly once");
    }
    check(int64_t(saturated.waiting.size()) == std::max<int64_t>(0, std::min<int64_t>(4, count) - 1),
          "too many helpers");
    for (const auto& helper : saturated.waiting) helper();
    for (const auto& helper : exhausted.waiting) helper();
  }
}

void test_a_task_that_fails() {
  Alone alone;
  Threads threads(3);
  Saturated saturated;
  for (const Pool pool : {kSerial, pool_of(alone), pool_of(threads), pool_of(saturated)}) {
    std::vector<int> done(50);
    std::string said;
    try {
      pool.for_each(
          pool.handle, 50,
          [](void* context, int64_t n) {
            if (n == 49) throw std::runtime_error("no memory");
            ++(*static_cast<std::vector<int>*>(context))[n];
          },
          &done);
    } catch (const std::runtime_error& error) {
      said = error.what();
    }
    done.back() += 1;
    check(said == "no memory" && done == std::vector<int>(50, 1), "a failure was lost, or other tasks with it");
  }
  for (const auto& helper : saturated.waiting) helper();
}

// A helper may move to another CPU, but its affinity must not change.
void test_leaving_a_processor() {
#if defined(__linux__)
  std::thread([] {
    cpu_set_t allowed, after, one;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    leave(processor());
    check(sched_getaffinity(0, sizeof after, &after) == 0 && CPU_EQUAL(&allowed, &after), "other processors allowed");
    CPU_ZERO(&one);
    CPU_SET(processor(), &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0) return;
    leave(processor());
    check(sched_getaffinity(0, sizeof after, &after) == 0 && CPU_EQUAL(&one, &after), "nowhere to go, and yet it went");
  }).join();
#endif
}

void test_thread_limit() {
  const std::pair<const char*, int64_t> limits[] = {{"1", 1},  {"3", 3}, {"64", 64}, {"0", 8},
                                                    {"-2", 8}, {"", 8},  {"many", 8}};
  for (const auto& [asked, wanted] : limits) {
    setenv("S7_THREADS", asked, 1);
    check(thread_limit(8) == wanted, std::string("S7_THREADS=") + asked);
  }
  unsetenv("S7_THREADS");
  check(thread_limit(8) == 8, "no S7_THREADS");
}

void test_choice() {
  check(std::string(instruction_set()) == usable_sets().front().name, "not the best instruction set was chosen");
  check(&kernels<float>() == &usable_sets().front().kernels<float>(), "another table than the one that is named");
  check(&kernels<double>() == &usable_sets().front().kernels<double>(), "another table than the one that is named");
}

void test_threads() {
  test_every_task_once();
  test_a_task_that_fails();
  test_leaving_a_processor();
  test_thread_limit();
  test_kernels_on_threads();
}

void test_all() {
  test_choice();
  test_layer();
  test_large_layers();
  test_large_batches();
  test_large_angles();
  test_unstable_rates();
  test_nan();
  test_scan();
  test_forms();
  test_windows();
  test_pooling();
  test_window_blocks();
  test_gate();
  test_moments();
  test_threads();
}

}  // namespace
}  // namespace s7

// With the argument `threads`, only the tests that use several threads run.
int main(int count, char** arguments) {
  unsetenv("S7_ISA");
  unsetenv("S7_THREADS");
  for (const s7::InstructionSet& set : s7::all_sets())
    std::printf("%s: %s\n", set.name, set.supported ? "tested" : "skipped, this processor does not have it");
  if (count > 1 && std::strcmp(arguments[1], "threads") == 0) {
    s7::test_threads();
  } else {
    s7::test_all();
  }
  std::printf("%d passed, %d failed\n", s7::passed, s7::failed);
  return s7::failed == 0 ? 0 : 1;
}
