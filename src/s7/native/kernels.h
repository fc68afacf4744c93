// Interface of the kernels: plain functions on pointers, with one table of functions per instruction set.
//
// Every size is at least 1. All arrays are dense, row-major and event-major: u has shape (batch, length, width) and x
// has shape (batch, length, rows). A complex state of size P has 2·P rows: the real parts, then the imaginary parts.
// This header does not depend on Python or JAX.
#pragma once

#include <cstdint>

namespace s7 {

// A thread pool. `for_each` calls task(context, n) for every n < count and returns when all calls have returned.
struct Pool {
  void* handle;
  void (*for_each)(void* handle, int64_t count, void (*task)(void* context, int64_t n), void* context);
};

// kStep and kHeldStep have a spectrum of their own and a step size; the others have a rate. See discretization.h.
enum class Transition : int32_t { kStable = 0, kPlain = 1, kRing = 2, kStep = 3, kHeldStep = 4 };
enum class Gain : int32_t { kNone = 0, kRate = 1, kVariance = 2 };
enum class Direct : int32_t { kStatic = 0, kDiagonal = 1, kFull = 2 };
enum class NormKind : int32_t { kNone = 0, kLayer = 1, kRms = 2, kAffine = 3 };
inline constexpr double kNormEpsilon = 1e-5;

// Flags of an event. `marks` holds their sum as a number.
inline constexpr int kAbsent = 1;  // padding: leaves the state unchanged
inline constexpr int kReset = 2;   // first event of a sequence: discards the previous state

struct LayerShape {
  int64_t batch, length, width, state;
  bool oscillate, reverse;
  Gain gain;
  Direct direct;
  double a, b;       // coefficients of the rate 1 / (a w² + b)
  int64_t rank = 0;  // rank of factored maps
  Transition transition = Transition::kStable;
  bool counting = false;  // every second state counts events: its dt is 1 wherever there are gaps

  // Always inlined: this header is compiled for several instruction sets, and the linker must not merge their code.
  __attribute__((always_inline)) int64_t rows() const { return oscillate ? 2 * state : state; }
  __attribute__((always_inline)) int64_t events() const { return batch * length; }
  __attribute__((always_inline)) bool counts(int64_t p) const { return counting && p % 2 == 1; }
};

// Parameters of a layer, and the data that it reads besides u. `dt` is null in regular time. `marks` is null if no
// event has a flag. W_w is null if w does not depend on the input. `omega` is read only if the layer oscillates, and
// `decay` only by the transitions with a step size. W_D is null if D is static.
template <class T>
struct LayerInputs {
  const T *dt, *marks;               // (batch, length)
  const T* initial;                  // (batch, rows)
  const T *w, *W_w, *omega, *decay;  // (state), (state, width), (state), (state)
  const T *B, *W_B, *b;              // (rows, width), (rows, width, width), (rows)
  const T *C, *W_C;                  // (width, rows), (width, rows, width)
  const T *D, *W_D;                  // diagonal: (width), (width, width); full: (width, width), (width, width, width)
  // These replace W_B and W_C in factored maps of rank R: V3 ((V1 u) * (V2 u)) and U3 ((U1 x) * (U2 u)). W_B and V1 are
  // null if B is static, and W_C and U1 if C is static.
  const T *V1, *V2, *V3;  // (R, width), (R, width), (rows, R)
  const T *U1, *U2, *U3;  // (R, rows), (R, width), (width, R)
};

// The states. The gradient also needs `raw` (w_k) and `input` (B_k u_k + b). Both are null if no gradient is computed,
// and `raw` is null if w does not depend on the input.
template <class T>
struct LayerOutputs {
  T *x, *raw, *input;
};

// The results of the forward call, and the gradient of the final state.
template <class T>
struct LayerSaved {
  const T *x, *raw, *input, *final_gradient;
};

template <class T>
struct LayerGradients {
  T *dt, *initial, *w, *W_w, *omega, *decay, *B, *W_B, *b, *C, *W_C, *D, *W_D, *V1, *V2, *V3, *U1, *U2, *U3;
};

inline constexpr int kDirections = 2;

// A block: out = tail(u + keep · gate(Σ layer(norm(u)))), with one layer or two that read the events in opposite
// orders, and a tail that is a norm, a linear map to the width `out`, both or neither.
struct BlockShape {
  LayerShape layer;  // the second layer has the opposite `reverse`
  int64_t directions = 1;
  NormKind norm = NormKind::kNone;
  bool skip = false;
  uint32_t threshold = 0;  // dropout probability times 65536
  NormKind after = NormKind::kNone;
  int64_t out = 0;  // 0: there is no linear map

