// Tests the streaming engine against plain loops, for every instruction set that this processor supports. Run with
// `make sanitize`.
//
// The plain version runs over the whole sequence in double precision, block after block and window after window. Every
// array is an allocation of exactly its size, so AddressSanitizer detects accesses out of bounds. The description of a
// model is freed as soon as the model is packed, and pushing events must not allocate memory.
#include "stream.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <complex>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "stream_program.h"

namespace {

std::atomic<long> allocations{0};

}  // namespace

#if defined(__SANITIZE_ADDRESS__)
extern "C" {
const char* __asan_default_options() { return "malloc_fill_byte=255:max_malloc_fill_size=1073741824"; }
int __sanitizer_install_malloc_and_free_hooks(void (*)(const volatile void*, size_t), void (*)(const volatile void*));
}
#endif

namespace s7 {

#define S7_DECLARE(isa)                       \
  namespace isa {                             \
  extern const stream::Engine* const kStream; \
  }
S7_DECLARE(baseline)
S7_DECLARE(wide)  // vectors as wide as AVX-512 without its instructions
S7_DECLARE(avx2)
S7_DECLARE(avx512)
#undef S7_DECLARE

namespace {

using namespace stream;
using stream::Transition;  // the kernels have another one

int passed = 0, failed = 0;

void check(bool holds, const std::string& what) {
  ++(holds ? passed : failed);
  if (!holds && failed <= 20) std::printf("FAILED: %s\n", what.c_str());
}

std::mt19937 generator(1);

int64_t pick(int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(generator); }
bool coin() { return pick(0, 1) == 1; }
float normal(float scale) { return std::normal_distribution<float>(0, scale)(generator); }

// A random model ------------------------------------------------------------------------------------------------------

struct Description {
  std::vector<int64_t> settings;
  std::vector<float> weights;

