/* The part of the C interface that Python uses and s7.h does not promise: models from arrays instead of files. */
#pragma once

#include "s7.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Packs a model. `settings` and `weights` describe it in the order that stream_program.cc reads; both can be freed
 * afterwards. On failure *model is NULL. */
S7_API int s7_model_open(const int64_t* settings, int64_t setting_count, const float* weights, int64_t weight_count,
                         s7_model** model);

/* The number of rows of the table of precomputed values per token, or 0 if the model has no table. */
S7_API int64_t s7_model_table_rows(const s7_model* model);

#ifdef __cplusplus
}
#endif
