// The C interface to the streaming engine: checks all arguments and calls the engine for this processor.
#include "stream.h"

#include <cfloat>
#include <cstring>
#include <new>

#include "stream_program.h"

namespace s7 {

#define S7_DECLARE(isa)                       \
  namespace isa {                             \
  extern const stream::Engine* const kStream; \
  }
#if defined(__x86_64__)
S7_DECLARE(avx512)
S7_DECLARE(avx2)
#endif
S7_DECLARE(baseline)
#undef S7_DECLARE

namespace {

const stream::Engine& engine() {
#if defined(__x86_64__)
  if (std::strcmp(instruction_set(), "avx512") == 0) return *avx512::kStream;
  if (std::strcmp(instruction_set(), "avx2") == 0) return *avx2::kStream;
#endif
  return *baseline::kStream;
}

constexpr int64_t kHeader = 64;  // bytes of s7_stream before the engine's memory
constexpr uint64_t kMark = 0x73377374'7265616d;

}  // namespace

}  // namespace s7

struct s7_model {
  const s7::stream::Engine* engine;
  void* packed;
  int64_t tokens, inputs, outputs;
  bool gaps_ignored, has_gap;
  float gap, time_unit;
};

enum class Time : int64_t { kUnknown = 0, kRegular = 1, kGaps = 2 };

struct s7_stream {
  uint64_t mark;
  const s7_model* model;
  Time time;
  int64_t events;

  void* memory() { return reinterpret_cast<char*>(this) + s7::kHeader; }
  const void* memory() const { return reinterpret_cast<const char*>(this) + s7::kHeader; }
};

namespace s7 {

namespace {

static_assert(sizeof(s7_stream) <= kHeader, "the header of a stream has grown");

bool is_stream(const s7_stream* stream) {
  return stream != nullptr && reinterpret_cast<uintptr_t>(stream) % 64 == 0 && stream->mark == kMark;
}

// Sets `time` to whether these events have gaps, given or default. Returns an error if earlier events differ.
int find_time(const s7_stream* stream, bool given, Time& time) {
  const s7_model& model = *stream->model;
  time = (given && !model.gaps_ignored) || model.has_gap ? Time::kGaps : Time::kRegular;
  if (stream->time == Time::kUnknown || stream->time == time) return S7_OK;
  return stream->time == Time::kGaps ? S7_MISSING_GAP : S7_UNEXPECTED_GAP;
}

bool is_gap(float gap) { return gap >= 0 && gap <= FLT_MAX; }

// Checks the gaps and calls push(first, gaps, count) for consecutive parts of the events, with gaps in the model's unit
// of time.
template <class Push>
int push_checked(s7_stream* stream, const float* gaps, int64_t count, int64_t* bad, Push push) {
  const s7_model& model = *stream->model;
  Time time;
  *bad = 0;
  const int status = find_time(stream, gaps != nullptr, time);
  if (status != S7_OK) return status;
  const bool read = gaps != nullptr && !model.gaps_ignored;
  if (read)
    for (int64_t k = 0; k < count; ++k)
      if (!is_gap(gaps[k] / model.time_unit)) {
        *bad = k;
        return S7_BAD_GAP;
      }
  if (time == Time::kRegular) {
    push(0, nullptr, count);
  } else if (read && model.time_unit == 1.0f) {
    push(0, gaps, count);
  } else {
    constexpr int64_t kPart = 256;
    float scaled[kPart];
    for (int64_t first = 0; first < count; first += kPart) {
      const int64_t part = count - first < kPart ? count - first : kPart;
      for (int64_t k = 0; k < part; ++k) scaled[k] = (read ? gaps[first + k] : model.gap) / model.time_unit;
      push(first, scaled, part);
    }
  }
  if (count > 0) stream->time = time;
  stream->events += count;
  return S7_OK;
}

// Returns the index of the first infinity or NaN, or -1. Their exponent bits are all ones. The first loop has no
// branch, because almost all arrays are finite.
int64_t first_not_finite(const float* numbers, int64_t count) {
  constexpr uint32_t kExponent = 0x7f800000;
  const auto bits = [&](int64_t n) {
    uint32_t bits;
    std::memcpy(&bits, numbers + n, sizeof bits);
    return bits;
  };
  uint32_t found = 0;
  for (int64_t n = 0; n < count; ++n) found |= uint32_t((bits(n) & kExponent) == kExponent);
  if (found == 0) return -1;
  int64_t first = 0;
  while ((bits(first) & kExponent) != kExponent) ++first;
  return first;
}

}  // namespace

}  // namespace s7

