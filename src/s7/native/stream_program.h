// Reads the flat description of a model: integers for its structure, and its weights in one array.
#pragma once

#include <vector>

#include "stream_plan.h"

namespace s7::stream {

struct Program {
  std::vector<BlockPlan> blocks;
  ModelPlan model{};
  int64_t settings_read = 0;  // up to the first one that is out of range, or whose weights are missing
};

// Returns false if anything is out of range, missing or left over. The plan points into `weights`.
bool read_program(const int64_t* settings, int64_t setting_count, const float* weights, int64_t weight_count,
                  Program& program);

}  // namespace s7::stream
