// The fused S7 layer and its gradient.
//
//     w_k = w + W_w u_k              a_k, g_k from w_k and dt_k
//     x_k = a_k x_{k-1} + g_k (B_k u_k + b)          y_k = C_k x_k + D_k u_k
//
// Everything that depends on a single event is computed tile by tile, in parallel over all events of the batch. The
// recurrence runs between two such passes, in parallel over sequences. The gradient has the same structure in reverse.
#pragma once

#include "discretization.h"
#include "gate.h"
#include "maps.h"
#include "norm.h"
#include "scan.h"

namespace s7::S7_ISA {

// Time gaps and flags of the events of a tile, as numbers.
template <class T>
struct Circumstances {
  alignas(64) T dt[kTile];
  alignas(64) T absent[kTile];
  alignas(64) T reset[kTile];

  Circumstances(const LayerInputs<T>& in, int64_t first, int64_t events) {
    for (int64_t k = 0; k < kTile; ++k) {
      const int mark = in.marks != nullptr && k < events ? int(in.marks[first + k]) : 0;
      dt[k] = in.dt == nullptr ? T(1) : k < events ? in.dt[first + k] : T(0);
      absent[k] = T((mark & kAbsent) != 0);
      reset[k] = T((mark & kReset) != 0);
    }
  }
};

// `Map` is FullMap or FactoredMap.
template <class T, class Map>
class Layer {
 public:
  using V = Vector<T>;

  Layer(const LayerShape& shape, const LayerInputs<T>& in, Layouts layouts)
      : shape_(shape),
        in_(in),
        width_(shape.width),
        states_(shape.state),
        rows_(shape.rows()),
        layout_{width_, rows_, shape.rank},
        discretization_(shape, in.dt != nullptr),
        raw_(linear(states_, in.W_w, in.w, layouts)),
        input_(Map::input(layout_, rows_, in, layouts)),
        output_(Map::output(layout_, in, for_output(layouts))),
        direct_(direct(layouts)),
        norm_(shape, in.scale, in.shift),
        gate_({shape.batch, shape.length, shape.width, shape.threshold}, in.gate_W, in.gate_c, in.keys,
              for_output(layouts)) {}

  void forward(const LayerOutputs<T>& out, Pool pool) const {
    const int64_t events = shape_.events();
    const Chunks chunks = Chunks::small(events);
    Buffer<T> a(events * rows_);
    parallel(pool, chunks.count, [&](int64_t chunk) {
      Buffer<T> rows(layout_.size()), raw(states_ * kTile), input(rows_ * kTile), factor(rows_ * kTile);
      Buffer<T> work(input_.work_size());
      rows.clear();
      chunks.for_tiles(chunk, [&](int64_t first, int64_t count) {
        load_normalised(first, count, rows.data());
        raw_.apply(rows.data(), count, raw.data());
        input_.apply(rows.data(), count, input.data(), work.data());
        if (out.raw != nullptr) {
          store_tile(raw.data(), count, states_, out.raw + first * states_);
          store_tile(input.data(), count, rows_, out.input + first * rows_);
        }
        const Circumstances<T> events_here(in_, first, count);
        discretize(events_here, raw.data(), factor.data(), input.data());
        store_tile(factor.data(), count, rows_, a.data() + first * rows_);
        store_tile(input.data(), count, rows_, out.x + first * rows_);
      });
    });
    run(a.data(), in_.initial, out.x, shape_.reverse, pool);
    parallel(pool, chunks.count, [&](int64_t chunk) {
      Buffer<T> rows(layout_.size()), y(width_ * kTile), direct(width_ * kTile), work(output_.work_size());
      typename Gate<T>::Work gate_work(gate_);
      rows.clear();
      chunks.for_tiles(chunk, [&](int64_t first, int64_t count) {
        load_normalised(first, count, rows.data());
        load_tile(out.x + first * rows_, count, rows_, rows.data() + layout_.state_row() * kTile);
        output_.apply(rows.data(), count, y.data(), work.data());
        pass_through(rows.data(), count, direct.data(), y.data());
        if (ends_in_gate()) gate_.apply(first, count, y.data(), gate_work);
        if (shape_.skip) add_tile(in_.u + first * width_, count, width_, direct.data(), y.data());
        store_tile(y.data(), count, width_, out.y + first * width_);
      });
    });
  }

