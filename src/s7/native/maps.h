// The maps from the input to the state and from the state to the output, each in static, factored or full form.
//
// The weights that are given select the form: W_B or V1 for B_k, W_C or U1 for C_k, and neither for a static matrix.
// Linear maps of the same rows are computed as one map. All quantities of a tile are output-major, with the events in
// the lanes, except where they are said to be event-major.
#pragma once

#include <optional>

#include "forms.h"

namespace s7::S7_ISA {

template <class T>
inline void multiply_factors(const T* first, const T* second, int64_t rank, T* product) {
  for (int64_t n = 0; n < rank * kTile; n += kLanes<T>) store(product + n, load(first + n) * load(second + n));
}

// Replaces both factors by their gradients.
template <class T>
inline void multiply_factors_back(const T* product_gradient, int64_t rank, T* first, T* second) {
  for (int64_t n = 0; n < rank * kTile; n += kLanes<T>) {
    const Vector<T> gradient = load(product_gradient + n), factor = load(first + n);
    store(first + n, gradient * load(second + n));
    store(second + n, gradient * factor);
  }
}

template <class T>
inline void fill_rows(const T* values, int64_t count, T* rows) {
  for (int64_t n = 0; n < count; ++n)
    for (int64_t k = 0; k < kTile; k += kLanes<T>) store(rows + n * kTile + k, all(values[n]));
}

// sums[n] += Σ_events rows[n].
template <class T>
inline void add_row_sums(const T* rows, int64_t count, int64_t events, T* sums) {
  for (int64_t n = 0; n < count; ++n, rows += kTile) {
    Vector<T> sum = {};
    int64_t k = 0;
    for (; k + kLanes<T> <= events; k += kLanes<T>) sum += load(rows + k);
    T rest = total<T>(sum);
    for (; k < events; ++k) rest += rows[k];
    sums[n] += rest;
  }
}

template <class T>
int64_t sums_size(const std::optional<Form<T>>& form) {
  return form ? form->sums_size() : 0;
}

// The raw rates w_k = w + W_w u_k, and the drive B_k u_k + b:
//
//     static      B u + b
//     factored    V3 ((V1 u) * (V2 u)) + B u + b
//     full        a form in the products u_i u_j, u_j and 1
template <class T>
class InputMap {
 public:
  // The quantities of a tile: the factors V1 u and V2 u, the raw rates if they depend on u, the drive, and the raw
  // rates if they are constant. The gradient of each takes its place.
  struct Work {
    Work(const InputMap& map, Lookahead& ahead)
        : quantities((2 * map.rank_ + map.states_ + map.layout_.state) * kTile),
          by_event(map.most_padded() * kTile),
          product_gradient(map.rank_ * kTile),
          raw(quantities.data() + (2 * map.rank_ + (map.selective_ ? 0 : map.layout_.state)) * kTile),
          drive(quantities.data() + (2 * map.rank_ + (map.selective_ ? map.states_ : 0)) * kTile),
          ahead(&ahead) {}

    Buffer<T> quantities, by_event, product_gradient;
    T *raw, *drive;
    Lookahead* ahead;
  };

  InputMap(const Layout& layout, int64_t states, const LayerInputs<T>& in, Layouts layouts)
      : layout_(layout),
        states_(states),
        rank_(in.V1 != nullptr ? layout.rank : 0),
        selective_(in.W_w != nullptr),
        w_(in.w),
        linear_(make_linear(in, layouts)),
        third_(rank_, false, layout.state, Columns<T, 1>{{{in.V3, rank_}}}, layouts) {
    if (in.W_B != nullptr) full_ = symmetric_form<T>(layout, layout.state, in.W_B, true, in.B, in.b, layouts);
  }

  int64_t sums_size() const {
    return linear_.sums_size() + third_.sums_size() + S7_ISA::sums_size(full_) + (selective_ ? 0 : states_);
  }

  // Computes the raw rates and the drive of a tile. Overwrites the rows of the products of factors.
  void apply(T* rows, int64_t events, Work& work) const {
    linear_.apply(rows, events, work.quantities.data(), *work.ahead);
    if (!selective_) constant_raw(work);
    if (full_) full_->apply(rows, events, work.drive);
    if (rank_ == 0) return;
    multiply(rows, work);
    third_.add(products(rows), events, work.drive, *work.ahead);
  }

