/* Streaming inference: one event at a time through a trained model, without Python, JAX or memory allocation.
 *
 * A model is packed once, never changes, and can be shared by any number of threads. A stream is one block of memory
 * that the caller owns; one thread at a time may use it. `s7_push_*`, `s7_read`, `s7_save` and `s7_restore` allocate
 * nothing, lock nothing and throw nothing.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct s7_model s7_model;
typedef struct s7_stream s7_stream;

enum s7_status {
  S7_OK = 0,
  S7_BAD_PROGRAM = 1,    /* the description of the model is inconsistent */
  S7_NO_MEMORY = 2,      /* the model does not fit in memory */
  S7_BAD_STREAM = 3,     /* the memory is not aligned to 64 bytes, or holds no stream */
  S7_BAD_EVENT = 4,      /* a token outside of the vocabulary, or a number that is not finite */
  S7_BAD_GAP = 5,        /* a gap that is negative or not finite */
  S7_MISSING_GAP = 6,    /* no gap, in a stream whose earlier events had gaps */
  S7_UNEXPECTED_GAP = 7, /* a gap, in a stream whose earlier events had none */
  S7_WRONG_KIND = 8,     /* tokens for a model that reads vectors, or vectors for one that reads tokens */
  S7_BAD_STATE = 9       /* saved numbers that are not the state of such a stream */
};

/* Packs a model. `settings` and `weights` describe it in the order that stream_program.cc reads; both can be freed
 * afterwards. On failure *model is NULL. */
int s7_model_open(const int64_t* settings, int64_t setting_count, const float* weights, int64_t weight_count,
                  s7_model** model);
void s7_model_close(s7_model* model);

/* The number of floats in an answer, and in an event (0 if events are tokens). */
int64_t s7_model_outputs(const s7_model* model);
int64_t s7_model_inputs(const s7_model* model);
/* The number of rows of the table of precomputed values per token, or 0 if the model has no table. */
int64_t s7_model_table_rows(const s7_model* model);

/* The size of a stream in bytes. `s7_stream_start` makes a new stream in memory of that size, aligned to 64 bytes.
 * Copying the bytes to other aligned memory copies the stream. The model must outlive its streams. */
size_t s7_stream_size(const s7_model* model);
int s7_stream_start(const s7_model* model, void* memory, s7_stream** stream);
int64_t s7_stream_events(const s7_stream* stream);

/* Processes `count` events. `gaps` is NULL in regular time. All events are checked first: on failure *bad is the index
 * of the first invalid event, and the stream is unchanged. */
int s7_push_tokens(s7_stream* stream, const int32_t* tokens, const float* gaps, int64_t count, int64_t* bad);
int s7_push_vectors(s7_stream* stream, const float* inputs, const float* gaps, int64_t count, int64_t* bad);

/* The same for a single event. */
int s7_push_token(s7_stream* stream, int64_t token);
int s7_push_token_after(s7_stream* stream, int64_t token, float gap);
int s7_push_vector(s7_stream* stream, const float* input);
int s7_push_vector_after(s7_stream* stream, const float* input, float gap);

/* Writes the answer after all events so far, `s7_model_outputs` floats. Unfinished windows are included. The stream is
 * unchanged. */
int s7_read(s7_stream* stream, float* answer);

/* Saves and restores the state as numbers in a format that does not depend on the processor. */
int64_t s7_state_size(const s7_model* model);
int s7_save(const s7_stream* stream, double* state);
int s7_restore(s7_stream* stream, const double* state);

#ifdef __cplusplus
}
#endif