  void gradient(const LayerSaved<T>& saved, const LayerGradients<T>& out, Pool pool) const {
    const int64_t events = shape_.events();
    const Chunks chunks = Chunks::of(events);
    Buffer<T> a(events * rows_), adjoint(events * rows_);
    Sums<T> output_sums(chunks, output_.sums_size()), direct_sums(chunks, direct_.sums_size());
    Sums<T> gate_sums(chunks, gate_.sums_size()), norm_sums(chunks, norm_.sums_size());
    parallel(pool, chunks.count, [&](int64_t chunk) {
      output_sums.clear(chunk);
      direct_sums.clear(chunk);
      gate_sums.clear(chunk);
      before_the_scan(chunks, chunk, saved, out.u, a.data(), adjoint.data(), output_sums.of(chunk),
                      direct_sums.of(chunk), gate_sums.of(chunk));
    });
    run_back(a.data(), saved.final_gradient, adjoint.data(), out.initial, pool);
    Sums<T> raw_sums(chunks, raw_.sums_size()), input_sums(chunks, input_.sums_size()), omega_sums(chunks, states_);
    parallel(pool, chunks.count, [&](int64_t chunk) {
      raw_sums.clear(chunk);
      input_sums.clear(chunk);
      omega_sums.clear(chunk);
      norm_sums.clear(chunk);
      after_the_scan(chunks, chunk, saved, adjoint.data(), out.u, out.dt, raw_sums.of(chunk), input_sums.of(chunk),
                     omega_sums.of(chunk), norm_sums.of(chunk));
    });
    unpack<T, 2>(raw_sums.total(pool), raw_.padded(), 0, states_, {{out.W_w, width_}, {out.w, 1}}, pool);
    input_.unpack_input(input_sums.total(pool), out, pool);
    output_.unpack_output(output_sums.total(pool), out, pool);
    unpack_direct(direct_sums.total(pool), out, pool);
    gate_.unpack_weights(gate_sums.total(pool), out.gate_W, out.gate_c, pool);
    const T* of_norm = norm_sums.total(pool);
    if (out.scale != nullptr) std::memcpy(out.scale, of_norm, size_t(width_) * sizeof(T));
    if (out.shift != nullptr) std::memcpy(out.shift, of_norm + width_, size_t(width_) * sizeof(T));
    if (out.omega != nullptr) std::memcpy(out.omega, omega_sums.total(pool), size_t(states_) * sizeof(T));
  }

 private:
  bool ends_in_gate() const { return in_.gate_W != nullptr || shape_.threshold > 0; }

  // The gradient of the gate recomputes the layer's output.
  Layouts for_output(Layouts layouts) const {
    return layouts == Layouts::kBack && ends_in_gate() ? Layouts::kBoth : layouts;
  }

  // Loads the rows of a tile that the layer reads: normalised u, and the row of ones.
  void load_normalised(int64_t first, int64_t count, T* rows) const {
    load_input(in_.u + first * width_, count, width_, rows);
    norm_.apply(rows);
  }

  Form<T> linear(int64_t outputs, const T* W, const T* constant, Layouts layouts) const {
    const Columns<T, 2> weights{{{W, width_}, {constant, 1}}};
    return Form<T>(Products::linear(layout_, 0, width_ + 1), outputs, weights, layouts);
  }

  Form<T> direct(Layouts layouts) const {
    if (shape_.direct == Direct::kFull)
      return symmetric_form<T>(layout_, width_, in_.W_D, true, in_.D, nullptr, for_output(layouts));
    // The gradient recomputes the diagonal of D_k.
    return linear(width_, in_.W_D, in_.D, layouts == Layouts::kBack ? Layouts::kBoth : layouts);
  }

