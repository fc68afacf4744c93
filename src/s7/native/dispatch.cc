// Selects the kernels for the processor at run time.
#include <cstdlib>
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
  const char* name;
  const Kernels<float>* single_precision;
  const Kernels<double>* double_precision;
};

bool asked_for(const char* name) {
  const char* asked = std::getenv("S7_ISA");
  return asked == nullptr || *asked == '\0' || std::strcmp(asked, name) == 0;
}

Choice choose() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("fma") && asked_for("avx512"))
    return {"avx512", avx512::kSingle, avx512::kDouble};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && asked_for("avx2"))
    return {"avx2", avx2::kSingle, avx2::kDouble};
#endif
  return {"baseline", baseline::kSingle, baseline::kDouble};
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

const char* instruction_set() { return choice().name; }

}  // namespace s7
