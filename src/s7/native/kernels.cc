// All kernels for one instruction set. This file is compiled once per instruction set, and S7_ISA names the set.
#include "block.h"
#include "gate.h"
#include "moments.h"
#include "window_block.h"

namespace s7::S7_ISA {

namespace {

template <class T>
constexpr Kernels<T> kTable = {block<T>,     block_gradient<T>,     window_block<T>, window_block_gradient<T>,
                               scan<T>,      scan_gradient<T>,      quadratic<T>,    quadratic_gradient<T>,
                               bilinear<T>,  bilinear_gradient<T>,  window_scan<T>,  window_scan_gradient<T>,
                               pool_rows<T>, pool_rows_gradient<T>, gate<T>,         gate_gradient<T>,
                               moments<T>};

}  // namespace

extern const Kernels<float>* const kSingle;
extern const Kernels<double>* const kDouble;
const Kernels<float>* const kSingle = &kTable<float>;
const Kernels<double>* const kDouble = &kTable<double>;

}  // namespace s7::S7_ISA