  // Computes a_k in `factor` from the raw parameters, and replaces `input` by v_k.
  void discretize(const Circumstances<T>& here, const T* raw, T* factor, T* input) const {
    for (int64_t p = 0; p < states_; ++p) {
      for (int64_t k = 0; k < kTile; k += kLanes<T>) {
        const V dt = load(here.dt + k);
        const auto point = discretization_.at(load(raw + p * kTile + k), dt);
        set_factor(here, p, k, dt, point.modulus, factor);
        T* v = input + p * kTile + k;
        store(v, load(v) * point.gain);
        if (shape_.oscillate) store(v + states_ * kTile, load(v + states_ * kTile) * point.gain);
      }
    }
    if (in_.marks == nullptr) return;
    for (int64_t p = 0; p < rows_; ++p)
      for (int64_t k = 0; k < kTile; k += kLanes<T>) {
        T* v = input + p * kTile + k;
        store(v, select<T>(load(here.absent + k) != V{}, V{}, load(v)));
      }
  }

  void set_factor(const Circumstances<T>& here, int64_t p, int64_t k, V dt, V modulus, T* factor) const {
    V real = modulus, imaginary = V{};
    if (shape_.oscillate) {
      const Turn<T> turned = turn(in_.omega[p] * dt);
      real = modulus * turned.cosine;
      imaginary = modulus * turned.sine;
    }
    if (in_.marks != nullptr) {
      const Integers<T> absent = load(here.absent + k) != V{}, reset = load(here.reset + k) != V{};
      real = select<T>(reset, V{}, select<T>(absent, all(T(1)), real));
      imaginary = select<T>(reset | absent, V{}, imaginary);
    }
    store(factor + p * kTile + k, real);
    if (shape_.oscillate) store(factor + (states_ + p) * kTile + k, imaginary);
  }

  // x_k = a_k x_{k-1} + x_k along every sequence.
  void run(const T* a, const T* initial, T* x, bool reverse, Pool pool) const {
    const Walk walk = Walk::along(shape_.length, reverse);
    parallel(pool, shape_.batch, [&](int64_t n) {
      const int64_t at = n * shape_.length * rows_;
      if (shape_.oscillate) {
        scan_halves(walk, states_, a + at, x + at, initial + n * rows_, x + at);
      } else {
        scan_real(walk, rows_, a + at, x + at, initial + n * rows_, x + at);
      }
    });
  }

  // λ_k = λ_k + ā_{k+1} λ_{k+1} along every sequence, starting from the gradient of the final state.
  void run_back(const T* a, const T* final_gradient, T* adjoint, T* initial_gradient, Pool pool) const {
    const Walk walk = Walk::along(shape_.length, !shape_.reverse),
               rest{walk.first + walk.step, walk.step, walk.count - 1};
    const int64_t end = walk.first + walk.step * rest.count;
    parallel(pool, shape_.batch, [&](int64_t n) {
      const T *a_n = a + n * shape_.length * rows_, *passed_on = a_n - walk.step * rows_;
      T *adjoint_n = adjoint + n * shape_.length * rows_, *last = adjoint_n + walk.first * rows_;
      for (int64_t p = 0; p < rows_; ++p) last[p] += final_gradient[n * rows_ + p];
      if (shape_.oscillate) {
        scan_halves<T, -1>(rest, states_, passed_on, adjoint_n, last, adjoint_n);
      } else {
        scan_real(rest, rows_, passed_on, adjoint_n, last, adjoint_n);
      }
      // The gradient of the initial state is ā λ of the first event.
      T* initial = initial_gradient + n * rows_;
      std::memset(initial, 0, size_t(rows_) * sizeof(T));
      const T *first = adjoint_n + end * rows_, *factor = a_n + end * rows_;
      if (shape_.oscillate) {
        scan_halves<T, -1>({0, 0, 1}, states_, factor, initial, first, initial);
      } else {
        scan_real({0, 0, 1}, rows_, factor, initial, first, initial);
      }
    });
  }

