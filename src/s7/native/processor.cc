// Finds the instruction set of this processor at run time.
#include <cstdlib>
#include <cstring>

#include "kernels.h"

namespace s7 {

namespace {

#if defined(__x86_64__)
bool asked_for(const char* name) {
  const char* asked = std::getenv("S7_ISA");
  return asked == nullptr || *asked == '\0' || std::strcmp(asked, name) == 0;
}
#endif

const char* find() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("fma") && asked_for("avx512"))
    return "avx512";
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && asked_for("avx2")) return "avx2";
#endif
  return "baseline";
}

}  // namespace

const char* instruction_set() {
  static const char* const name = find();
  return name;
}

}  // namespace s7
