/* S7 models without Python: reads a model file and runs it one event at a time.
 *
 *     s7_model* model;
 *     s7_error error;
 *     if (s7_model_load("model.safetensors", &model, &error) != S7_OK) return fail(error.text);
 *     void* memory = aligned_alloc(S7_ALIGNMENT, s7_stream_size(model));
 *     s7_stream* stream;
 *     s7_stream_start(model, memory, s7_stream_size(model), &stream);
 *     s7_push_events(stream, x, y, p, t_us, count, NULL);
 *     s7_read(stream, scores);
 *
 * `s7 export RUN --to edge --out DIR` writes model files. A model never changes and can be shared by any number of
 * threads. A stream is one block of memory that the caller owns; one thread at a time may use it. `s7_push_*`,
 * `s7_read`, `s7_save` and `s7_restore` allocate nothing, lock nothing and throw nothing.
 *
 * Functions are only ever added: a program that was compiled for one version of the interface works with later ones.
 */
#ifndef S7_H
#define S7_H

#include <stddef.h>
#include <stdint.h>

#define S7_ABI 1        /* the version of this interface */
#define S7_ALIGNMENT 64 /* of a stream's memory, in bytes; s7_stream_size is a multiple of it */
#define S7_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

typedef struct s7_model s7_model;
typedef struct s7_stream s7_stream;

enum s7_status {
  S7_OK = 0,
  S7_BAD_PROGRAM = 1,    /* the description of the model is inconsistent */
  S7_NO_MEMORY = 2,      /* the model does not fit in memory */
  S7_BAD_STREAM = 3,     /* the memory is too small, is not aligned to 64 bytes, or holds no stream */
  S7_BAD_EVENT = 4,      /* a token outside of the vocabulary, a pixel off the sensor, or a number that is not finite */
  S7_BAD_GAP = 5,        /* a gap that is negative or not finite, or a time that goes back */
  S7_MISSING_GAP = 6,    /* no gap, in a stream whose earlier events had gaps */
  S7_UNEXPECTED_GAP = 7, /* a gap, in a stream whose earlier events had none */
  S7_WRONG_KIND = 8,     /* events of a kind that the model does not read: tokens, vectors or pixels */
  S7_BAD_STATE = 9,      /* saved numbers that are not the state of a stream of this model */
  S7_BAD_ARGUMENT = 10,  /* a null pointer or a negative count */
  S7_NO_FILE = 11,       /* the file cannot be read */
  S7_BAD_FILE = 12,      /* the file is truncated, damaged or of another kind */
  S7_NEW_FILE = 13       /* the file was written for a later version of this library */
};

/* What went wrong when a file was read. `position` is the offset in bytes, or -1 if there is none. */
typedef struct s7_error {
  int status;
  int64_t position;
  char text[240];
} s7_error;

/* The version of the interface of this library, to be compared with S7_ABI. */
S7_API int s7_abi(void);
/* A sentence about a status, in static memory. */
S7_API const char* s7_status_text(int status);

/* Reads a model from a file, or from bytes, which can be freed afterwards. Everything is checked. On failure *model is
 * NULL, and `error`, if it is not NULL, says what is wrong and where. */
S7_API int s7_model_load(const char* path, s7_model** model, s7_error* error);
S7_API int s7_model_load_bytes(const void* bytes, size_t size, s7_model** model, s7_error* error);
S7_API void s7_model_close(s7_model* model);

/* The number of floats in an answer; in an event (0 if events are tokens); and of tokens (0 if events are vectors). */
S7_API int64_t s7_model_outputs(const s7_model* model);
S7_API int64_t s7_model_inputs(const s7_model* model);
S7_API int64_t s7_model_tokens(const s7_model* model);
/* The sensor in pixels. Both are 0 if the model does not read the events of a camera. */
S7_API int64_t s7_model_sensor_width(const s7_model* model);
S7_API int64_t s7_model_sensor_height(const s7_model* model);
/* The name of an output of a classifier, or NULL if it has none. */
S7_API const char* s7_model_class(const s7_model* model, int64_t output);

/* Runs the model on the inputs of a file golden.safetensors and compares. *difference is the largest difference from
 * the expected outputs, relative to the largest of them. */
S7_API int s7_model_check(const s7_model* model, const char* golden, double* difference, s7_error* error);

/* The size of a stream in bytes. `s7_stream_start` makes a new stream in memory of at least that size, aligned to
 * S7_ALIGNMENT. Copying the bytes to other aligned memory copies the stream. The model must outlive its streams. */
S7_API size_t s7_stream_size(const s7_model* model);
S7_API int s7_stream_start(const s7_model* model, void* memory, size_t size, s7_stream** stream);
/* The number of events so far, or -1 if this is no stream. */
S7_API int64_t s7_stream_events(const s7_stream* stream);

/* Processes `count` events: tokens, rows of s7_model_inputs floats, or pixels of an event camera. `gaps` are the times
 * before each event in the unit of the training data, or NULL in regular time. `t` are the times of events in
 * microseconds, from 0 to 2^53, or NULL in regular time; the first event of a stream has gap 0. p > 0 is brighter. All
 * events are checked first: on failure the stream is unchanged, and *bad, if `bad` is not NULL, is the index of the
 * first invalid event. */
S7_API int s7_push_tokens(s7_stream* stream, const int32_t* tokens, const float* gaps, int64_t count, int64_t* bad);
S7_API int s7_push_vectors(s7_stream* stream, const float* inputs, const float* gaps, int64_t count, int64_t* bad);
S7_API int s7_push_events(s7_stream* stream, const uint16_t* x, const uint16_t* y, const int8_t* p, const int64_t* t,
                          int64_t count, int64_t* bad);

/* The same for a single event. */
S7_API int s7_push_token(s7_stream* stream, int64_t token);
S7_API int s7_push_token_after(s7_stream* stream, int64_t token, float gap);
S7_API int s7_push_vector(s7_stream* stream, const float* input);
S7_API int s7_push_vector_after(s7_stream* stream, const float* input, float gap);

/* Writes the answer after all events so far, `s7_model_outputs` floats. Unfinished windows are included. The stream is
 * unchanged. */
S7_API int s7_read(s7_stream* stream, float* answer);

/* Saves and restores the state: `s7_state_size` numbers that do not depend on the processor. A state of another model
 * is refused. */
S7_API int64_t s7_state_size(const s7_model* model);
S7_API int s7_save(const s7_stream* stream, double* state);
S7_API int s7_restore(s7_stream* stream, const double* state);

#ifdef __cplusplus
}
#endif

#endif
