// What the kernels offer: plain functions on pointers, one table of them for each instruction set.
//
// Every size is at least 1. All arrays are dense and row-major, events after one another: u is (batch, length, width),
// x is (batch, length, rows). A complex state of size P is 2·P rows, its real parts and then its imaginary parts.
// Nothing here knows of Python or JAX.
#pragma once

#include <cstdint>

namespace s7 {

// How work is spread over threads: calls task(context, n) for every n < count and returns when all have returned.
struct Pool {
  void* handle;
  void (*for_each)(void* handle, int64_t count, void (*task)(void* context, int64_t n), void* context);
};

enum class Gain : int32_t { kNone = 0, kRate = 1, kVariance = 2 };
enum class Direct : int32_t { kStatic = 0, kDiagonal = 1, kFull = 2 };
enum class NormKind : int32_t { kNone = 0, kLayer = 1, kRms = 2, kAffine = 3 };
inline constexpr double kNormEpsilon = 1e-5;

// Marks of an event, as a number: their sum.
inline constexpr int kAbsent = 1;  // padding: the state passes it unchanged
inline constexpr int kReset = 2;   // the first event of a sequence: the state before it does not count

struct LayerShape {
  int64_t batch, length, width, state;
  bool oscillate, reverse;
  Gain gain;
  Direct direct;
  double a, b;       // of the rate 1 / (a w² + b)
  int64_t rank = 0;  // of the factored form; 0 is the full one
  // Of the block around the layer.
  NormKind norm = NormKind::kNone;
  bool skip = false;
  uint32_t threshold = 0;  // of 65536: the probability of dropout

  // Always inlined: this file is compiled for several instruction sets, and no set may borrow another's code.
  __attribute__((always_inline)) int64_t rows() const { return oscillate ? 2 * state : state; }
  __attribute__((always_inline)) int64_t events() const { return batch * length; }
};

// The layer's parameters and inputs. `dt` is null in regular time and `marks` where every event is an ordinary one;
// `omega` counts only in layers that oscillate, and W_D is null where D is static.
template <class T>
struct LayerInputs {
  const T *u, *dt, *marks;   // (batch, length, width), (batch, length), (batch, length)
  const T* initial;          // (batch, rows)
  const T *w, *W_w, *omega;  // (state), (state, width), (state)
  const T *B, *W_B, *b;      // (rows, width), (rows, width, width), (rows)
  const T *C, *W_C;          // (width, rows), (width, rows, width)
  const T *D, *W_D;          // diagonal: (width), (width, width); full: (width, width), (width, width, width)
  // In place of W_B and W_C in a layer of rank R: V3 ((V1 u) * (V2 u)) and U3 ((U1 x) * (U2 u)).
  const T *V1, *V2, *V3;  // (R, width), (R, width), (rows, R)
  const T *U1, *U2, *U3;  // (R, rows), (R, width), (width, R)
  // Of the block: null where it has no norm, no shift, no gate or no dropout.
  const T *scale, *shift;    // (width)
  const T *gate_W, *gate_c;  // (width, width), (width)
  const T* keys;             // (batch, 4), as in GateInputs
};

// `raw` (w_k) and `input` (B_k u_k + b) are what the gradient needs beside the states; null if it is not wanted.
template <class T>
struct LayerOutputs {
  T *y, *x, *raw, *input;
};

// What the forward call gave, and the gradient that reaches y and the final state.
template <class T>
struct LayerSaved {
  const T *x, *raw, *input, *y_gradient, *final_gradient;
};

template <class T>
struct LayerGradients {
  T *u, *dt, *initial, *w, *W_w, *omega, *B, *W_B, *b, *C, *W_C, *D, *W_D, *V1, *V2, *V3, *U1, *U2, *U3;
  T *scale, *shift, *gate_W, *gate_c;
};

// x_k = a_k x_{k-1} + v_k over (batch, length, state); complex numbers are pairs (real, imaginary).
struct ScanShape {
  int64_t batch, length, state;
  bool complex_numbers, reverse;
};

// The end of a block: out = u + keep · z · σ(W gelu(z) + c), where `keep` is dropout.
struct GateShape {
  int64_t batch, length, width;
  uint32_t threshold;  // of 65536: the probability that a value is dropped; 0 is no dropout

  __attribute__((always_inline)) int64_t events() const { return batch * length; }
};

// `u` is null where there is no skip, `keys` where there is no dropout.
template <class T>
struct GateInputs {
  const T *z, *u;  // (batch, length, width) each
  const T *W, *c;  // (width, width), (width)
  const T* keys;   // (batch, 4): 64 bits in four numbers of 16
};

template <class T>
struct GateGradients {
  T *z, *W, *c;
};

// The states at the ends of windows of `stride` events; of the layer's shape the rank and the block do not count.
struct WindowShape {
  LayerShape layer;
  int64_t stride, table;  // rows of the table, where there are tokens
};

// `token` is null where each event has a row of its own.
template <class T>
struct WindowInputs {
  const T *token, *dt, *marks;  // (batch, length)
  const T* initial;             // (batch, rows)
  const T *raw, *drive;         // (table, state) and (table, rows), or (batch, length, …)
  const T* omega;               // (state)
};

template <class T>
struct WindowGradients {
  T *dt, *initial, *raw, *drive, *omega;
};

template <class T>
struct Kernels {
  void (*layer)(const LayerShape&, const LayerInputs<T>&, const LayerOutputs<T>&, Pool);
  void (*layer_gradient)(const LayerShape&, const LayerInputs<T>&, const LayerSaved<T>&, const LayerGradients<T>&,
                         Pool);
  void (*scan)(const ScanShape&, const T* a, const T* v, const T* initial, T* x, Pool);
  // From the gradient that reaches x, those of a, v and the initial state.
  void (*scan_gradient)(const ScanShape&, const T* a, const T* x, const T* initial, const T* gradient, T* a_gradient,
                        T* v_gradient, T* initial_gradient, Pool);
  // y_n = Σ_ij W[n, i, j] u_i u_j, u (events, width), W (outputs, width, width).
  void (*quadratic)(int64_t events, int64_t width, int64_t outputs, const T* W, const T* u, T* y, Pool);
  void (*quadratic_gradient)(int64_t events, int64_t width, int64_t outputs, const T* W, const T* u, const T* gradient,
                             T* W_gradient, T* u_gradient, Pool);
  // y_n = Σ_pj W[n, p, j] x_p u_j, x (events, rows), u (events, width), W (outputs, rows, width).
  void (*bilinear)(int64_t events, int64_t width, int64_t rows, int64_t outputs, const T* W, const T* x, const T* u,
                   T* y, Pool);
  void (*bilinear_gradient)(int64_t events, int64_t width, int64_t rows, int64_t outputs, const T* W, const T* x,
                            const T* u, const T* gradient, T* W_gradient, T* x_gradient, T* u_gradient, Pool);
  void (*window_scan)(const WindowShape&, const WindowInputs<T>&, T* x, Pool);
  void (*window_scan_gradient)(const WindowShape&, const WindowInputs<T>&, const T* x, const T* x_gradient,
                               const WindowGradients<T>&, Pool);
  void (*gate)(const GateShape&, const GateInputs<T>&, T* out, Pool);
  void (*gate_gradient)(const GateShape&, const GateInputs<T>&, const T* out_gradient, const GateGradients<T>&, Pool);
};

// The table for this processor: the best of what was compiled in, or the one that S7_ISA names.
template <class T>
const Kernels<T>& kernels();

// Its name: "avx512", "avx2" or "baseline".
const char* instruction_set();

}  // namespace s7