  void say(std::initializer_list<int64_t> more) { settings.insert(settings.end(), more); }
  void put(int64_t count, float scale, float around = 0) {
    for (int64_t n = 0; n < count; ++n) weights.push_back(around + normal(scale));
  }
  void put_positive(int64_t count) {
    for (int64_t n = 0; n < count; ++n) weights.push_back(std::uniform_real_distribution<float>(0.5f, 2)(generator));
  }
};

void add_encoder(Description& out, Encoding kind, int64_t H) {
  out.say({int64_t(kind)});
  const float natural = 0.5f;
  switch (kind) {
    case Encoding::kToken: {
      const int64_t tokens = pick(1, 9);
      out.say({tokens});
      return out.put(tokens * H, 1);
    }
    case Encoding::kEvent: {
      const int64_t columns = pick(1, 5), rows = pick(1, 5);
      const bool token = coin(), x = coin(), y = coin();
      out.say({columns, rows, token, x, y, 1});
      return out.put(((token ? 2 * columns * rows : 0) + (x ? columns : 0) + (y ? rows : 0) + 2) * H, 1);
    }
    case Encoding::kLinear: {
      const int64_t inputs = pick(1, 20);
      out.say({inputs});
      out.put(inputs, 1);
      out.put_positive(inputs);
      out.put(H * inputs, natural);
      return out.put(H, 1);
    }
    case Encoding::kDense: {
      const int64_t inputs = pick(1, 20), hidden = pick(1, 20);
      out.say({inputs, hidden});
      out.put_positive(1);
      out.put(hidden * inputs + hidden + H * hidden, natural);
      return out.put(H, 1);
    }
    case Encoding::kImage: {
      const int64_t height = pick(8, 13), breadth = pick(8, 13), colours = pick(1, 3), channels = pick(1, 18);
      out.say({height, breadth, colours, channels});
      out.put_positive(1);
      out.put(25 * colours * channels + channels + 9 * channels * channels + channels, 0.2f);
      const auto eighth = [](int64_t size) { return (size + 7) / 8; };
      out.put(H * eighth(height) * eighth(breadth) * channels, natural);
      return out.put(H, 1);
    }
  }
}

int64_t add_block(Description& out, int64_t H, Transition transition, Form form) {
  const int64_t width = coin() ? H : pick(1, 20), P = pick(1, 19);
  const Normalization norm = Normalization(pick(0, 3));
  const bool gate = coin(), selective = coin();
  const bool oscillating = transition == Transition::kStep || transition == Transition::kRing ||
                           (transition == Transition::kStable && coin());
  const Gain gain = transition == Transition::kRing ? Gain::kVariance : Gain(pick(0, 2));
  out.say({width, P, coin() ? 1 : pick(2, 5), pick(0, 2), int64_t(norm), coin(), gate, coin(), int64_t(transition)});
  out.say({selective, oscillating, pick(0, 3), int64_t(gain)});
  if (norm != Normalization::kNone) out.put(H, 0.2f, 1);
  if (norm == Normalization::kLayer || norm == Normalization::kBatch) out.put(H, 0.2f);
  if (norm == Normalization::kBatch) out.put(H, 0.2f);
  if (norm == Normalization::kBatch) out.put_positive(H);
  out.put_positive(1);
  out.weights.push_back(0.5f + std::fabs(normal(0.2f)));
  const bool plain = transition == Transition::kPlain;
  out.put(P, plain ? 0.1f : 0.7f, plain ? 0.5f : 0);
  if (selective) out.put(P * H, plain ? 0.02f : 0.2f);
  if (oscillating) out.put(P, 2);
  if (transition == Transition::kStep) out.put(P, 0.5f);

  const int64_t S = oscillating ? 2 * P : P, R = form == Form::kFactored ? pick(1, 18) : 0;
  const bool B = form != Form::kStatic && coin(), C = form != Form::kStatic && (coin() || !B), bias = coin();
  const Direct direct = Direct(pick(0, 2));
  out.say({int64_t(form), R, B, C, bias, int64_t(direct)});
  const bool full = form == Form::kFull;
  const float small = 0.3f / std::sqrt(float(H));
  out.put(S * H, small);
  if (bias) out.put(S, 0.3f);
  if (B) out.put(full ? S * H * H : 2 * R * H + S * R, full ? small * small : small);
  out.put(H * S, small);
  if (C) out.put(full ? H * S * H : R * S + R * H + H * R, full ? small * small : small);
  out.put(direct == Direct::kFull ? H * H : H, small);
  if (direct != Direct::kStatic) out.put(direct == Direct::kFull ? H * H * H : H * H, small * small);
  if (gate) out.put(H * H + H, small);
  if (width != H) out.put(width * H + width, small);
  return width;
}

Description random_model(int number) {
  Description out;
  int64_t H = pick(1, 20);
  out.say({1, H, number % 7 == 3, number % 5 == 2});
  out.put_positive(2);
  add_encoder(out, Encoding(number % 5), H);
  const int64_t depth = pick(1, 3);
  out.say({depth});
  for (int64_t b = 0; b < depth; ++b) H = add_block(out, H, Transition((number + b) % 4), Form((number / 4 + b) % 3));
  const int64_t outputs = pick(1, 20);
  out.say({number % 3, outputs});
  out.put(outputs * H + outputs, 0.5f);
  out.put_positive(outputs);
  out.put(outputs, 1);
  return out;
}

// The plain version ---------------------------------------------------------------------------------------------------

using Vec = std::vector<double>;
using Complex = std::complex<double>;

Vec matmul(const float* W, int64_t rows, const Vec& u, const float* c = nullptr) {
  Vec y(static_cast<size_t>(rows));
  for (int64_t n = 0; n < rows; ++n) {
    double sum = c == nullptr ? 0 : c[n];
    for (size_t m = 0; m < u.size(); ++m) sum += double(W[size_t(n) * u.size() + m]) * u[m];
    y[size_t(n)] = sum;
  }
  return y;
}

Vec plus(Vec a, const Vec& b) {
  for (size_t n = 0; n < a.size(); ++n) a[n] += b[n];
  return a;
}

Vec times(Vec a, const Vec& b) {
  for (size_t n = 0; n < a.size(); ++n) a[n] *= b[n];
  return a;
}

// W[u, x] with W (rows, |x|, |u|).
Vec bilinear(const float* W, int64_t rows, const Vec& x, const Vec& u) {
  Vec products;
  for (double left : x)
    for (double right : u) products.push_back(left * right);
  return matmul(W, rows, products);
}

Vec convolve(const float* kernel, const float* bias, int64_t side, int64_t stride, const Vec& picture, int64_t& height,
             int64_t& breadth, int64_t inputs, int64_t outputs) {
  const int64_t high = (height + stride - 1) / stride, wide = (breadth + stride - 1) / stride;
  const int64_t above = std::max<int64_t>((high - 1) * stride + side - height, 0) / 2;
  const int64_t left = std::max<int64_t>((wide - 1) * stride + side - breadth, 0) / 2;
  const int64_t rows = (high + 1) / 2, columns = (wide + 1) / 2;
  Vec result(size_t(rows * columns * outputs), -INFINITY);
  for (int64_t i = 0; i < high; ++i)
    for (int64_t j = 0; j < wide; ++j)
      for (int64_t o = 0; o < outputs; ++o) {
        double sum = 0;
        for (int64_t a = 0; a < side; ++a)
          for (int64_t b = 0; b < side; ++b) {
            const int64_t y = i * stride + a - above, x = j * stride + b - left;
            if (y < 0 || y >= height || x < 0 || x >= breadth) continue;
            for (int64_t c = 0; c < inputs; ++c)
              sum += double(kernel[((a * side + b) * inputs + c) * outputs + o]) *
                     picture[size_t((y * breadth + x) * inputs + c)];
          }
        double& largest = result[size_t(((i / 2) * columns + j / 2) * outputs + o)];
        largest = std::max(largest, sum);
      }
  for (size_t n = 0; n < result.size(); ++n) result[n] = std::max(result[n] + bias[n % size_t(outputs)], 0.0);
  height = rows;
  breadth = columns;
  return result;
}

Vec encode(const EncoderPlan& plan, int64_t H, int64_t token, const float* input) {
  if (plan.kind == Encoding::kToken || plan.kind == Encoding::kEvent) {
    Vec u(static_cast<size_t>(H));
    const int64_t pixel = token / 2, rows = std::max<int64_t>(plan.rows, 1);
    const std::pair<const float*, int64_t> parts[] = {
        {plan.token, token}, {plan.x, pixel / rows}, {plan.y, pixel % rows}, {plan.polarity, token % 2}};
    for (const auto& [table, row] : parts)
      for (int64_t n = 0; n < H && table != nullptr; ++n) u[size_t(n)] += table[row * H + n];
    return u;
  }
  Vec u(input, input + plan.inputs);
  for (size_t n = 0; n < u.size(); ++n)
    u[n] = plan.kind == Encoding::kLinear ? (u[n] - plan.mean[n]) / plan.scale[n] : u[n] / plan.scale[0];
  if (plan.kind == Encoding::kDense) {
    u = matmul(plan.W1, plan.hidden, u, plan.c1);
    for (double& q : u) q = std::max(q, 0.0);
  }
  if (plan.kind == Encoding::kImage) {
    int64_t height = plan.height, breadth = plan.breadth;
    u = convolve(plan.W1, plan.c1, 5, 1, u, height, breadth, plan.colours, plan.channels);
    u = convolve(plan.W2, plan.c2, 3, 2, u, height, breadth, plan.channels, plan.channels);
  }
  return matmul(plan.W, H, u, plan.c);
}

Vec normalise(const BlockPlan& plan, Vec u) {
  double mean = 0, square = 0;
  if (plan.norm == Normalization::kNone) return u;
  for (double q : u) mean += plan.norm == Normalization::kLayer ? q / double(u.size()) : 0;
  for (double q : u) square += (q - mean) * (q - mean) / double(u.size());
  for (size_t n = 0; n < u.size(); ++n) {
    const bool batch = plan.norm == Normalization::kBatch;
    const double centre = batch ? plan.mean[n] : mean, variance = batch ? plan.variance[n] : square;
    u[n] = (u[n] - centre) / std::sqrt(variance + 1e-5) * plan.scale[n] + (plan.shift == nullptr ? 0 : plan.shift[n]);
  }
  return u;
}

struct Factor {
  Complex a, gain;
};

Factor discretize(const BlockPlan& plan, double w, int64_t p, bool timed, double gap) {
  const bool counts = plan.counting && p % 2 == 1;
  const double t = timed && !counts ? gap : 1, omega = plan.omega == nullptr ? 0 : plan.omega[p];
  double rate = 0;
  Complex a, unit;
  switch (plan.transition) {
    case Transition::kStable:
      rate = 1 / (double(plan.a) * w * w + double(plan.b_rate));
      a = timed || plan.complex_state ? std::exp(Complex(-rate, omega) * t) : 1 - rate;
      unit = timed || plan.complex_state ? std::exp(-rate) : 1 - rate;
      break;
    case Transition::kPlain:
      rate = 1 - w;
      a = timed ? std::exp(-rate * t) : w;
      unit = timed ? std::exp(-rate) : w;
      break;
    case Transition::kRing:
      rate = std::exp(w);
      a = std::exp(Complex(-rate, omega) * t);
      unit = std::exp(-rate);
      break;
    case Transition::kStep: {
      const Complex eigenvalue(-std::max(std::exp(double(plan.decay[p])), 1e-4), omega);
      const double size = std::log1p(std::exp(w));
      a = std::exp(eigenvalue * size * t);
      return {a, ((plan.held ? a : std::exp(eigenvalue * size)) - 1.0) / eigenvalue};
    }
  }
  if (plan.gain == Gain::kNone) return {a, 1};
  if (plan.gain == Gain::kRate) return {a, rate};
  return {a, std::sqrt(std::max(1 - std::norm(unit), 0.0))};
}

struct Step {
  Vec u;
  double gap;
};

// One block over the whole sequence.
std::vector<Step> run_block(const BlockPlan& plan, const std::vector<Step>& sequence, bool timed) {
  const int64_t H = plan.width, P = plan.state, S = plan.rows();
  std::vector<Complex> x(static_cast<size_t>(P));
  std::vector<Step> above;
  for (size_t first = 0; first < sequence.size(); first += size_t(plan.stride)) {
    const size_t end = std::min(sequence.size(), first + size_t(plan.stride));
    Vec weighted(static_cast<size_t>(H)), simple(static_cast<size_t>(H)), read;
    double weight = 0, gap = 0;
    for (size_t k = first; k < end; ++k) {
      const Step& event = sequence[k];
      read = plan.norm_after ? event.u : normalise(plan, event.u);
      Vec w(plan.w, plan.w + P);
      if (plan.W_w != nullptr) w = plus(w, matmul(plan.W_w, P, read));
      Vec drive = matmul(plan.B, S, read, plan.b);
      if (plan.W_B != nullptr) drive = plus(drive, bilinear(plan.W_B, S, read, read));
      if (plan.V1 != nullptr)
        drive =
            plus(drive, matmul(plan.V3, S, times(matmul(plan.V1, plan.rank, read), matmul(plan.V2, plan.rank, read))));
      for (int64_t p = 0; p < P; ++p) {
        const Factor factor = discretize(plan, w[size_t(p)], p, timed, event.gap);
        const Complex input(drive[size_t(p)], plan.complex_state ? drive[size_t(P + p)] : 0);
        x[size_t(p)] = factor.a * x[size_t(p)] + factor.gain * input;
      }
      const double share = plan.pooling == Pooling::kTime ? event.gap : 1;
      for (size_t n = 0; n < size_t(H); ++n) {
        weighted[n] += share * event.u[n];
        simple[n] += event.u[n];
      }
      weight += share;
      gap += event.gap;
    }
    Vec rows;
    for (const Complex& q : x) rows.push_back(q.real());
    for (int64_t p = 0; p < P && plan.complex_state; ++p) rows.push_back(x[size_t(p)].imag());
    Vec y = matmul(plan.C, H, rows);
    if (plan.W_C != nullptr) y = plus(y, bilinear(plan.W_C, H, rows, read));
    if (plan.U1 != nullptr)
      y = plus(y, matmul(plan.U3, H, times(matmul(plan.U1, plan.rank, rows), matmul(plan.U2, plan.rank, read))));
    if (plan.direct == Direct::kFull) {
      y = plus(plus(y, matmul(plan.D, H, read)), bilinear(plan.W_D, H, read, read));
    } else {
      Vec D(plan.D, plan.D + H);
      if (plan.direct == Direct::kDiagonal) D = plus(D, matmul(plan.W_D, H, read));
      y = plus(y, times(D, read));
    }
    if (plan.gate_W != nullptr) {
      Vec bent = y;
      for (double& q : bent) q = q / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (q + 0.044715 * q * q * q)));
      bent = matmul(plan.gate_W, H, bent, plan.gate_c);
      for (size_t n = 0; n < y.size(); ++n) y[n] /= 1 + std::exp(-bent[n]);
    }
    if (plan.skip) {
      const bool last = plan.stride == 1 || plan.pooling == Pooling::kLast;
      for (size_t n = 0; n < y.size(); ++n)
        y[n] += last ? sequence[end - 1].u[n] : weight > 0 ? weighted[n] / weight : simple[n] / double(end - first);
    }
    if (plan.norm_after) y = normalise(plan, y);
    if (plan.project_W != nullptr) y = matmul(plan.project_W, plan.out, y, plan.project_c);
    above.push_back({y, gap});
  }
  return above;
}

