/* Checks a model against its golden file and measures it: check DIR...
 *
 * DIR is a folder that `s7 export --to edge` wrote. Prints the difference from JAX, the time per event, the memory of
 * the model next to the size of its file, and the memory of a stream. Ends with status 1 if a difference is too large.
 */
#include <s7.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const double kTolerance = 1e-5;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* The resident memory of this process in kB, from /proc; 0 where there is none. */
static long resident(void) {
  char line[128];
  long kilobytes = 0;
  FILE* file = fopen("/proc/self/status", "r");
  while (file != NULL && fgets(line, sizeof line, file) != NULL) sscanf(line, "VmRSS: %ld", &kilobytes);
  if (file != NULL) fclose(file);
  return kilobytes;
}

/* The microseconds per event, each pushed by a call of its own: the best of five runs of 20,000 random events. */
static double latency(const s7_model* model, s7_stream* stream, size_t size) {
  enum { kEvents = 20000 };
  static int32_t tokens[kEvents];
  const int64_t inputs = s7_model_inputs(model), vocabulary = s7_model_tokens(model);
  float* vector = calloc((size_t)inputs + 1, sizeof(float));
  double best = 1e9;
  for (int n = 0; n < kEvents; ++n) tokens[n] = vocabulary > 0 ? (int32_t)(rand() % vocabulary) : 0;
  for (int run = 0; run < 5; ++run) {
    s7_stream_start(model, stream, size, &stream);
    const double start = now();
    for (int n = 0; n < kEvents; ++n) {
      if (inputs > 0) vector[n % inputs] = (float)(n % 7) - 3;
      inputs > 0 ? s7_push_vector_after(stream, vector, 1) : s7_push_token_after(stream, tokens[n], 1);
    }
    const double taken = (now() - start) / kEvents * 1e6;
    best = taken < best ? taken : best;
  }
  free(vector);
  return best;
}

static int check(const char* folder) {
  char model_path[1024], golden_path[1024];
  s7_model* model;
  s7_stream* stream;
  s7_error error;
  double difference;
  snprintf(model_path, sizeof model_path, "%s/model.safetensors", folder);
  snprintf(golden_path, sizeof golden_path, "%s/golden.safetensors", folder);
  const long before = resident();
  if (s7_model_load(model_path, &model, &error) != S7_OK) return fprintf(stderr, "%s\n", error.text), 1;
  const size_t size = s7_stream_size(model);
  s7_stream_start(model, aligned_alloc(S7_ALIGNMENT, size), size, &stream);
  const long after = resident();
  if (s7_model_check(model, golden_path, &difference, &error) != S7_OK) return fprintf(stderr, "%s\n", error.text), 1;
  printf("%s: differs from JAX by %.1e, %.2f us per event, model and stream %ld kB, stream %.1f kB\n", folder,
         difference, latency(model, stream, size), after - before, (double)size / 1024);
  free(stream);
  s7_model_close(model);
  return difference <= kTolerance ? 0 : 1;
}

int main(int count, char** arguments) {
  int failed = 0;
  for (int n = 1; n < count; ++n) failed |= check(arguments[n]);
  return count < 2 ? 2 : failed;
}
