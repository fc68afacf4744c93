// The passes of one S7 layer over a tile of events, its recurrence, and their gradients. block.h runs them.
//
//     w_k = w + W_w u_k              a_k, g_k from w_k and dt_k
//     x_k = a_k x_{k-1} + g_k (B_k u_k + b)          y_k = C_k x_k + D_k u_k
//
// `drive` computes a_k and v_k = g_k (B_k u_k + b) of a tile, `run` the recurrence of a sequence, and `read` the
// outputs of a tile. The gradient runs `read_back`, `run_back` and `drive_back`. Tiles are independent, and so are
// sequences.
#pragma once

#include "maps.h"
#include "scan.h"
#include "transition.h"

namespace s7::S7_ISA {

// `rows` are the rows of a tile; those of the input are loaded and normalised.
template <class T>
class Layer {
 public:
  using V = Vector<T>;

  // Scratch memory of one thread.
  struct Work {
    Work(const Layer& layer, Lookahead& ahead)
        : factor(layer.rows_ * kTile),
          lambda(layer.rows_ * kTile),
          earlier(layer.rows_ * kTile),
          input(layer.input_, ahead),
          output(layer.output_, ahead) {}

    Buffer<T> factor, lambda, earlier;
    typename InputMap<T>::Work input;
    typename OutputMap<T>::Work output;
  };

  // `reads_twice`: the gradient of the block recomputes the outputs of the layer. `direction`: which layer of the
  // block.
  Layer(const LayerShape& shape, const LayerInputs<T>& in, Layouts layouts, bool reads_twice, int64_t direction)
      : shape_(shape),
        in_(in),
        width_(shape.width),
        states_(shape.state),
        rows_(shape.rows()),
        layout_{width_, rows_, shape.rank, direction},
        transition_(shape, in),
        input_(layout_, states_, in, layouts),
        output_(layout_, shape.direct, in, layouts, reads_twice) {}

  const Layout& layout() const { return layout_; }
  int64_t padded() const { return output_.padded(); }

  // Forward -----------------------------------------------------------------------------------------------------------

  // Computes the factors a_k of the tile in `a`, and v_k in the place of x_k.
  S7_SHARED void drive(T* rows, int64_t first, int64_t count, const LayerOutputs<T>& out, T* a, Work& work) const {
    input_.apply(rows, count, work.input);
    T *raw = work.input.raw, *input = work.input.drive, *factor = work.factor.data();
    if (out.raw != nullptr) store_tile(raw, count, states_, out.raw + first * states_);
    if (out.input != nullptr) store_tile(input, count, rows_, out.input + first * rows_);
    transition_.apply(Circumstances<T>(in_, first, count), raw, factor, input);
    store_tile(factor, count, rows_, a);
    store_tile(input, count, rows_, out.x + first * rows_);
  }

  // x_k = a_k x_{k-1} + x_k along consecutive events.
  void run(int64_t length, const T* a, const T* initial, T* x) const {
    const Walk walk = Walk::along(length, shape_.reverse);
    if (shape_.oscillate) return scan_halves(walk, states_, a, x, initial, x);
    scan_real(walk, rows_, a, x, initial, x);
  }

  // y = C_k x_k + D_k u_k.
  void read(T* rows, int64_t first, int64_t count, const T* x, T* y, Work& work) const {
    prepare(rows, first, count, x, work);
    output_.finish(rows, count, work.output, y);
  }

  // Loads the states into `rows` and computes what `read_back` needs.
  void prepare(T* rows, int64_t first, int64_t count, const T* x, Work& work) const {
    load_tile(x + first * rows_, count, rows_, rows + layout_.state_row() * kTile);
    output_.prepare(rows, count, work.output);
  }

  // Gradient ----------------------------------------------------------------------------------------------------------

  int64_t read_sums() const { return output_.sums_size(); }
  int64_t drive_sums() const { return input_.sums_size() + transition_.sums_size(); }

  // From the gradient of y, adds the gradient of u through C_k and D_k to the rows `back`, and computes the gradient of
  // x_k in `adjoint`. The gradient of y comes in two layouts: `arriving` is output-major, `by_event` is event-major
  // with `padded()` numbers per event. `read` or `prepare` was called with the same rows.
  void read_back(T* rows, int64_t count, const T* arriving, const T* by_event, T* back, T* adjoint, T* sums,
                 Work& work) const {
    output_.back(rows, arriving, by_event, count, back, sums, work.output);
    store_tile(back + layout_.state_row() * kTile, count, rows_, adjoint);
  }

  // Computes the factors a_k of a tile again.
  S7_SHARED void recompute_factor(int64_t first, int64_t count, const LayerSaved<T>& saved, T* a, Work& work) const {
    load_raw(saved, first, count, work.input);
    transition_.recompute_factor(Circumstances<T>(in_, first, count), work.input.raw, work.factor.data());
    store_tile(work.factor.data(), count, rows_, a);
  }