// Runs the model on tokens or inputs, with gaps in the model's unit of time. Empty gaps mean regular time.
Vec plain_answer(const ModelPlan& plan, const std::vector<int32_t>& tokens, const std::vector<float>& inputs,
                 const std::vector<double>& gaps, int64_t count) {
  std::vector<Step> sequence;
  for (int64_t k = 0; k < count; ++k)
    sequence.push_back({encode(plan.encoder, plan.blocks[0].width, tokens.empty() ? 0 : tokens[size_t(k)],
                               inputs.empty() ? nullptr : inputs.data() + k * plan.encoder.inputs),
                        gaps.empty() ? 1 : gaps[size_t(k)]});
  for (int64_t b = 0; b < plan.depth; ++b) {
    sequence = run_block(plan.blocks[b], sequence, !gaps.empty());
    if (gaps.empty())
      for (Step& step : sequence) step.gap = 1;
  }
  Vec weighted(size_t(plan.head.width)), simple(size_t(plan.head.width));
  double weight = 0;
  for (const Step& step : sequence)
    for (size_t n = 0; n < weighted.size(); ++n) {
      weighted[n] += step.gap * step.u[n];
      simple[n] += step.u[n] / double(sequence.size());
      weight += n == 0 ? step.gap : 0;
    }
  Vec feature = simple;
  if (plan.head.kind == Reading::kLast) feature = sequence.back().u;
  if (plan.head.kind == Reading::kTimeMean && weight > 0)
    for (size_t n = 0; n < feature.size(); ++n) feature[n] = weighted[n] / weight;
  Vec answer = matmul(plan.head.W, plan.head.outputs, feature, plan.head.c);
  for (size_t n = 0; n < answer.size(); ++n) answer[n] = answer[n] * plan.head.scale[n] + plan.head.mean[n];
  return answer;
}