  __attribute__((always_inline)) int64_t out_width() const { return out > 0 ? out : layer.width; }
};

// Arrays of the block are null if it has no norm, shift, gate, dropout or linear map. `mean` is read by the affine norm
// only, which the tail cannot have.
template <class T>
struct BlockInputs {
  const T* u;  // (batch, length, width)
  LayerInputs<T> layers[kDirections];
  const T *scale, *shift, *mean;                               // (width)
  const T *gate_W, *gate_c;                                    // (width, width), (width)
  const T* keys;                                               // (batch, 4), as in GateInputs
  const T *after_scale, *after_shift, *project_W, *project_c;  // (width), (width), (out, width), (out)
};

template <class T>
struct BlockOutputs {
  T* y;  // (batch, length, out or width)
  T* z;  // (batch, length, width): the sum of the layers' outputs, before the gate; null if it is not saved
  LayerOutputs<T> layers[kDirections];
};

template <class T>
struct BlockSaved {
  const T* y_gradient;
  const T* z;  // null: it is computed again
  LayerSaved<T> layers[kDirections];
};

template <class T>
struct BlockGradients {
  T* u;
  LayerGradients<T> layers[kDirections];
  T *scale, *shift, *mean, *gate_W, *gate_c, *after_scale, *after_shift, *project_W, *project_c;
};

// A block that is read at the ends of windows of `stride` events, which divides the length. Events can be rows of a
// table: `u` is then the table, and `table` the number of its rows.
struct WindowBlockShape {
  BlockShape block;
  int64_t stride, table;
};

// `ends` and `skip` are null if they are gathered from the windows: the last event, and what the skip adds. That is the
// mean of a window, weighted by `share`, or without `share` its last event. `last` is null if every window is full.
template <class T>
struct WindowBlockInputs {
  BlockInputs<T> block;
  const T *token, *share;  // (batch, length)
  const T* last;           // (batch, windows): the position in the window
  const T *ends, *skip;    // (batch, windows, width)
};

// The gradient also needs `raw` and `drive`: w_k and B_k u_k + b of each event or, with tokens, of each row of the
// table. Both are null if no gradient is computed.
template <class T>
struct WindowBlockOutputs {
  T* y;               // (batch, windows, out or width)
  T* x[kDirections];  // (batch, windows, rows)
  T *raw[kDirections], *drive[kDirections];
};

template <class T>
struct WindowBlockSaved {
  const T* y_gradient;
  const T *x[kDirections], *raw[kDirections], *drive[kDirections], *final_gradient[kDirections];
};

// Null arrays are not wanted.
template <class T>
struct WindowBlockGradients {
  BlockGradients<T> block;
  T *share, *ends, *skip;
};

// x_k = a_k x_{k-1} + v_k over (batch, length, state). Complex numbers are stored as pairs (real, imaginary).
struct ScanShape {
  int64_t batch, length, state;
  bool complex_numbers, reverse;
};

// The end of a block: out = u + keep · z · σ(W gelu(z) + c), where `keep` is the dropout mask.
struct GateShape {
  int64_t batch, length, width;
  uint32_t threshold;  // dropout probability times 65536; 0 disables dropout