  // y += D_k u_k.
  void pass_through(const T* rows, int64_t count, T* direct, T* y) const {
    if (shape_.direct == Direct::kFull) return direct_.add(rows, count, y);
    diagonal(rows, count, direct);
    for (int64_t n = 0; n < width_ * kTile; n += kLanes<T>)
      store(y + n, load(y + n) + load(direct + n) * load(rows + n));
  }

  // The diagonal of D_k.
  void diagonal(const T* rows, int64_t count, T* direct) const {
    if (shape_.direct == Direct::kDiagonal) return direct_.apply(rows, count, direct);
    for (int64_t h = 0; h < width_; ++h)
      for (int64_t k = 0; k < kTile; k += kLanes<T>) store(direct + h * kTile + k, all(in_.D[h]));
  }

  // Computes, from the gradient of y, the gradient of x at each event and the gradient of u through C_k and D_k. The
  // latter stays in tile layout until `after_the_scan` adds to it. Also recomputes a_k.
  void before_the_scan(const Chunks& chunks, int64_t chunk, const LayerSaved<T>& saved, T* u_gradient, T* a, T* adjoint,
                       T* output_sums, T* direct_sums, T* gate_sums) const {
    const int64_t at_state = layout_.state_row() * kTile;
    Buffer<T> rows(layout_.size()), back(layout_.size()), arriving(width_ * kTile), padded(output_.padded() * kTile);
    Buffer<T> direct(width_ * kTile), weighted(width_ * kTile), raw(states_ * kTile), factor(rows_ * kTile);
    Buffer<T> work(output_.work_size()), y(ends_in_gate() ? width_ * kTile : 0);
    typename Gate<T>::Work gate_work(gate_);
    rows.clear();
    chunks.for_tiles(chunk, [&](int64_t first, int64_t count) {
      load_normalised(first, count, rows.data());
      load_tile(saved.x + first * rows_, count, rows_, rows.data() + at_state);
      load_tile(saved.y_gradient + first * width_, count, width_, arriving.data());
      const T* by_event = padded.data();
      if (ends_in_gate()) {
        output_.apply(rows.data(), count, y.data(), work.data());
        pass_through(rows.data(), count, direct.data(), y.data());
        gate_.back(first, count, y.data(), arriving.data(), gate_sums, gate_work);
        pad_tile(arriving.data(), width_, output_.padded(), padded.data());
      } else {
        by_event = in_padded(saved.y_gradient + first * width_, count, width_, output_.padded(), padded.data());
      }
      back.clear();
      output_.back(rows.data(), arriving.data(), by_event, count, back.data(), output_sums, work.data());
      if (shape_.direct == Direct::kFull) {
        direct_.back(rows.data(), arriving.data(), count, back.data());
        direct_.gather_weights(rows.data(), by_event, count, direct_sums);
      } else {
        diagonal(rows.data(), count, direct.data());
        for (int64_t n = 0; n < width_ * kTile; n += kLanes<T>) {
          const V gradient = load(arriving.data() + n);
          store(weighted.data() + n, gradient * load(rows.data() + n));
          store(back.data() + n, load(back.data() + n) + gradient * load(direct.data() + n));
        }
        if (shape_.direct == Direct::kDiagonal) direct_.back(rows.data(), weighted.data(), count, back.data());
        pad_tile(weighted.data(), width_, direct_.padded(), padded.data());
        gather_direct(rows.data(), padded.data(), count, direct_sums);
      }
      keep_tile(back.data(), count, width_, u_gradient + first * width_);
      store_tile(back.data() + at_state, count, rows_, adjoint + first * rows_);
      load_tile(saved.raw + first * states_, count, states_, raw.data());
      recompute_factor(Circumstances<T>(in_, first, count), raw.data(), factor.data());
      store_tile(factor.data(), count, rows_, a + first * rows_);
    });
  }