// Tests ---------------------------------------------------------------------------------------------------------------

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<char, Free>;

Memory aligned(size_t size) { return Memory(static_cast<char*>(std::aligned_alloc(64, size))); }

struct Events {
  std::vector<int32_t> tokens;
  std::vector<float> inputs, gaps;

  Events(const EncoderPlan& plan, int64_t count, bool timed) {
    for (int64_t k = 0; k < count; ++k) {
      if (plan.tokens > 0) tokens.push_back(int32_t(pick(0, plan.tokens - 1)));
      for (int64_t n = 0; n < plan.inputs; ++n) inputs.push_back(normal(1));
      if (timed) gaps.push_back(coin() ? std::fabs(normal(1)) : 0);
    }
  }
};

void compare(const std::vector<float>& got, const Vec& wanted, const std::string& what) {
  double largest = 1e-3, difference = 0;
  for (size_t n = 0; n < wanted.size(); ++n) {
    const double off = std::fabs(double(got[n]) - wanted[n]);
    if (std::isnan(off) || off > difference) difference = off;  // a NaN stays
    largest = std::max(largest, std::fabs(wanted[n]));
  }
  // Some random models amplify the rounding errors of single precision.
  check(difference <= 3e-4 * largest, what + " is off by " + std::to_string(difference / largest));
}

