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

// `Map` is FullMap or FactoredMap. `rows` are the rows of a tile; those of the input are loaded and normalised.
template <class T, class Map>
class Layer {
 public:
  using V = Vector<T>;

  // Scratch memory of one thread.
  struct Work {
    explicit Work(const Layer& layer)
        : raw(layer.states_ * kTile),
          input(layer.rows_ * kTile),
          factor(layer.rows_ * kTile),
          lambda(layer.rows_ * kTile),
          earlier(layer.rows_ * kTile),
          direct(layer.width_ * kTile),
          weighted(layer.width_ * kTile),
          padded(most(layer.output_.padded(), layer.input_.padded(), layer.raw_.padded()) * kTile),
          map(most(layer.input_.work_size(), layer.output_.work_size(), 0)) {}

    Buffer<T> raw, input, factor, lambda, earlier, direct, weighted, padded, map;

   private:
    static int64_t most(int64_t a, int64_t b, int64_t c) { return a > b ? (a > c ? a : c) : (b > c ? b : c); }
  };

  // `reads_twice`: the gradient of the block recomputes the outputs of the layer.
  Layer(const LayerShape& shape, const LayerInputs<T>& in, Layouts layouts, bool reads_twice)
      : shape_(shape),
        in_(in),
        width_(shape.width),
        states_(shape.state),
        rows_(shape.rows()),
        layout_{width_, rows_, shape.rank},
        transition_(shape, in),
        raw_(selective() ? linear(states_, in.W_w, in.w, layouts) : Form<T>(Products::linear(layout_, 0, 1), states_)),
        input_(Map::input(layout_, rows_, in, layouts)),
        output_(Map::output(layout_, in, for_output(layouts, reads_twice))),
        direct_(direct(layouts, reads_twice)) {}

  const Layout& layout() const { return layout_; }
  int64_t padded() const { return output_.padded(); }

  // Forward -----------------------------------------------------------------------------------------------------------

  // Computes a_k in `a`, and v_k in the place of x_k.
  void drive(T* rows, int64_t first, int64_t count, const LayerOutputs<T>& out, T* a, Work& work) const {
    T *raw = work.raw.data(), *input = work.input.data(), *factor = work.factor.data();
    compute_raw(rows, count, raw);
    input_.apply(rows, count, input, work.map.data());
    if (out.raw != nullptr) store_tile(raw, count, states_, out.raw + first * states_);
    if (out.input != nullptr) store_tile(input, count, rows_, out.input + first * rows_);
    transition_.apply(Circumstances<T>(in_, first, count), raw, factor, input);
    store_tile(factor, count, rows_, a + first * rows_);
    store_tile(input, count, rows_, out.x + first * rows_);
  }

  // x_k = a_k x_{k-1} + x_k along sequence n.
  void run(int64_t n, const T* a, T* x) const {
    const Walk walk = Walk::along(shape_.length, shape_.reverse);
    const int64_t at = n * shape_.length * rows_;
    const T* initial = in_.initial + n * rows_;
    if (shape_.oscillate) {
      scan_halves(walk, states_, a + at, x + at, initial, x + at);
    } else {
      scan_real(walk, rows_, a + at, x + at, initial, x + at);
    }
  }

  // y = C_k x_k + D_k u_k. Loads the states into `rows`.
  void read(T* rows, int64_t first, int64_t count, const T* x, T* y, Work& work) const {
    load_states(x, first, count, rows);
    output_.apply(rows, count, y, work.map.data());
    if (shape_.direct == Direct::kFull) return direct_.add(rows, count, y);
    diagonal(rows, count, work.direct.data());
    for (int64_t n = 0; n < width_ * kTile; n += kLanes<T>)
      store(y + n, load(y + n) + load(work.direct.data() + n) * load(rows + n));
  }

  void load_states(const T* x, int64_t first, int64_t count, T* rows) const {
    load_tile(x + first * rows_, count, rows_, rows + layout_.state_row() * kTile);
  }

  // Gradient ----------------------------------------------------------------------------------------------------------

  int64_t read_sums() const { return output_.sums_size() + direct_.sums_size(); }
  int64_t drive_sums() const { return raw_sums() + input_.sums_size() + transition_.sums_size(); }

