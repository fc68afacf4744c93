/* Classifies a recording of an event camera: events MODEL FILE [EVERY]
 * FILE is text with one event per line, x,y,t,p with t in microseconds, as `s7 events convert IN OUT.csv` writes it. A
 * first line may name the columns in another order. The prediction is printed after every EVERY events and at the end.
 */
#include <inttypes.h>
#include <s7.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define BLOCK 4096
static const char kFormat[] = "%" SCNd64 ",%" SCNd64 ",%" SCNd64 ",%" SCNd64;

static int fail(const char* what, const char* why) {
  fprintf(stderr, "%s: %s\n", what, why);
  return 2;
}

/* A number that does not fit is off every sensor. */
static uint16_t pixel(int64_t value) { return value < 0 || value > UINT16_MAX ? UINT16_MAX : (uint16_t)value; }

static void print(const s7_model* model, s7_stream* stream, int64_t t, float* scores) {
  int64_t n, best = 0;
  s7_read(stream, scores);
  for (n = 1; n < s7_model_outputs(model); ++n)
    if (scores[n] > scores[best]) best = n;
  const char* name = s7_model_class(model, best);
  printf("%" PRId64 " events, %.3f s: class %" PRId64 " %s (score %.4f)\n", s7_stream_events(stream), (double)t / 1e6,
         best, name == NULL ? "" : name, scores[best]);
}

/* Finds the columns of t, x, y and p in a first line of names. Returns whether it was one. */
static int find_columns(const char* line, int columns[4]) {
  static const char names[] = "txyp";
  int column = 0;
  if (strpbrk(line, names) == NULL) return 0;
  for (; *line != 0; ++line) {
    const char* found = strchr(names, *line);
    if (found != NULL) columns[found - names] = column;
    if (*line == ',') ++column;
  }
  return 1;
}

int main(int count, char** arguments) {
  static uint16_t x[BLOCK], y[BLOCK];
  static int8_t p[BLOCK];
  static int64_t t[BLOCK];
  int columns[4] = {2, 0, 1, 3};
  char line[256];
  int64_t size = 0, last = 0, value[4];
  s7_model* model;
  s7_stream* stream;
  s7_error error;
  if (count < 3) return fail("usage", "events MODEL FILE [EVERY]");
  const int64_t every = count > 3 && atoll(arguments[3]) > 0 ? atoll(arguments[3]) : INT64_MAX;
  if (s7_model_load(arguments[1], &model, &error) != S7_OK) return fail("model", error.text);
  FILE* file = fopen(arguments[2], "r");
  if (file == NULL) return fail(arguments[2], "cannot be read");
  const size_t bytes = s7_stream_size(model);
  float* scores = malloc(sizeof(float) * (size_t)s7_model_outputs(model));
  s7_stream_start(model, aligned_alloc(S7_ALIGNMENT, bytes), bytes, &stream);
  for (int more = 1; more;) {
    more = fgets(line, sizeof line, file) != NULL;
    if (more && s7_stream_events(stream) + size == 0 && find_columns(line, columns)) continue;
    if (more && sscanf(line, kFormat, value, value + 1, value + 2, value + 3) == 4) {
      t[size] = last = value[columns[0]];
      x[size] = pixel(value[columns[1]]);
      y[size] = pixel(value[columns[2]]);
      p[size++] = (int8_t)value[columns[3]];
    }
    if (more && size < BLOCK && size < every - s7_stream_events(stream) % every) continue;
    const int status = s7_push_events(stream, x, y, p, t, size, NULL);
    if (status != S7_OK) return fail(arguments[2], s7_status_text(status));
    if (!more || s7_stream_events(stream) % every == 0) print(model, stream, last, scores);
    size = 0;
  }
  s7_model_close(model);
  return 0;
}