constexpr int64_t kEvents = 23;

// Tests one engine without the C interface.
void test_engine(const Engine& engine, const std::string& name) {
  for (int number = 0; number < 240; ++number) {
    const bool timed = coin();
    Description description = random_model(number);
    const Description kept = description;
    Program program;
    const bool read = read_program(description.settings.data(), int64_t(description.settings.size()),
                                   description.weights.data(), int64_t(description.weights.size()), program);
    check(read, name + ": program " + std::to_string(number) + " is read");
    if (!read) continue;
    void* model = engine.open(program.model);
    const Events events(program.model.encoder, kEvents, timed);
    description = Description();
    Program again;
    read_program(kept.settings.data(), int64_t(kept.settings.size()), kept.weights.data(), int64_t(kept.weights.size()),
                 again);
    Memory stream = aligned(engine.size(model));
    engine.start(model, stream.get());
    std::vector<float> answer(size_t(again.model.head.outputs));
    const auto push = [&](Memory& to, int64_t first, int64_t count) {
      const float* gaps = timed ? events.gaps.data() + first : nullptr;
      if (again.model.encoder.tokens > 0)
        engine.push_tokens(model, to.get(), events.tokens.data() + first, gaps, count);
      else
        engine.push_vectors(model, to.get(), events.inputs.data() + first * again.model.encoder.inputs, gaps, count);
    };
    std::vector<double> state(size_t(engine.state_size(model)));
    for (int64_t done : {1, 2, 9, 20}) {
      const int64_t before = done == 1 ? 0 : done == 2 ? 1 : done == 9 ? 2 : 9;
      const long allocated = allocations;
      push(stream, before, done - before);
      engine.read(model, stream.get(), timed, answer.data());
      const bool none = allocations == allocated;
      check(none, name + ": pushing and reading allocate nothing");
      const std::vector<double> gaps(events.gaps.begin(), events.gaps.end());
      compare(answer, plain_answer(again.model, events.tokens, events.inputs, gaps, done),
              name + ": model " + std::to_string(number) + " after " + std::to_string(done) + " events");
    }
    // A restored stream gives bitwise identical results.
    engine.save(model, stream.get(), state.data());
    Memory restored = aligned(engine.size(model));
    engine.start(model, restored.get());
    check(engine.restore(model, restored.get(), state.data()), name + ": a saved state is restored");
    std::vector<float> other(answer.size());
    for (Memory* one : {&stream, &restored}) push(*one, 20, kEvents - 20);
    engine.read(model, stream.get(), timed, answer.data());
    engine.read(model, restored.get(), timed, other.data());
    check(std::memcmp(answer.data(), other.data(), answer.size() * sizeof(float)) == 0,
          name + ": a restored stream has the same bits");
    for (double& q : state) q = std::numeric_limits<double>::quiet_NaN();
    check(!engine.restore(model, restored.get(), state.data()), name + ": NaN is no state");
    engine.read(model, restored.get(), timed, other.data());
    check(std::memcmp(answer.data(), other.data(), answer.size() * sizeof(float)) == 0,
          name + ": a refused state changes nothing");
    engine.close(model);
  }
}