extern "C" {

int s7_model_open(const int64_t* settings, int64_t setting_count, const float* weights, int64_t weight_count,
                  s7_model** model) {
  *model = nullptr;
  try {
    s7::stream::Program program;
    if (!s7::stream::read_program(settings, setting_count, weights, weight_count, program)) return S7_BAD_PROGRAM;
    const s7::stream::ModelPlan& plan = program.model;
    const s7::stream::Engine& engine = s7::engine();
    void* packed = engine.open(plan);
    *model = new (std::nothrow)
        s7_model{&engine,      packed,   plan.encoder.tokens, plan.encoder.inputs, plan.head.outputs, plan.gaps_ignored,
                 plan.has_gap, plan.gap, plan.time_unit};
    if (*model == nullptr) engine.close(packed);
    return *model == nullptr ? S7_NO_MEMORY : S7_OK;
  } catch (const std::bad_alloc&) {
    return S7_NO_MEMORY;
  }
}

void s7_model_close(s7_model* model) {
  if (model == nullptr) return;
  model->engine->close(model->packed);
  delete model;
}

int64_t s7_model_outputs(const s7_model* model) { return model->outputs; }
int64_t s7_model_inputs(const s7_model* model) { return model->inputs; }
int64_t s7_model_table_rows(const s7_model* model) { return model->engine->table_rows(model->packed); }

size_t s7_stream_size(const s7_model* model) { return size_t(s7::kHeader) + model->engine->size(model->packed); }

int s7_stream_start(const s7_model* model, void* memory, s7_stream** stream) {
  *stream = nullptr;
  if (memory == nullptr || reinterpret_cast<uintptr_t>(memory) % 64 != 0) return S7_BAD_STREAM;
  *stream = new (memory) s7_stream{s7::kMark, model, Time::kUnknown, 0};
  model->engine->start(model->packed, (*stream)->memory());
  return S7_OK;
}

int64_t s7_stream_events(const s7_stream* stream) { return s7::is_stream(stream) ? stream->events : -1; }

int s7_push_tokens(s7_stream* stream, const int32_t* tokens, const float* gaps, int64_t count, int64_t* bad) {
  *bad = 0;
  if (!s7::is_stream(stream)) return S7_BAD_STREAM;
  const s7_model& model = *stream->model;
  if (model.tokens == 0) return S7_WRONG_KIND;
  for (int64_t k = 0; k < count; ++k)
    if (tokens[k] < 0 || tokens[k] >= model.tokens) {
      *bad = k;
      return S7_BAD_EVENT;
    }
  return s7::push_checked(stream, gaps, count, bad, [&](int64_t first, const float* scaled, int64_t part) {
    model.engine->push_tokens(model.packed, stream->memory(), tokens + first, scaled, part);
  });
}

int s7_push_vectors(s7_stream* stream, const float* inputs, const float* gaps, int64_t count, int64_t* bad) {
  *bad = 0;
  if (!s7::is_stream(stream)) return S7_BAD_STREAM;
  const s7_model& model = *stream->model;
  if (model.inputs == 0) return S7_WRONG_KIND;
  const int64_t wrong = s7::first_not_finite(inputs, count * model.inputs);
  if (wrong >= 0) {
    *bad = wrong / model.inputs;
    return S7_BAD_EVENT;
  }
  return s7::push_checked(stream, gaps, count, bad, [&](int64_t first, const float* scaled, int64_t part) {
    model.engine->push_vectors(model.packed, stream->memory(), inputs + first * model.inputs, scaled, part);
  });
}

int s7_push_token(s7_stream* stream, int64_t token) {
  int64_t bad;
  if (token < 0 || token > INT32_MAX) return S7_BAD_EVENT;
  const int32_t one = int32_t(token);
  return s7_push_tokens(stream, &one, nullptr, 1, &bad);
}

int s7_push_token_after(s7_stream* stream, int64_t token, float gap) {
  int64_t bad;
  if (token < 0 || token > INT32_MAX) return S7_BAD_EVENT;
  const int32_t one = int32_t(token);
  return s7_push_tokens(stream, &one, &gap, 1, &bad);
}

int s7_push_vector(s7_stream* stream, const float* input) {
  int64_t bad;
  return s7_push_vectors(stream, input, nullptr, 1, &bad);
}

int s7_push_vector_after(s7_stream* stream, const float* input, float gap) {
  int64_t bad;
  return s7_push_vectors(stream, input, &gap, 1, &bad);
}

int s7_read(s7_stream* stream, float* answer) {
  if (!s7::is_stream(stream)) return S7_BAD_STREAM;
  const s7_model& model = *stream->model;
  model.engine->read(model.packed, stream->memory(), stream->time == Time::kGaps, answer);
  return S7_OK;
}

int64_t s7_state_size(const s7_model* model) { return 2 + model->engine->state_size(model->packed); }

int s7_save(const s7_stream* stream, double* state) {
  if (!s7::is_stream(stream)) return S7_BAD_STREAM;
  state[0] = double(stream->time);
  state[1] = double(stream->events);
  stream->model->engine->save(stream->model->packed, stream->memory(), state + 2);
  return S7_OK;
}

int s7_restore(s7_stream* stream, const double* state) {
  if (!s7::is_stream(stream)) return S7_BAD_STREAM;
  const bool known = state[0] == 0 || state[0] == 1 || state[0] == 2;
  if (!known || !(state[1] >= 0 && state[1] < 9e15)) return S7_BAD_STATE;
  const s7_model& model = *stream->model;
  if (!model.engine->restore(model.packed, stream->memory(), state + 2)) return S7_BAD_STATE;
  stream->time = Time(int64_t(state[0]));
  stream->events = int64_t(state[1]);
  return S7_OK;
}

}  // extern "C"