  // From the gradient of y, adds the gradient of u through C_k and D_k to the rows `back`, and computes the gradient of
  // x_k in `adjoint`. Also recomputes a_k. The gradient comes in two layouts: `arriving` is output-major, `by_event` is
  // event-major with `padded()` numbers per event. `rows` hold the states.
  void read_back(T* rows, int64_t first, int64_t count, const LayerSaved<T>& saved, const T* arriving,
                 const T* by_event, T* back, T* a, T* adjoint, T* sums, Work& work) const {
    T* of_state = back + layout_.state_row() * kTile;
    std::memset(of_state, 0, size_t(rows_ * kTile) * sizeof(T));
    output_.back(rows, arriving, by_event, count, back, sums, work.map.data());
    direct_back(rows, count, arriving, by_event, back, sums + output_.sums_size(), work);
    store_tile(of_state, count, rows_, adjoint + first * rows_);
    load_raw(saved, first, count, work.raw.data());
    transition_.recompute_factor(Circumstances<T>(in_, first, count), work.raw.data(), work.factor.data());
    store_tile(work.factor.data(), count, rows_, a + first * rows_);
  }

  // λ_k = λ_k + ā_{k+1} λ_{k+1} along sequence n, starting from the gradient of the final state.
  void run_back(int64_t n, const T* a, const LayerSaved<T>& saved, T* adjoint, T* initial_gradient) const {
    const Walk walk = Walk::along(shape_.length, !shape_.reverse),
               rest{walk.first + walk.step, walk.step, walk.count - 1};
    const int64_t end = walk.first + walk.step * rest.count;
    const T *a_n = a + n * shape_.length * rows_, *passed_on = a_n - walk.step * rows_;
    T *adjoint_n = adjoint + n * shape_.length * rows_, *last = adjoint_n + walk.first * rows_;
    for (int64_t p = 0; p < rows_; ++p) last[p] += saved.final_gradient[n * rows_ + p];
    scan_back(rest, passed_on, adjoint_n, last, adjoint_n);
    // The gradient of the initial state is ā λ of the first event.
    T* initial = initial_gradient + n * rows_;
    std::memset(initial, 0, size_t(rows_) * sizeof(T));
    scan_back({0, 0, 1}, a_n + end * rows_, initial, adjoint_n + end * rows_, initial);
  }

  // Adds the gradient of u through a_k and v_k to the rows `back`, given the adjoint λ.
  void drive_back(T* rows, int64_t first, int64_t count, const LayerSaved<T>& saved, const T* adjoint, T* back,
                  T* dt_gradient, T* sums, Work& work) const {
    T *raw = work.raw.data(), *input = work.input.data(), *before = work.factor.data();
    alignas(64) T gap[kTile];
    load_raw(saved, first, count, raw);
    load_tile(saved.input + first * rows_, count, rows_, input);
    load_tile(adjoint + first * rows_, count, rows_, work.lambda.data());
    copy_states_before(saved, first, count, work.earlier.data());
    load_tile(work.earlier.data(), count, rows_, before);
    transition_.back(Circumstances<T>(in_, first, count), work.lambda.data(), before, raw, input, gap,
                     sums + raw_sums() + input_.sums_size());
    if (dt_gradient != nullptr) std::memcpy(dt_gradient + first, gap, size_t(count) * sizeof(T));
    raw_back(rows, count, raw, back, sums, work);
    pad_tile(input, rows_, input_.padded(), work.padded.data());
    input_.back(rows, input, work.padded.data(), count, back, sums + raw_sums(), work.map.data());
  }

  void unpack(const T* of_read, const T* of_drive, const LayerGradients<T>& out, Pool pool) const {
    output_.unpack_output(of_read, out, pool);
    unpack_direct(of_read + output_.sums_size(), out, pool);
    if (selective()) {
      s7::S7_ISA::unpack<T, 2>(of_drive, raw_.padded(), 0, states_, {{out.W_w, width_}, {out.w, 1}}, pool);
    } else {
      std::memcpy(out.w, of_drive, size_t(states_) * sizeof(T));
    }
    input_.unpack_input(of_drive + raw_sums(), out, pool);
    transition_.unpack(of_drive + raw_sums() + input_.sums_size(), out);
  }

 private:
  // Whether w_k depends on the input.
  bool selective() const { return in_.W_w != nullptr; }
  int64_t raw_sums() const {
    return selective() ? raw_.sums_size() : (states_ + kLanes<T> - 1) / kLanes<T> * kLanes<T>;
  }

  static Layouts for_output(Layouts layouts, bool reads_twice) {
    return layouts == Layouts::kBack && reads_twice ? Layouts::kBoth : layouts;
  }