  // Sets the raw rates, if they do not depend on u.
  void constant_raw(Work& work) const { fill_rows(w_, states_, work.raw); }

  // Adds the gradient of u to `gradient`, and the gradients of the weights to `sums`. Reads the gradients of the raw
  // rates and of the drive in `work`.
  void back(T* rows, int64_t events, T* gradient, T* sums, Work& work) const {
    T *quantities = work.quantities.data(), *by_event = work.by_event.data();
    if (rank_ > 0) {
      linear_.apply(rows, events, quantities, *work.ahead);
      multiply(rows, work);
      third_.back(work.drive, events, work.product_gradient.data(), *work.ahead);
      multiply_factors_back(work.product_gradient.data(), rank_, quantities, quantities + rank_ * kTile);
      pad_tile(work.drive, layout_.state, third_.padded(), by_event);
      third_.gather_weights(products(rows), by_event, events, sums);
      sums += third_.sums_size();
    }
    linear_.add_back(quantities, events, gradient, *work.ahead);
    pad_tile(quantities, linear_.outputs(), linear_.padded(), by_event);
    linear_.gather_weights(rows, by_event, events, sums);
    sums += linear_.sums_size();
    if (full_) {
      full_->back(rows, work.drive, events, gradient);
      pad_tile(work.drive, layout_.state, full_->padded(), by_event);
      full_->gather_weights(rows, by_event, events, sums);
      sums += full_->sums_size();
    }
    if (!selective_) add_row_sums(work.raw, states_, events, sums);
  }

  void unpack(const T* sums, const LayerGradients<T>& out, Pool pool) const {
    const int64_t H = layout_.width, S = layout_.state, R = rank_;
    if (R > 0) S7_ISA::unpack<T, 1>(sums, third_.padded(), 0, S, {{out.V3, R}}, pool);
    sums += third_.sums_size();
    unpack_stacked<T, 4>(sums, linear_.padded(), H,
                         {{out.V1, nullptr, R},
                          {out.V2, nullptr, R},
                          {out.W_w, out.w, selective_ ? states_ : 0},
                          {out.B, out.b, full_ ? 0 : S}},
                         pool);
    sums += linear_.sums_size();
    if (full_) unpack_symmetric<T>(*full_, sums, H, out.W_B, out.B, out.b, pool);
    sums += S7_ISA::sums_size(full_);
    if (!selective_) std::memcpy(out.w, sums, size_t(states_) * sizeof(T));
  }

 private:
  T* products(T* rows) const { return rows + layout_.factor_row() * kTile; }

  Linear<T> make_linear(const LayerInputs<T>& in, Layouts layouts) const {
    const Stacked<T, 4> maps{layout_.width,
                             {{in.V1, nullptr, rank_},
                              {in.V2, nullptr, rank_},
                              {in.W_w, in.w, selective_ ? states_ : 0},
                              {in.B, in.b, in.W_B == nullptr ? layout_.state : 0}}};
    if (layouts != Layouts::kBack) return Linear<T>(layout_.width, true, maps.outputs(), maps, layouts);
    // The gradient recomputes only the factors. The forward pass saves the raw rates and the drive.
    return Linear<T>(layout_.width, true, maps.outputs(), maps, Layouts::kBoth, 2 * rank_);
  }

  // Stores the products of the factors in their rows.
  void multiply(T* rows, const Work& work) const {
    const T* factors = work.quantities.data();
    multiply_factors(factors, factors + rank_ * kTile, rank_, products(rows));
  }

  int64_t most_padded() const {
    const int64_t most = linear_.padded() > third_.padded() ? linear_.padded() : third_.padded();
    return full_ && full_->padded() > most ? full_->padded() : most;
  }

