// The streaming engine for one instruction set. This file is compiled once per instruction set, and S7_ISA names the
// set.
#include "stream_model.h"

namespace s7::S7_ISA {

namespace {

using s7::stream::Engine;
using s7::stream::ModelPlan;
using stream::Model;

const Model& of(const void* model) { return *static_cast<const Model*>(model); }
char* bytes(void* memory) { return static_cast<char*>(memory); }

constexpr Engine kTable = {
    [](const ModelPlan& plan) -> void* { return new Model(plan); },
    [](void* model) { delete static_cast<Model*>(model); },
    [](const void* model) { return of(model).size(); },
    [](const void* model) { return of(model).table_rows(); },
    [](const void* model, void* memory) { of(model).start(bytes(memory)); },
    [](const void* model, void* memory, const int32_t* tokens, const float* gaps, int64_t count) {
      of(model).push_tokens(bytes(memory), tokens, gaps, count);
    },
    [](const void* model, void* memory, const float* inputs, const float* gaps, int64_t count) {
      of(model).push_vectors(bytes(memory), inputs, gaps, count);
    },
    [](const void* model, void* memory, bool timed, float* answer) { of(model).read(bytes(memory), timed, answer); },
    [](const void* model) { return of(model).state_numbers(); },
    [](const void* model, const void* memory, double* state) {
      of(model).save(static_cast<const char*>(memory), state);
    },
    [](const void* model, void* memory, const double* state) { return of(model).restore(bytes(memory), state); },
};

}  // namespace

extern const s7::stream::Engine* const kStream;
const s7::stream::Engine* const kStream = &kTable;

}  // namespace s7::S7_ISA