  Form<T> linear(int64_t outputs, const T* W, const T* constant, Layouts layouts) const {
    const Columns<T, 2> weights{{{W, width_}, {constant, 1}}};
    return Form<T>(Products::linear(layout_, 0, width_ + 1), outputs, weights, layouts);
  }

  Form<T> direct(Layouts layouts, bool reads_twice) const {
    if (shape_.direct == Direct::kFull)
      return symmetric_form<T>(layout_, width_, in_.W_D, true, in_.D, nullptr, for_output(layouts, reads_twice));
    // The gradient recomputes the diagonal of D_k.
    return linear(width_, in_.W_D, in_.D, for_output(layouts, true));
  }

  void compute_raw(const T* rows, int64_t count, T* raw) const {
    if (selective()) return raw_.apply(rows, count, raw);
    for (int64_t p = 0; p < states_; ++p)
      for (int64_t k = 0; k < kTile; k += kLanes<T>) store(raw + p * kTile + k, all(in_.w[p]));
  }

  void load_raw(const LayerSaved<T>& saved, int64_t first, int64_t count, T* raw) const {
    if (!selective()) return compute_raw(nullptr, count, raw);
    load_tile(saved.raw + first * states_, count, states_, raw);
  }

  void raw_back(const T* rows, int64_t count, const T* gradient, T* back, T* sums, Work& work) const {
    if (!selective()) {
      for (int64_t p = 0; p < states_; ++p)
        for (int64_t k = 0; k < count; ++k) sums[p] += gradient[p * kTile + k];
      return;
    }
    raw_.back(rows, gradient, count, back);
    pad_tile(gradient, states_, raw_.padded(), work.padded.data());
    raw_.gather_weights(rows, work.padded.data(), count, sums);
  }

  // x_k = ā_k x_{k-1} + v_k.
  void scan_back(Walk walk, const T* a, const T* v, const T* initial, T* x) const {
    if (shape_.oscillate) return scan_halves<T, -1>(walk, states_, a, v, initial, x);
    scan_real(walk, rows_, a, v, initial, x);
  }

  // The diagonal of D_k.
  void diagonal(const T* rows, int64_t count, T* direct) const {
    if (shape_.direct == Direct::kDiagonal) return direct_.apply(rows, count, direct);
    for (int64_t h = 0; h < width_; ++h)
      for (int64_t k = 0; k < kTile; k += kLanes<T>) store(direct + h * kTile + k, all(in_.D[h]));
  }

  void direct_back(const T* rows, int64_t count, const T* arriving, const T* by_event, T* back, T* sums,
                   Work& work) const {
    if (shape_.direct == Direct::kFull) {
      direct_.back(rows, arriving, count, back);
      return direct_.gather_weights(rows, by_event, count, sums);
    }
    T *direct = work.direct.data(), *weighted = work.weighted.data();
    diagonal(rows, count, direct);
    for (int64_t n = 0; n < width_ * kTile; n += kLanes<T>) {
      const V gradient = load(arriving + n);
      store(weighted + n, gradient * load(rows + n));
      store(back + n, load(back + n) + gradient * load(direct + n));
    }
    if (shape_.direct == Direct::kDiagonal) direct_.back(rows, weighted, count, back);
    pad_tile(weighted, width_, direct_.padded(), work.padded.data());
    gather_direct(rows, work.padded.data(), count, sums);
  }

  void gather_direct(const T* rows, const T* padded, int64_t count, T* sums) const {
    if (shape_.direct == Direct::kDiagonal) return direct_.gather_weights(rows, padded, count, sums);
    T* constant = sums + width_ * direct_.padded();  // for a static D only the constant has a gradient
    for (int64_t k = 0; k < count; ++k)
      for (int64_t h = 0; h < direct_.padded(); ++h) constant[h] += padded[k * direct_.padded() + h];
  }

  void unpack_direct(const T* sums, const LayerGradients<T>& out, Pool pool) const {
    if (shape_.direct == Direct::kFull) {
      unpack_symmetric<T>(direct_, sums, width_, out.W_D, out.D, nullptr, pool);
    } else {
      s7::S7_ISA::unpack<T, 2>(sums, direct_.padded(), 0, width_, {{out.W_D, width_}, {out.D, 1}}, pool);
    }
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
  const Form<T> raw_;
  const Map input_, output_;
  const Form<T> direct_;
};

}  // namespace s7::S7_ISA