  const Layout layout_;
  const int64_t states_, rank_;
  const bool selective_;
  const T* w_;
  Linear<T> linear_, third_;
  std::optional<Form<T>> full_;
};

// The output C_k x_k + D_k u_k, where C_k x_k is
//
//     static      C x
//     factored    U3 ((U1 x) * (U2 u)) + C x
//     full        a form in the products x_p u_j and x_p
//
// and D_k is a static diagonal, an input-dependent diagonal D + W_D u, or an input-dependent matrix.
template <class T>
class OutputMap {
 public:
  // The quantities of a tile: the factor U2 u, the diagonal of D_k if it depends on u, and the factor U1 x. The
  // gradient of each takes its place.
  struct Work {
    Work(const OutputMap& map, Lookahead& ahead)
        : quantities((2 * map.rank_ + map.layout_.width) * kTile),
          by_event((map.linear_.padded() > map.first_.padded() ? map.linear_ : map.first_).padded() * kTile),
          diagonal(quantities.data() + map.rank_ * kTile),
          first(diagonal + map.layout_.width * kTile),
          ahead(&ahead) {}

    Buffer<T> quantities, by_event;
    T *diagonal, *first;
    Lookahead* ahead;
  };

  // `finishes` says whether the gradient calls `finish`.
  OutputMap(const Layout& layout, Direct direct, const LayerInputs<T>& in, Layouts layouts, bool finishes)
      : layout_(layout),
        direct_(direct),
        rank_(in.U1 != nullptr ? layout.rank : 0),
        D_(in.D),
        linear_(make_linear(in, with_apply(layouts, true))),
        first_(layout.state, false, rank_, Columns<T, 1>{{{in.U1, layout.state}}}, with_apply(layouts, true)),
        sum_(make_sum(in, with_apply(layouts, finishes))) {
    const Layouts finishing = with_apply(layouts, finishes);
    if (in.W_C != nullptr) full_ = bilinear_form<T>(layout, layout.width, in.W_C, in.C, finishing);
    if (direct == Direct::kFull)
      full_D_ = symmetric_form<T>(layout, layout.width, in.W_D, true, in.D, nullptr, finishing);
  }

  int64_t sums_size() const {
    return linear_.sums_size() + first_.sums_size() + sum_.sums_size() + S7_ISA::sums_size(full_) +
           S7_ISA::sums_size(full_D_) + (direct_ == Direct::kStatic ? layout_.width : 0);
  }

  // The length of a row of the event-major gradient of y.
  int64_t padded() const { return full_ ? full_->padded() : sum_.padded(); }

  // Computes what `finish` and `back` read. Overwrites the rows of the products of factors.
  void prepare(T* rows, int64_t events, Work& work) const {
    linear_.apply(rows, events, work.quantities.data(), *work.ahead);
    if (rank_ == 0) return;
    first_.apply(states(rows), events, work.first, *work.ahead);
    multiply_factors(work.first, work.quantities.data(), rank_, summed(rows));
  }

  // Computes y.
  void finish(const T* rows, int64_t events, const Work& work, T* y) const {
    if (full_) {
      full_->apply(rows, events, y);
    } else {
      sum_.apply(summed(rows), events, y, *work.ahead);
    }
    if (full_D_) return full_D_->add(rows, events, y);
    for (int64_t h = 0; h < layout_.width; ++h)
      for (int64_t n = h * kTile; n < (h + 1) * kTile; n += kLanes<T>)
        store(y + n, load(y + n) + diagonal_at(work.diagonal, h, n) * load(rows + n));
  }

  // Adds the gradient of u to the rows of `gradient`, computes the gradient of x there, and adds the gradients of the
  // weights to `sums`. The gradient of y is `g`, and event-major `g_by_event`, with `padded()` numbers per event.
  void back(T* rows, const T* g, const T* g_by_event, int64_t events, T* gradient, T* sums, Work& work) const {
    if (full_) {
      std::memset(states(gradient), 0, size_t(layout_.state * kTile) * sizeof(T));
      full_->back(rows, g, events, gradient);
      full_->gather_weights(rows, g_by_event, events, sums);
      sums += full_->sums_size();
    } else {
      sum_.back(g, events, summed(gradient), *work.ahead);
      sum_.gather_weights(summed(rows), g_by_event, events, sums);
      sums += sum_.sums_size();
    }
    if (full_D_) {
      full_D_->back(rows, g, events, gradient);
      full_D_->gather_weights(rows, g_by_event, events, sums);
      sums += full_D_->sums_size();
    } else {
      diagonal_back(rows, g, gradient, work.diagonal);
    }
    T *quantities = work.quantities.data(), *by_event = work.by_event.data();
    if (rank_ > 0) {
      multiply_factors_back(summed(gradient), rank_, work.first, quantities);
      first_.add_back(work.first, events, states(gradient), *work.ahead);
      pad_tile(work.first, rank_, first_.padded(), by_event);
      first_.gather_weights(states(rows), by_event, events, sums);
      sums += first_.sums_size();
    }
    linear_.add_back(quantities, events, gradient, *work.ahead);
    pad_tile(quantities, linear_.outputs(), linear_.padded(), by_event);
    linear_.gather_weights(rows, by_event, events, sums);
    sums += linear_.sums_size();
    if (direct_ == Direct::kStatic) add_row_sums(work.diagonal, layout_.width, events, sums);
  }

