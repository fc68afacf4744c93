// The input map B_k u_k + b and the output map C_k x_k, in full and in factored form.
//
// Both classes map the rows of a tile to outputs and have the same interface. `back` takes the gradient of the outputs
// in two layouts: `g` is output-major, with the events in the lanes; `padded` is event-major, with `padded()` numbers
// per event.
#pragma once

#include "forms.h"

namespace s7::S7_ISA {

// The full form: one form in the products u_i u_j, or x_p u_j.
template <class T>
class FullMap {
 public:
  static FullMap input(const Layout& layout, int64_t rows, const LayerInputs<T>& in, Layouts layouts) {
    return FullMap(layout, symmetric_form<T>(layout, rows, in.W_B, true, in.B, in.b, layouts));
  }
  static FullMap output(const Layout& layout, const LayerInputs<T>& in, Layouts layouts) {
    return FullMap(layout, bilinear_form<T>(layout, layout.width, in.W_C, in.C, layouts));
  }

  int64_t padded() const { return form_.padded(); }
  int64_t work_size() const { return 0; }
  int64_t sums_size() const { return form_.sums_size(); }

  void apply(T* rows, int64_t events, T* y, T*) const { form_.apply(rows, events, y); }

  void back(T* rows, const T* g, const T* padded, int64_t events, T* gradient, T* sums, T*) const {
    form_.back(rows, g, events, gradient);
    form_.gather_weights(rows, padded, events, sums);
  }

  void unpack_input(const T* sums, const LayerGradients<T>& out, Pool pool) const {
    unpack_symmetric<T>(form_, sums, layout_.width, out.W_B, out.B, out.b, pool);
  }
  void unpack_output(const T* sums, const LayerGradients<T>& out, Pool pool) const {
    const int64_t products = layout_.state * layout_.width;
    unpack<T, 2>(sums, form_.padded(), 0, form_.outputs(), {{out.W_C, products}, {out.C, layout_.state}}, pool);
  }

 private:
  FullMap(const Layout& layout, Form<T>&& form) : layout_(layout), form_(std::move(form)) {}

  Layout layout_;
  Form<T> form_;
};

// The factored form: two linear forms compute the factors, their elementwise product is stored as extra rows, and a
// third form is linear in these rows and in the input or state.
template <class T>
class FactoredMap {
 public:
  // V3 ((V1 u) * (V2 u)) + B u + b.
  static FactoredMap input(const Layout& layout, int64_t rows, const LayerInputs<T>& in, Layouts layouts) {
    const int64_t H = layout.width, R = layout.rank;
    return FactoredMap(layout, factor(layout, 0, H, in.V1, layouts), factor(layout, 0, H, in.V2, layouts),
                       Form<T>(Products::linear(layout, 0, H + 1, R), rows,
                               Columns<T, 3>{{{in.B, H}, {in.b, 1}, {in.V3, R}}}, layouts));
  }
  // U3 ((U1 x) * (U2 u)) + C x.
  static FactoredMap output(const Layout& layout, const LayerInputs<T>& in, Layouts layouts) {
    const int64_t H = layout.width, S = layout.state, R = layout.rank, x = layout.state_row();
    return FactoredMap(layout, factor(layout, x, S, in.U1, layouts), factor(layout, 0, H, in.U2, layouts),
                       Form<T>(Products::linear(layout, x, S, R), H, Columns<T, 2>{{{in.C, S}, {in.U3, R}}}, layouts));
  }

  int64_t padded() const { return sum_.padded(); }
  int64_t work_size() const { return (2 * layout_.rank + first_.padded()) * kTile; }
  int64_t sums_size() const { return sum_.sums_size() + first_.sums_size() + second_.sums_size(); }

  void apply(T* rows, int64_t events, T* y, T* work) const {
    multiply(rows, events, work);
    sum_.apply(rows, events, y);
  }

  void back(T* rows, const T* g, const T* padded, int64_t events, T* gradient, T* sums, T* work) const {
    multiply(rows, events, work);
    T* product_gradient = gradient + layout_.factor_row() * kTile;
    std::memset(product_gradient, 0, size_t(layout_.rank * kTile) * sizeof(T));
    sum_.back(rows, g, events, gradient);
    sum_.gather_weights(rows, padded, events, sums);
    T *first = work, *second = work + layout_.rank * kTile, *transposed = work + 2 * layout_.rank * kTile;
    for (int64_t n = 0; n < layout_.rank * kTile; n += kLanes<T>) {
      const Vector<T> gradient_here = load(product_gradient + n), factor = load(first + n);
      store(first + n, gradient_here * load(second + n));
      store(second + n, gradient_here * factor);
    }
    sums += sum_.sums_size();
    back_factor(first_, rows, first, events, gradient, sums, transposed);
    back_factor(second_, rows, second, events, gradient, sums + first_.sums_size(), transposed);
  }

  void unpack_input(const T* sums, const LayerGradients<T>& out, Pool pool) const {
    const int64_t H = layout_.width, R = layout_.rank;
    unpack<T, 3>(sums, sum_.padded(), 0, sum_.outputs(), {{out.B, H}, {out.b, 1}, {out.V3, R}}, pool);
    unpack_factors(sums, {out.V1, H}, {out.V2, H}, pool);
  }
  void unpack_output(const T* sums, const LayerGradients<T>& out, Pool pool) const {
    const int64_t S = layout_.state, R = layout_.rank;
    unpack<T, 2>(sums, sum_.padded(), 0, sum_.outputs(), {{out.C, S}, {out.U3, R}}, pool);
    unpack_factors(sums, {out.U1, S}, {out.U2, layout_.width}, pool);
  }

 private:
  FactoredMap(const Layout& layout, Form<T>&& first, Form<T>&& second, Form<T>&& sum)
      : layout_(layout), first_(std::move(first)), second_(std::move(second)), sum_(std::move(sum)) {}

  // The gradient recomputes the factors.
  static Form<T> factor(const Layout& layout, int64_t first, int64_t count, const T* V, Layouts layouts) {
    const Layouts both = layouts == Layouts::kBack ? Layouts::kBoth : layouts;
    return Form<T>(Products::linear(layout, first, count), layout.rank, Columns<T, 1>{{{V, count}}}, both);
  }

  // Stores both factors in `work` and their product in the factor rows.
  void multiply(T* rows, int64_t events, T* work) const {
    T *first = work, *second = work + layout_.rank * kTile, *product = rows + layout_.factor_row() * kTile;
    first_.apply(rows, events, first);
    second_.apply(rows, events, second);
    for (int64_t n = 0; n < layout_.rank * kTile; n += kLanes<T>)
      store(product + n, load(first + n) * load(second + n));
  }

  static void back_factor(const Form<T>& factor, T* rows, const T* g, int64_t events, T* gradient, T* sums,
                          T* transposed) {
    factor.back(rows, g, events, gradient);
    pad_tile(g, factor.outputs(), factor.padded(), transposed);
    factor.gather_weights(rows, transposed, events, sums);
  }

  void unpack_factors(const T* sums, Matrix<T> first, Matrix<T> second, Pool pool) const {
    sums += sum_.sums_size();
    unpack<T, 1>(sums, first_.padded(), 0, layout_.rank, {first}, pool);
    unpack<T, 1>(sums + first_.sums_size(), second_.padded(), 0, layout_.rank, {second}, pool);
  }

  Layout layout_;
  Form<T> first_, second_, sum_;
};

}  // namespace s7::S7_ISA