  void gather_direct(const T* rows, const T* padded, int64_t count, T* sums) const {
    if (shape_.direct == Direct::kDiagonal) return direct_.gather_weights(rows, padded, count, sums);
    T* constant = sums + width_ * direct_.padded();  // for a static D only the constant has a gradient
    for (int64_t k = 0; k < count; ++k)
      for (int64_t h = 0; h < direct_.padded(); ++h) constant[h] += padded[k * direct_.padded() + h];
  }

  void recompute_factor(const Circumstances<T>& here, const T* raw, T* factor) const {
    for (int64_t p = 0; p < states_; ++p)
      for (int64_t k = 0; k < kTile; k += kLanes<T>) {
        const V dt = load(here.dt + k);
        set_factor(here, p, k, dt, discretization_.at(load(raw + p * kTile + k), dt).modulus, factor);
      }
  }

  // Computes the gradients of u, dt and the weights through a_k and v_k from the adjoint λ.
  void after_the_scan(const Chunks& chunks, int64_t chunk, const LayerSaved<T>& saved, const T* adjoint, T* u_gradient,
                      T* dt_gradient, T* raw_sums, T* input_sums, T* omega_sums, T* norm_sums) const {
    Buffer<T> rows(layout_.size()), back(layout_.size()), raw(states_ * kTile), input(rows_ * kTile);
    Buffer<T> lambda(rows_ * kTile), before(rows_ * kTile), earlier(rows_ * kTile), work(input_.work_size());
    Buffer<T> padded((raw_.padded() > input_.padded() ? raw_.padded() : input_.padded()) * kTile);
    Buffer<T> plain(norm_.active() || shape_.skip ? width_ * kTile : 0);
    rows.clear();
    back.clear();  // once is enough: take_tile overwrites the rows of u, and the other rows are not read here
    alignas(64) T gap[kTile];
    chunks.for_tiles(chunk, [&](int64_t first, int64_t count) {
      load_normalised(first, count, rows.data());
      take_tile(u_gradient + first * width_, count, width_, back.data());
      load_tile(saved.raw + first * states_, count, states_, raw.data());
      load_tile(saved.input + first * rows_, count, rows_, input.data());
      load_tile(adjoint + first * rows_, count, rows_, lambda.data());
      copy_states_before(saved, first, count, earlier.data());
      load_tile(earlier.data(), count, rows_, before.data());
      discretize_back(Circumstances<T>(in_, first, count), lambda.data(), before.data(), raw.data(), input.data(), gap,
                      omega_sums);
      if (dt_gradient != nullptr) std::memcpy(dt_gradient + first, gap, size_t(count) * sizeof(T));
      raw_.back(rows.data(), raw.data(), count, back.data());
      pad_tile(raw.data(), states_, raw_.padded(), padded.data());
      raw_.gather_weights(rows.data(), padded.data(), count, raw_sums);
      pad_tile(input.data(), rows_, input_.padded(), padded.data());
      input_.back(rows.data(), input.data(), padded.data(), count, back.data(), input_sums, work.data());
      if (norm_.active()) {
        load_tile(in_.u + first * width_, count, width_, plain.data());
        norm_.back(plain.data(), count, back.data(), norm_sums);
      }
      if (shape_.skip) add_tile(saved.y_gradient + first * width_, count, width_, plain.data(), back.data());
      store_tile(back.data(), count, width_, u_gradient + first * width_);
    });
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

  // Replaces `raw` by the gradient of w_k and `input` by the gradient of B_k u_k + b. Writes the gradient of dt to
  // `gap`.
  void discretize_back(const Circumstances<T>& here, const T* lambda, const T* before, T* raw, T* input, T* gap,
                       T* omega_sums) const {
    std::memset(gap, 0, kTile * sizeof(T));
    const int64_t half = states_ * kTile;
    for (int64_t p = 0; p < states_; ++p) {
      V omega_gradient = {};
      for (int64_t k = 0; k < kTile; k += kLanes<T>) {
        const int64_t at = p * kTile + k;
        const V dt = load(here.dt + k), w = load(raw + at), adjoint = load(lambda + at), drive = load(input + at);
        const auto point = discretization_.at(w, dt);
        V factor = adjoint * load(before + at), gain = adjoint * drive;  // gradients of a_k and g_k
        V modulus = factor, angle = V{}, adjoint_imaginary = V{};
        if (shape_.oscillate) {
          adjoint_imaginary = load(lambda + half + at);
          gain += adjoint_imaginary * load(input + half + at);
          const V x = load(before + at), y = load(before + half + at);
          const V real = adjoint * x + adjoint_imaginary * y, imaginary = adjoint_imaginary * x - adjoint * y;
          const Turn<T> turned = turn(in_.omega[p] * dt);
          modulus = real * turned.cosine + imaginary * turned.sine;
          angle = (imaginary * turned.cosine - real * turned.sine) * point.modulus;
        }
        V drive_gradient = adjoint * point.gain, drive_imaginary = adjoint_imaginary * point.gain;
        if (in_.marks != nullptr) {
          const Integers<T> absent = load(here.absent + k) != V{}, fixed = absent | (load(here.reset + k) != V{});
          modulus = select<T>(fixed, V{}, modulus);
          angle = select<T>(fixed, V{}, angle);
          gain = select<T>(absent, V{}, gain);
          drive_gradient = select<T>(absent, V{}, drive_gradient);
          drive_imaginary = select<T>(absent, V{}, drive_imaginary);
        }
        const V rate = modulus * point.slope + gain * point.gain_slope;
        store(raw + at, discretization_.raw_gradient(point, w, rate));
        store(input + at, drive_gradient);
        if (shape_.oscillate) store(input + half + at, drive_imaginary);
        store(gap + k,
              load(gap + k) - modulus * point.rate * point.modulus + angle * (shape_.oscillate ? in_.omega[p] : T(0)));
        omega_gradient += angle * dt;
      }
      for (int lane = 0; lane < kLanes<T>; ++lane) omega_sums[p] += omega_gradient[lane];
    }
  }

  void unpack_direct(const T* sums, const LayerGradients<T>& out, Pool pool) const {
    if (shape_.direct == Direct::kFull) {
      unpack_symmetric<T>(direct_, sums, width_, out.W_D, out.D, nullptr, pool);
    } else {
      unpack<T, 2>(sums, direct_.padded(), 0, width_, {{out.W_D, width_}, {out.D, 1}}, pool);
    }
  }

  const LayerShape& shape_;
  const LayerInputs<T>& in_;
  const int64_t width_, states_, rows_;
  const Layout layout_;
  const Discretization<T> discretization_;
  const Form<T> raw_;
  const Map input_, output_;
  const Form<T> direct_;
  const Norm<T> norm_;
  const Gate<T> gate_;
};

template <class T>
void layer(const LayerShape& shape, const LayerInputs<T>& in, const LayerOutputs<T>& out, Pool pool) {
  if (shape.rank > 0) return Layer<T, FactoredMap<T>>(shape, in, Layouts::kApply).forward(out, pool);
  Layer<T, FullMap<T>>(shape, in, Layouts::kApply).forward(out, pool);
}

template <class T>
void layer_gradient(const LayerShape& shape, const LayerInputs<T>& in, const LayerSaved<T>& saved,
                    const LayerGradients<T>& out, Pool pool) {
  if (shape.rank > 0) return Layer<T, FactoredMap<T>>(shape, in, Layouts::kBack).gradient(saved, out, pool);
  Layer<T, FullMap<T>>(shape, in, Layouts::kBack).gradient(saved, out, pool);
}

}  // namespace s7::S7_ISA