  void unpack(const T* sums, const LayerGradients<T>& out, Pool pool) const {
    const int64_t H = layout_.width, S = layout_.state, R = rank_;
    if (full_) {
      S7_ISA::unpack<T, 2>(sums, full_->padded(), 0, H, {{out.W_C, S * H}, {out.C, S}}, pool);
      sums += full_->sums_size();
    } else {
      S7_ISA::unpack<T, 2>(sums, sum_.padded(), 0, H, {{out.U3, R}, {out.C, S}}, pool);
      sums += sum_.sums_size();
    }
    if (full_D_) {
      unpack_symmetric<T>(*full_D_, sums, H, out.W_D, out.D, nullptr, pool);
      sums += full_D_->sums_size();
    }
    if (R > 0) S7_ISA::unpack<T, 1>(sums, first_.padded(), 0, R, {{out.U1, S}}, pool);
    sums += first_.sums_size();
    unpack_stacked<T, 2>(sums, linear_.padded(), H, {{out.U2, nullptr, R}, {out.W_D, out.D, diagonals()}}, pool);
    sums += linear_.sums_size();
    if (direct_ == Direct::kStatic) std::memcpy(out.D, sums, size_t(H) * sizeof(T));
  }

 private:
  static Layouts with_apply(Layouts layouts, bool wanted) {
    return wanted && layouts == Layouts::kBack ? Layouts::kBoth : layouts;
  }

  int64_t diagonals() const { return direct_ == Direct::kDiagonal ? layout_.width : 0; }
  T* states(T* rows) const { return rows + layout_.state_row() * kTile; }

  // The rows that U3 and C multiply: the products of factors, which the states follow.
  template <class Rows>
  Rows* summed(Rows* rows) const {
    return rows + (layout_.state_row() - rank_) * kTile;
  }

  Linear<T> make_linear(const LayerInputs<T>& in, Layouts layouts) const {
    const Stacked<T, 2> maps{layout_.width, {{in.U2, nullptr, rank_}, {in.W_D, in.D, diagonals()}}};
    return Linear<T>(layout_.width, true, maps.outputs(), maps, layouts);
  }

  Linear<T> make_sum(const LayerInputs<T>& in, Layouts layouts) const {
    if (in.W_C != nullptr) return Linear<T>();
    const Columns<T, 2> maps{{{in.U3, rank_}, {in.C, layout_.state}}};
    return Linear<T>(rank_ + layout_.state, false, layout_.width, maps, layouts);
  }

  // Adds the gradient of u through its product with the diagonal of D_k, which the diagonal's gradient replaces.
  void diagonal_back(const T* rows, const T* g, T* gradient, T* diagonal) const {
    for (int64_t h = 0; h < layout_.width; ++h)
      for (int64_t n = h * kTile; n < (h + 1) * kTile; n += kLanes<T>) {
        const Vector<T> arriving = load(g + n);
        store(gradient + n, load(gradient + n) + arriving * diagonal_at(diagonal, h, n));
        store(diagonal + n, arriving * load(rows + n));
      }
  }

  // The diagonal of D_k at channel h, for the vector of events at n.
  Vector<T> diagonal_at(const T* diagonal, int64_t h, int64_t n) const {
    return direct_ == Direct::kStatic ? all(D_[h]) : load(diagonal + n);
  }

  const Layout layout_;
  const Direct direct_;
  const int64_t rank_;
  const T* D_;
  Linear<T> linear_, first_, sum_;
  std::optional<Form<T>> full_, full_D_;
};

}  // namespace s7::S7_ISA
