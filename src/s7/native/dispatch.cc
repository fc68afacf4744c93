// Selects the kernels for the processor at run time.
#include <cstring>

#include "kernels.h"

namespace s7 {

#define S7_DECLARE(isa)                        \
  namespace isa {                              \
  extern const Kernels<float>* const kSingle;  \
  extern const Kernels<double>* const kDouble; \
  }
#if defined(__x86_64__)
S7_DECLARE(avx512)
S7_DECLARE(avx2)
#endif
S7_DECLARE(baseline)
#undef S7_DECLARE

namespace {

struct Choice {
  const Kernels<float>* single_precision;
  const Kernels<double>* double_precision;
};

Choice choose() {
#if defined(__x86_64__)
  if (std::strcmp(instruction_set(), "avx512") == 0) return {avx512::kSingle, avx512::kDouble};
  if (std::strcmp(instruction_set(), "avx2") == 0) return {avx2::kSingle, avx2::kDouble};
#endif
  return {baseline::kSingle, baseline::kDouble};
}

const Choice& choice() {
  static const Choice chosen = choose();
  return chosen;
}

}  // namespace

template <>
const Kernels<float>& kernels<float>() {
  return *choice().single_precision;
}

template <>
const Kernels<double>& kernels<double>() {
  return *choice().double_precision;
}

}  // namespace s7
