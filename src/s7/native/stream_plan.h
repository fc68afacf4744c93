// The description of a model for the streaming engine: sizes, kinds, and pointers to weights in the caller's memory.
//
// All arrays are dense and row-major. H is a block's width, P its state size, S its number of real rows (2·P if the
// state is complex: the real parts, then the imaginary parts), and R the rank of the factored form.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels.h"

namespace s7::stream {

enum class Encoding : int32_t { kToken = 0, kEvent = 1, kLinear = 2, kDense = 3, kImage = 4 };
enum class Normalization : int32_t { kNone = 0, kLayer = 1, kRms = 2, kBatch = 3 };
enum class Pooling : int32_t { kLast = 0, kMean = 1, kTime = 2 };
enum class Transition : int32_t { kStable = 0, kPlain = 1, kStep = 2, kRing = 3 };
enum class Form : int32_t { kStatic = 0, kFull = 1, kFactored = 2 };
enum class Reading : int32_t { kMean = 0, kTimeMean = 1, kLast = 2 };

struct EncoderPlan {
  Encoding kind;
  int64_t tokens;                              // vocabulary size of a token encoder
  int64_t inputs;                              // numbers per event of a vector encoder
  int64_t rows;                                // rows of the sensor: token = 2 (x · rows + y) + polarity
  int64_t hidden;                              // hidden width of the dense encoder
  int64_t height, breadth, colours, channels;  // sizes of the image encoder
  const float *token, *x, *y, *polarity;       // (tokens, H), (columns, H), (rows, H), (2, H); null if absent
  const float *mean, *scale;                   // linear: (inputs), (inputs); dense and image: null, (1)
  const float *W1, *c1, *W2, *c2, *W, *c;      // hidden layers; output map (H, …) and (H)
};

struct BlockPlan {
  int64_t width, out, state, stride, rank;
  Pooling pooling;
  Normalization norm;
  bool norm_after, skip;
  Transition transition;
  bool complex_state, held, counting;  // counting: every second state counts events
  Gain gain;
  Form form;
  Direct direct;
  const float *scale, *shift, *mean, *variance;  // parameters of the norm, (H) each
  float a, b_rate;                               // coefficients of the rate 1 / (a w² + b)
  const float *w, *W_w, *omega, *decay;          // (P), (P, H), (P), (P)
  const float *B, *b, *W_B, *V1, *V2, *V3;       // (S, H), (S), (S, H, H), (R, H), (R, H), (S, R)
  const float *C, *W_C, *U1, *U2, *U3;           // (H, S), (H, S, H), (R, S), (R, H), (H, R)
  const float *D, *W_D;                          // (H), (H, H); if D is full, (H, H), (H, H, H)
  const float *gate_W, *gate_c;                  // (H, H), (H)
  const float *project_W, *project_c;            // (out, H), (out)

  // Always inlined: the linker must not merge the code of different instruction sets.
  __attribute__((always_inline)) int64_t rows() const { return complex_state ? 2 * state : state; }
};

struct HeadPlan {
  Reading kind;
  int64_t width, outputs;
  const float *W, *c, *scale, *mean;  // (outputs, H), (outputs), (outputs), (outputs)
};

struct ModelPlan {
  EncoderPlan encoder;
  const BlockPlan* blocks;
  int64_t depth;
  HeadPlan head;
  bool gaps_ignored, has_gap;  // has_gap: `gap` is the default gap
  float gap, time_unit;
  int64_t most_table_bytes = 64ll << 20;  // limit of the table of precomputed values per token
};

// The functions of one instruction set. A model is opaque. `open` may throw std::bad_alloc; the other functions do not
// throw.
struct Engine {
  void* (*open)(const ModelPlan& plan);
  void (*close)(void* model);
  size_t (*size)(const void* model);
  int64_t (*table_rows)(const void* model);
  void (*start)(const void* model, void* memory);
  // The events must have been checked. `gaps` is null in regular time.
  void (*push_tokens)(const void* model, void* memory, const int32_t* tokens, const float* gaps, int64_t count);
  void (*push_vectors)(const void* model, void* memory, const float* inputs, const float* gaps, int64_t count);
  void (*read)(const void* model, void* memory, bool timed, float* answer);
  int64_t (*state_size)(const void* model);
  void (*save)(const void* model, const void* memory, double* state);
  bool (*restore)(const void* model, void* memory, const double* state);  // false and no change if invalid
};

}  // namespace s7::stream