  // λ_k = λ_k + ā_{k+1} λ_{k+1} along consecutive events, starting from the gradient of the final state. The gradient
  // of the initial state may take its place.
  void run_back(int64_t length, const T* a, const T* final_gradient, T* adjoint, T* initial_gradient) const {
    const Walk walk = Walk::along(length, !shape_.reverse), rest{walk.first + walk.step, walk.step, walk.count - 1};
    const int64_t end = walk.first + walk.step * rest.count;
    T* last = adjoint + walk.first * rows_;
    for (int64_t p = 0; p < rows_; ++p) last[p] += final_gradient[p];
    scan_back(rest, a - walk.step * rows_, adjoint, last, adjoint);
    // The gradient of the initial state is ā λ of the first event.
    std::memset(initial_gradient, 0, size_t(rows_) * sizeof(T));
    scan_back({0, 0, 1}, a + end * rows_, initial_gradient, adjoint + end * rows_, initial_gradient);
  }

  // Adds the gradient of u through a_k and v_k to the rows `back`, given the adjoint λ of the tile.
  S7_SHARED void drive_back(T* rows, int64_t first, int64_t count, const LayerSaved<T>& saved, const T* adjoint,
                            T* back, T* dt_gradient, T* sums, Work& work) const {
    T *raw = work.input.raw, *input = work.input.drive, *before = work.factor.data();
    alignas(64) T gap[kTile];
    load_raw(saved, first, count, work.input);
    load_tile(saved.input + first * rows_, count, rows_, input);
    load_tile(adjoint, count, rows_, work.lambda.data());
    copy_states_before(saved, first, count, work.earlier.data());
    load_tile(work.earlier.data(), count, rows_, before);
    transition_.back(Circumstances<T>(in_, first, count), work.lambda.data(), before, raw, input, gap,
                     sums + input_.sums_size());
    if (dt_gradient != nullptr) std::memcpy(dt_gradient + first, gap, size_t(count) * sizeof(T));
    input_.back(rows, count, back, sums, work.input);
  }

  // Adds what `drive` writes.
  void expect(int64_t first, int64_t count, const LayerOutputs<T>& out, Lookahead& ahead) const {
    ahead.add(out.x + first * rows_, count * rows_);
    if (out.input != nullptr) ahead.add(out.input + first * rows_, count * rows_);
    if (out.raw != nullptr) ahead.add(out.raw + first * states_, count * states_);
  }

  // Adds what `recompute_factor` and `drive_back` read.
  void expect_back(int64_t first, int64_t count, const LayerSaved<T>& saved, Lookahead& ahead) const {
    ahead.add(saved.x + first * rows_, count * rows_);
    ahead.add(saved.input + first * rows_, count * rows_);
    if (saved.raw != nullptr) ahead.add(saved.raw + first * states_, count * states_);
  }

  void unpack(const T* of_read, const T* of_drive, const LayerGradients<T>& out, Pool pool) const {
    output_.unpack(of_read, out, pool);
    input_.unpack(of_drive, out, pool);
    transition_.unpack(of_drive + input_.sums_size(), out);
  }

 private:
  void load_raw(const LayerSaved<T>& saved, int64_t first, int64_t count, typename InputMap<T>::Work& work) const {
    if (saved.raw == nullptr) return input_.constant_raw(work);
    load_tile(saved.raw + first * states_, count, states_, work.raw);
  }

  // x_k = ā_k x_{k-1} + v_k.
  void scan_back(Walk walk, const T* a, const T* v, const T* initial, T* x) const {
    if (shape_.oscillate) return scan_halves<T, -1>(walk, states_, a, v, initial, x);
    scan_real(walk, rows_, a, v, initial, x);
  }

  // Copies x_{k-1} for each event k of a tile: the state of the neighbouring event, or the initial state at the start
  // of a sequence.
  void copy_states_before(const LayerSaved<T>& saved, int64_t first, int64_t count, T* earlier) const {
    const int64_t length = shape_.length, shift = shape_.reverse ? 1 : -1;
    const int64_t from = first + shift < 0 ? 0 : first + shift;
    const int64_t to = first + count + shift > shape_.events() ? shape_.events() : first + count + shift;
    std::memcpy(earlier + (from - first - shift) * rows_, saved.x + from * rows_,
                size_t((to - from) * rows_) * sizeof(T));
    const int64_t beginning = shape_.reverse ? length - 1 : 0;
    for (int64_t n = (first - beginning + length - 1) / length; n * length + beginning < first + count; ++n)
      std::memcpy(earlier + (n * length + beginning - first) * rows_, in_.initial + n * rows_,
                  size_t(rows_) * sizeof(T));
  }

  const LayerShape shape_;
  const LayerInputs<T>& in_;
  const int64_t width_, states_, rows_;
  const Layout layout_;
  const TileTransition<T> transition_;
  const InputMap<T> input_;
  const OutputMap<T> output_;
};

}  // namespace s7::S7_ISA