// Settings and weights that are truncated, too long or out of range are rejected, and reads stay within bounds.
void test_programs() {
  for (int number = 0; number < 60; ++number) {
    const Description good = random_model(number);
    s7_model* model;
    const auto open = [&](std::vector<int64_t> settings, std::vector<float> weights) {
      const int status =
          s7_model_open(settings.data(), int64_t(settings.size()), weights.data(), int64_t(weights.size()), &model);
      if (status == S7_OK) s7_model_close(model);
      return status;
    };
    check(open(good.settings, good.weights) == S7_OK, "a whole program is opened");
    for (size_t n = 0; n < good.settings.size(); ++n) {
      check(open({good.settings.begin(), good.settings.begin() + long(n)}, good.weights) == S7_BAD_PROGRAM,
            "settings that are cut off are refused");
      for (int64_t wrong : {int64_t(-1), int64_t(1) << 40, std::numeric_limits<int64_t>::min()}) {
        std::vector<int64_t> settings = good.settings;
        settings[n] = wrong;
        check(open(settings, good.weights) == S7_BAD_PROGRAM, "settings out of range are refused");
      }
    }
    std::vector<float> weights = good.weights;
    weights.push_back(0);
    check(open(good.settings, weights) == S7_BAD_PROGRAM, "weights that are left over are refused");
    weights.resize(good.weights.size() - 1);
    weights.shrink_to_fit();
    check(open(good.settings, weights) == S7_BAD_PROGRAM, "weights that are missing are refused");
  }
}

