// What a handle of the C interface points to.
#pragma once

#include <string>
#include <vector>

#include "s7.h"
#include "stream_plan.h"

struct s7_model {
  const s7::stream::Engine* engine;
  void* packed;
  int64_t tokens, inputs, outputs;
  int64_t columns, rows;  // of the sensor; 0 if events are not pixels
  bool gaps_ignored, has_gap;
  float gap, time_unit;
  uint32_t fingerprint;                // a checksum of the description
  double microseconds = 1000;          // in a unit of the gaps: the gaps of event recordings are in milliseconds
  std::vector<std::string> classes{};  // one name per output, or none
};

namespace s7::stream {

// A failure to read a description. `setting` is the index of the setting at which it was found.
struct OpenError {
  int status = S7_OK;
  int64_t setting = 0;
};

// Packs a model. The table of precomputed values per token takes at most `table_bytes`. Returns null on failure.
s7_model* open_model(const int64_t* settings, int64_t setting_count, const float* weights, int64_t weight_count,
                     int64_t table_bytes, OpenError& error);

}  // namespace s7::stream
