// The C interface to the streaming engine: checks all arguments and calls the engine for this processor.
#include "stream.h"

#include <cfloat>
#include <cstring>
#include <memory>
#include <new>

#include "checksum.h"
#include "stream_handle.h"
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
constexpr int64_t kSaved = 4;    // numbers of a saved state before the engine's: time, events, clock, fingerprint
constexpr int64_t kMostTime = int64_t(1) << 53;  // larger whole numbers are not exact in double precision
constexpr uint64_t kMark = 0x73377374'7265616d;

}  // namespace

}  // namespace s7

enum class Time : int64_t { kUnknown = 0, kRegular = 1, kGaps = 2 };

struct s7_stream {
  uint64_t mark;
  const s7_model* model;
  Time time;
  int64_t events;
  int64_t clock;  // the time of the last event in microseconds, or -1 if none had a time

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

// Returns the status after storing the index of the invalid event.
int refuse(int status, int64_t event, int64_t* bad) {
  if (bad != nullptr) *bad = event;
  return status;
}

// Checks what all functions that push events have in common.
int check_push(const s7_stream* stream, const void* events, int64_t count, int64_t* bad) {
  if (!is_stream(stream)) return refuse(S7_BAD_STREAM, 0, bad);
  return refuse(count < 0 || (events == nullptr && count > 0) ? S7_BAD_ARGUMENT : S7_OK, 0, bad);
}

bool is_gap(float gap) { return gap >= 0 && gap <= FLT_MAX; }

// Checks the gaps and calls push(first, gaps, count) for consecutive parts of the events, with the gaps of the model's
// clock.
template <class Push>
int push_checked(s7_stream* stream, const float* gaps, int64_t count, int64_t* bad, Push push) {
  const s7_model& model = *stream->model;
  Time time;
  const int status = find_time(stream, gaps != nullptr, time);
  if (status != S7_OK) return status;
  const bool read = gaps != nullptr && !model.gaps_ignored;
  if (read)
    for (int64_t k = 0; k < count; ++k)
      if (!is_gap(gaps[k] / model.time_unit)) return refuse(S7_BAD_GAP, k, bad);
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

namespace stream {

s7_model* open_model(const int64_t* settings, int64_t setting_count, const float* weights, int64_t weight_count,
                     int64_t table_bytes, OpenError& error) {
  error = {};
  try {
    Program program;
    if (!read_program(settings, setting_count, weights, weight_count, program)) {
      error = {S7_BAD_PROGRAM, program.settings_read};
      return nullptr;
    }
    ModelPlan& plan = program.model;
    plan.most_table_bytes = table_bytes;
    const uint32_t fingerprint =
        crc32(weights, size_t(weight_count) * sizeof(float), crc32(settings, size_t(setting_count) * sizeof(int64_t)));
    const EncoderPlan& encoder = plan.encoder;
    const int64_t columns = encoder.rows == 0 ? 0 : encoder.tokens / 2 / encoder.rows;
    const Engine& best = engine();
    auto model = std::make_unique<s7_model>(s7_model{&best, nullptr, encoder.tokens, encoder.inputs, plan.head.outputs,
                                                     columns, encoder.rows, plan.gaps_ignored, plan.has_gap, plan.gap,
                                                     plan.time_unit, fingerprint});
    model->packed = best.open(plan);
    return model.release();
  } catch (const std::bad_alloc&) {
    error.status = S7_NO_MEMORY;
    return nullptr;
  }
}

}  // namespace stream

}  // namespace s7

extern "C" {

int s7_abi(void) { return S7_ABI; }

const char* s7_status_text(int status) {
  switch (status) {
    case S7_OK:
      return "no error";
    case S7_BAD_PROGRAM:
      return "the description of the model is inconsistent";
    case S7_NO_MEMORY:
      return "the model does not fit in memory";
    case S7_BAD_STREAM:
      return "the memory is too small, is not aligned to 64 bytes, or holds no stream";
    case S7_BAD_EVENT:
      return "a token outside of the vocabulary, a pixel off the sensor, or a number that is not finite";
    case S7_BAD_GAP:
      return "a gap that is negative or not finite, or a time that goes back";
    case S7_MISSING_GAP:
      return "no gap, in a stream whose earlier events had gaps";
    case S7_UNEXPECTED_GAP:
      return "a gap, in a stream whose earlier events had none";
    case S7_WRONG_KIND:
      return "events of a kind that the model does not read: tokens, vectors or pixels";
    case S7_BAD_STATE:
      return "these numbers are not the state of a stream of this model";
    case S7_BAD_ARGUMENT:
      return "a null pointer or a negative count";
    case S7_NO_FILE:
      return "the file cannot be read";
    case S7_BAD_FILE:
      return "the file is truncated, damaged or of another kind";
    case S7_NEW_FILE:
      return "the file was written for a later version of this library";
    default:
      return "not a status of this library";
  }
}

int s7_model_open(const int64_t* settings, int64_t setting_count, const float* weights, int64_t weight_count,
                  s7_model** model) {
  s7::stream::OpenError error;
  const int64_t table_bytes = s7::stream::ModelPlan{}.most_table_bytes;
  *model = s7::stream::open_model(settings, setting_count, weights, weight_count, table_bytes, error);
  return error.status;
}

void s7_model_close(s7_model* model) {
  if (model == nullptr) return;
  model->engine->close(model->packed);
  delete model;
}

int64_t s7_model_outputs(const s7_model* model) { return model->outputs; }
int64_t s7_model_inputs(const s7_model* model) { return model->inputs; }
int64_t s7_model_tokens(const s7_model* model) { return model->tokens; }
int64_t s7_model_sensor_width(const s7_model* model) { return model->columns; }
int64_t s7_model_sensor_height(const s7_model* model) { return model->rows; }
int64_t s7_model_table_rows(const s7_model* model) { return model->engine->table_rows(model->packed); }

const char* s7_model_class(const s7_model* model, int64_t output) {
  if (output < 0 || output >= int64_t(model->classes.size())) return nullptr;
  return model->classes[size_t(output)].c_str();
}

size_t s7_stream_size(const s7_model* model) { return size_t(s7::kHeader) + model->engine->size(model->packed); }

int s7_stream_start(const s7_model* model, void* memory, size_t size, s7_stream** stream) {
  *stream = nullptr;
  if (memory == nullptr || reinterpret_cast<uintptr_t>(memory) % S7_ALIGNMENT != 0) return S7_BAD_STREAM;
  if (size < s7_stream_size(model)) return S7_BAD_STREAM;
  *stream = new (memory) s7_stream{s7::kMark, model, Time::kUnknown, 0, -1};
  model->engine->start(model->packed, (*stream)->memory());
  return S7_OK;
}

int64_t s7_stream_events(const s7_stream* stream) { return s7::is_stream(stream) ? stream->events : -1; }

int s7_push_tokens(s7_stream* stream, const int32_t* tokens, const float* gaps, int64_t count, int64_t* bad) {
  const int status = s7::check_push(stream, tokens, count, bad);
  if (status != S7_OK) return status;
  const s7_model& model = *stream->model;
  if (model.tokens == 0) return S7_WRONG_KIND;
  for (int64_t k = 0; k < count; ++k)
    if (tokens[k] < 0 || tokens[k] >= model.tokens) return s7::refuse(S7_BAD_EVENT, k, bad);
  return s7::push_checked(stream, gaps, count, bad, [&](int64_t first, const float* scaled, int64_t part) {
    model.engine->push_tokens(model.packed, stream->memory(), tokens + first, scaled, part);
  });
}

int s7_push_vectors(s7_stream* stream, const float* inputs, const float* gaps, int64_t count, int64_t* bad) {
  const int status = s7::check_push(stream, inputs, count, bad);
  if (status != S7_OK) return status;
  const s7_model& model = *stream->model;
  if (model.inputs == 0) return S7_WRONG_KIND;
  const int64_t wrong = s7::first_not_finite(inputs, count * model.inputs);
  if (wrong >= 0) return s7::refuse(S7_BAD_EVENT, wrong / model.inputs, bad);
  return s7::push_checked(stream, gaps, count, bad, [&](int64_t first, const float* scaled, int64_t part) {
    model.engine->push_vectors(model.packed, stream->memory(), inputs + first * model.inputs, scaled, part);
  });
}

int s7_push_events(s7_stream* stream, const uint16_t* x, const uint16_t* y, const int8_t* p, const int64_t* t,
                   int64_t count, int64_t* bad) {
  const bool missing = x == nullptr || y == nullptr || p == nullptr;
  int status = s7::check_push(stream, missing ? nullptr : x, count, bad);
  if (status != S7_OK) return status;
  const s7_model& model = *stream->model;
  if (model.rows == 0) return S7_WRONG_KIND;
  // The gap before an event in the unit of the training data. The first event of a stream has none.
  const auto gap = [&](int64_t k) {
    const int64_t before = k > 0 ? t[k - 1] : stream->clock >= 0 ? stream->clock : t[0];
    return float(double(t[k] - before) / model.microseconds);
  };
  for (int64_t k = 0; k < count; ++k) {
    if (x[k] >= model.columns || y[k] >= model.rows) return s7::refuse(S7_BAD_EVENT, k, bad);
    if (t == nullptr) continue;
    const bool possible = t[k] >= 0 && t[k] <= s7::kMostTime;  // checked first: their differences do not overflow
    if (!possible || !s7::is_gap(gap(k) / model.time_unit)) return s7::refuse(S7_BAD_GAP, k, bad);
  }
  constexpr int64_t kPart = 256;
  int32_t tokens[kPart];
  float gaps[kPart];
  for (int64_t first = 0; first < count; first += kPart) {
    const int64_t part = count - first < kPart ? count - first : kPart;
    for (int64_t k = 0; k < part; ++k) {
      const int64_t event = first + k;
      tokens[k] = int32_t(2 * (x[event] * model.rows + y[event]) + (p[event] > 0));
      gaps[k] = t == nullptr ? 0 : gap(event);
    }
    // Only the first part can be refused: whether the stream has gaps is known afterwards.
    status = s7::push_checked(stream, t == nullptr ? nullptr : gaps, part, bad,
                              [&](int64_t from, const float* scaled, int64_t size) {
                                model.engine->push_tokens(model.packed, stream->memory(), tokens + from, scaled, size);
                              });
    if (status != S7_OK) return status;
  }
  if (t != nullptr && count > 0) stream->clock = t[count - 1];
  return S7_OK;
}

int s7_push_token(s7_stream* stream, int64_t token) {
  if (token < 0 || token > INT32_MAX) return S7_BAD_EVENT;
  const int32_t one = int32_t(token);
  return s7_push_tokens(stream, &one, nullptr, 1, nullptr);
}

int s7_push_token_after(s7_stream* stream, int64_t token, float gap) {
  if (token < 0 || token > INT32_MAX) return S7_BAD_EVENT;
  const int32_t one = int32_t(token);
  return s7_push_tokens(stream, &one, &gap, 1, nullptr);
}

int s7_push_vector(s7_stream* stream, const float* input) {
  return s7_push_vectors(stream, input, nullptr, 1, nullptr);
}

int s7_push_vector_after(s7_stream* stream, const float* input, float gap) {
  return s7_push_vectors(stream, input, &gap, 1, nullptr);
}

int s7_read(s7_stream* stream, float* answer) {
  if (!s7::is_stream(stream)) return S7_BAD_STREAM;
  const s7_model& model = *stream->model;
  model.engine->read(model.packed, stream->memory(), stream->time == Time::kGaps, answer);
  return S7_OK;
}

int64_t s7_state_size(const s7_model* model) { return s7::kSaved + model->engine->state_size(model->packed); }

int s7_save(const s7_stream* stream, double* state) {
  if (!s7::is_stream(stream)) return S7_BAD_STREAM;
  state[0] = double(stream->time);
  state[1] = double(stream->events);
  state[2] = double(stream->clock);
  state[3] = double(stream->model->fingerprint);
  stream->model->engine->save(stream->model->packed, stream->memory(), state + s7::kSaved);
  return S7_OK;
}

int s7_restore(s7_stream* stream, const double* state) {
  if (!s7::is_stream(stream)) return S7_BAD_STREAM;
  const s7_model& model = *stream->model;
  const bool known = state[0] == 0 || state[0] == 1 || state[0] == 2;
  const double most = double(s7::kMostTime);
  const bool counted = state[1] >= 0 && state[1] <= most && state[2] >= -1 && state[2] <= most;
  if (!known || !counted || state[3] != double(model.fingerprint)) return S7_BAD_STATE;
  if (!model.engine->restore(model.packed, stream->memory(), state + s7::kSaved)) return S7_BAD_STATE;
  stream->time = Time(int64_t(state[0]));
  stream->events = int64_t(state[1]);
  stream->clock = int64_t(state[2]);
  return S7_OK;
}

}  // extern "C"