// The C interface rejects invalid calls and leaves the stream unchanged.
void test_interface() {
  for (int number : {0, 2}) {  // tokens, and vectors
    Description description;
    description.say({1, 4, 0, 0});
    description.weights = {1, 1};
    add_encoder(description, Encoding(number), 4);
    description.say({1});
    const int64_t width = add_block(description, 4, Transition::kStable, Form::kFull);
    description.say({0, 3});
    description.put(3 * width + 3, 1);
    description.put_positive(6);
    s7_model* model;
    check(s7_model_open(description.settings.data(), int64_t(description.settings.size()), description.weights.data(),
                        int64_t(description.weights.size()), &model) == S7_OK,
          "the model is opened");
    Memory memory = aligned(s7_stream_size(model) + 64);
    s7_stream* stream;
    check(s7_stream_start(model, memory.get() + 8, s7_stream_size(model), &stream) == S7_BAD_STREAM,
          "memory must be aligned");
    check(s7_stream_start(model, memory.get(), s7_stream_size(model) - 1, &stream) == S7_BAD_STREAM,
          "memory must be large enough");
    check(s7_stream_start(model, memory.get(), s7_stream_size(model), &stream) == S7_OK, "a stream starts");
    const int64_t inputs = s7_model_inputs(model);
    std::vector<float> vectors(size_t(3 * std::max<int64_t>(inputs, 1)), 0.5f), gaps { 1, 2, 3 };
    std::vector<int32_t> tokens{0, 0, 0};
    int64_t bad = -1;
    const auto push = [&] {
      return number == 0 ? s7_push_tokens(stream, tokens.data(), gaps.data(), 3, &bad)
                         : s7_push_vectors(stream, vectors.data(), gaps.data(), 3, &bad);
    };
    check(push() == S7_OK && s7_stream_events(stream) == 3, "events are pushed");
    const std::vector<char> before(memory.get(), memory.get() + s7_stream_size(model));
    gaps[1] = -1;
    check(push() == S7_BAD_GAP && bad == 1, "a negative gap is refused");
    gaps[1] = NAN;
    check(push() == S7_BAD_GAP && bad == 1, "a gap must be a number");
    gaps[1] = 2;
    tokens[2] = 1000;
    vectors.back() = INFINITY;
    check(push() == S7_BAD_EVENT && bad == 2, "a wrong event is refused");
    check((number == 0 ? s7_push_token(stream, 0) : s7_push_vector(stream, vectors.data())) == S7_MISSING_GAP,
          "a gap must not be missing");
    check((number == 0 ? s7_push_vector(stream, vectors.data()) : s7_push_token(stream, 0)) == S7_WRONG_KIND,
          "tokens are not vectors");
    check(s7_push_token_after(stream, int64_t(1) << 40, 1) != S7_OK, "a token of more than 32 bits is refused");
    check(std::memcmp(before.data(), memory.get(), before.size()) == 0, "what is refused leaves the stream as it was");
    memory.get()[0] ^= 1;
    std::vector<float> answer(3);
    check(s7_read(stream, answer.data()) == S7_BAD_STREAM, "other memory is no stream");
    s7_model_close(model);
  }
}

// Streams in several threads share one model.
void test_threads() {
  const Description description = random_model(0);
  s7_model* model;
  s7_model_open(description.settings.data(), int64_t(description.settings.size()), description.weights.data(),
                int64_t(description.weights.size()), &model);
  std::vector<std::vector<float>> answers(4, std::vector<float>(size_t(s7_model_outputs(model))));
  std::vector<std::thread> threads;
  for (std::vector<float>& answer : answers)
    threads.emplace_back([&answer, model] {
      Memory memory = aligned(s7_stream_size(model));
      s7_stream* stream;
      s7_stream_start(model, memory.get(), s7_stream_size(model), &stream);
      for (int k = 0; k < 200; ++k) s7_push_token_after(stream, 0, 0.5f);
      s7_read(stream, answer.data());
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<float>& answer : answers) check(answer == answers[0], "threads give the same answer");
  s7_model_close(model);
}

}  // namespace

}  // namespace s7

int main(int count, char** arguments) {
  using namespace s7;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_install_malloc_and_free_hooks([](const volatile void*, size_t) { ++allocations; },
                                            [](const volatile void*) {});
#endif
  test_threads();
  if (count < 2 || std::string(arguments[1]) != "threads") {
    test_programs();
    test_interface();
    test_engine(*baseline::kStream, "baseline");
    test_engine(*wide::kStream, "wide");
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) test_engine(*avx2::kStream, "avx2");
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
      test_engine(*avx512::kStream, "avx512");
#endif
  }
  std::printf("stream: %d checks, %d failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}