  __attribute__((always_inline)) int64_t events() const { return batch * length; }
};

// `u` is null if there is no skip, and `keys` is null if there is no dropout.
template <class T>
struct GateInputs {
  const T *z, *u;  // (batch, length, width) each
  const T *W, *c;  // (width, width), (width)
  const T* keys;   // (batch, 4): a 64-bit key as four 16-bit numbers
};

template <class T>
struct GateGradients {
  T *z, *W, *c;
};

// Computes the states at the ends of windows of `stride` events. The rank in `layer` is ignored.
struct WindowShape {
  LayerShape layer;
  int64_t stride, table;  // table: number of rows of the token table
};

// `token` is null if each event has its own row.
template <class T>
struct WindowInputs {
  const T *token, *dt, *marks;  // (batch, length)
  const T* initial;             // (batch, rows)
  const T *raw, *drive;         // (table, state) and (table, rows), or (batch, length, …)
  const T *omega, *decay;       // (state); `decay` is read only by the transitions with a step size
};

template <class T>
struct WindowGradients {
  T *dt, *initial, *raw, *drive, *omega, *decay;
};

// Pools windows of `stride` events: their mean, weighted by `share`, and their last event.
struct PoolShape {
  int64_t batch, windows, stride, width, table;  // table: number of rows of the token table
};

// `token` is null if each event has its own row, `share` if there is no mean, `last` if every window is full.
template <class T>
struct PoolInputs {
  const T* values;         // (table, width), or (batch, windows · stride, width)
  const T *token, *share;  // (batch, windows · stride)
  const T* last;           // (batch, windows): the position in the window
};

template <class T>
struct Kernels {
  void (*block)(const BlockShape&, const BlockInputs<T>&, const BlockOutputs<T>&, Pool);
  void (*block_gradient)(const BlockShape&, const BlockInputs<T>&, const BlockSaved<T>&, const BlockGradients<T>&,
                         Pool);
  void (*window_block)(const WindowBlockShape&, const WindowBlockInputs<T>&, const WindowBlockOutputs<T>&, Pool);
  void (*window_block_gradient)(const WindowBlockShape&, const WindowBlockInputs<T>&, const WindowBlockSaved<T>&,
                                const WindowBlockGradients<T>&, Pool);
  void (*scan)(const ScanShape&, const T* a, const T* v, const T* initial, T* x, Pool);
  // Computes the gradients of a, v and the initial state from the gradient of x.
  void (*scan_gradient)(const ScanShape&, const T* a, const T* x, const T* initial, const T* gradient, T* a_gradient,
                        T* v_gradient, T* initial_gradient, Pool);
  // y_n = Σ_ij W[n, i, j] u_i u_j with u (events, width) and W (outputs, width, width).
  void (*quadratic)(int64_t events, int64_t width, int64_t outputs, const T* W, const T* u, T* y, Pool);
  void (*quadratic_gradient)(int64_t events, int64_t width, int64_t outputs, const T* W, const T* u, const T* gradient,
                             T* W_gradient, T* u_gradient, Pool);
  // y_n = Σ_pj W[n, p, j] x_p u_j with x (events, rows), u (events, width) and W (outputs, rows, width).
  void (*bilinear)(int64_t events, int64_t width, int64_t rows, int64_t outputs, const T* W, const T* x, const T* u,
                   T* y, Pool);
  void (*bilinear_gradient)(int64_t events, int64_t width, int64_t rows, int64_t outputs, const T* W, const T* x,
                            const T* u, const T* gradient, T* W_gradient, T* x_gradient, T* u_gradient, Pool);
  void (*window_scan)(const WindowShape&, const WindowInputs<T>&, T* x, Pool);
  void (*window_scan_gradient)(const WindowShape&, const WindowInputs<T>&, const T* x, const T* x_gradient,
                               const WindowGradients<T>&, Pool);
  // Computes the mean and the last vector, (batch, windows, width) each. Either can be null.
  void (*pool_rows)(const PoolShape&, const PoolInputs<T>&, T* mean, T* ends, Pool);
  // Computes the gradients of the values and, if it is not null, of `share`.
  void (*pool_rows_gradient)(const PoolShape&, const PoolInputs<T>&, const T* mean_gradient, const T* ends_gradient,
                             T* values_gradient, T* share_gradient, Pool);
  void (*gate)(const GateShape&, const GateInputs<T>&, T* out, Pool);
  void (*gate_gradient)(const GateShape&, const GateInputs<T>&, const T* out_gradient, const GateGradients<T>&, Pool);
  // Of u (batch, length, width) with weights (batch, length), or null: the sum of the weights (batch), and per channel
  // the mean and the sum of squared deviations, (batch, width) each.
  void (*moments)(int64_t batch, int64_t length, int64_t width, const T* u, const T* weights, T* count, T* mean,
                  T* square, Pool);
};

// Returns the kernels for the best compiled instruction set that this processor supports. The environment variable
// S7_ISA restricts the choice to the set it names.
template <class T>
const Kernels<T>& kernels();

// Returns the name of the selected instruction set: "avx512", "avx2" or "baseline".
const char* instruction_set();

}  // namespace s7
