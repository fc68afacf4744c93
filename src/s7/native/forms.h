// Stand-alone kernels for layers that are assembled outside: the quadratic form in u, and the bilinear form in x and u.
#pragma once

#include "kernels.h"
#include "linear.h"

namespace s7::S7_ISA {

// The weight of product u_i · u_j in output n: W[n, i, j] + W[n, j, i], as both multiply the same product. The products
// of the affine part follow.
template <class T>
struct SymmetricWeights {
  const Products& products;
  int64_t width;
  const T* W;
  Columns<T, 2> affine;

  int64_t quadratic() const { return width * (width + 1) / 2; }

  T operator()(int64_t m, int64_t n) const {
    if (m >= quadratic()) return affine(m - quadratic(), n);
    const int64_t i = products.pairs()[m].left / kTile, j = products.pairs()[m].right / kTile;
    const T* of = W + n * width * width;
    return i == j ? of[i * width + i] : of[i * width + j] + of[j * width + i];
  }
};

template <class T>
void unpack_symmetric(const Form<T>& form, const T* sums, int64_t width, T* W, T* linear, T* constant, Pool pool) {
  const int64_t quadratic = width * (width + 1) / 2, padded = form.padded();
  const Products& products = form.products();
  parallel_moves(pool, form.outputs(), quadratic, [&](int64_t n) {
    for (int64_t m = 0; m < quadratic; ++m) {
      const int64_t i = products.pairs()[m].left / kTile, j = products.pairs()[m].right / kTile;
      W[(n * width + i) * width + j] = W[(n * width + j) * width + i] = sums[m * padded + n];
    }
  });
  if (products.count() > quadratic)
    unpack<T, 2>(sums, padded, quadratic, form.outputs(), {{linear, width}, {constant, 1}}, pool);
}

template <class T>
Form<T> symmetric_form(const Layout& layout, int64_t outputs, const T* W, bool affine, const T* linear,
                       const T* constant, Layouts layouts) {
  Form<T> form(Products::symmetric(layout, affine), outputs);
  form.pack(SymmetricWeights<T>{form.products(), layout.width, W, {{{linear, layout.width}, {constant, 1}}}}, layouts);
  return form;
}

// The form in the products x_p · u_j and, if `linear` is not null, x_p.
template <class T>
Form<T> bilinear_form(const Layout& layout, int64_t outputs, const T* W, const T* linear, Layouts layouts) {
  const Columns<T, 2> weights{{{W, layout.state * layout.width}, {linear, linear == nullptr ? 0 : layout.state}}};
  return Form<T>(Products::bilinear(layout, linear != nullptr), outputs, weights, layouts);
}

template <class T>
void apply_form(const Form<T>& form, int64_t events, int64_t width, int64_t state, const T* x, const T* u, T* y,
                Pool pool) {
  const Chunks chunks = Chunks::small(events);
  parallel(pool, chunks.count, [&](int64_t chunk) {
    const Layout layout{width, state, 0};
    Buffer<T> rows(layout.size()), result(form.outputs() * kTile);
    rows.clear();
    chunks.for_tiles(chunk, [&](int64_t first, int64_t count) {
      load_input(u + first * width, count, width, rows.data());
      if (state > 0) load_tile(x + first * state, count, state, rows.data() + layout.state_row() * kTile);
      form.apply(rows.data(), count, result.data());
      store_tile(result.data(), count, form.outputs(), y + first * form.outputs());
    });
  });
}

// Computes the gradients of x and u. The gradients of the weights stay in `sums`.
template <class T>
void form_gradient(const Form<T>& form, int64_t events, int64_t width, int64_t state, const T* x, const T* u,
                   const T* gradient, T* x_gradient, T* u_gradient, Sums<T>& sums, Pool pool) {
  const Chunks chunks = Chunks::of(events);
  const Layout layout{width, state, 0};
  const int64_t outputs = form.outputs(), at_state = layout.state_row() * kTile;
  parallel(pool, chunks.count, [&](int64_t chunk) {
    Buffer<T> rows(layout.size()), back(layout.size());
    Buffer<T> arriving(outputs * kTile), padded(form.padded() * kTile);
    rows.clear();
    sums.clear(chunk);
    chunks.for_tiles(chunk, [&](int64_t first, int64_t count) {
      load_input(u + first * width, count, width, rows.data());
      if (state > 0) load_tile(x + first * state, count, state, rows.data() + at_state);
      load_tile(gradient + first * outputs, count, outputs, arriving.data());
      const T* by_event = in_padded(gradient + first * outputs, count, outputs, form.padded(), padded.data());
      back.clear();
      form.back(rows.data(), arriving.data(), count, back.data());
      form.gather_weights(rows.data(), by_event, count, sums.of(chunk));
      store_tile(back.data(), count, width, u_gradient + first * width);
      if (state > 0) store_tile(back.data() + at_state, count, state, x_gradient + first * state);
    });
  });
}

template <class T>
void quadratic(int64_t events, int64_t width, int64_t outputs, const T* W, const T* u, T* y, Pool pool) {
  const Form<T> form = symmetric_form<T>({width, 0, 0}, outputs, W, false, nullptr, nullptr, Layouts::kApply);
  apply_form<T>(form, events, width, 0, nullptr, u, y, pool);
}

template <class T>
void quadratic_gradient(int64_t events, int64_t width, int64_t outputs, const T* W, const T* u, const T* gradient,
                        T* W_gradient, T* u_gradient, Pool pool) {
  const Form<T> form = symmetric_form<T>({width, 0, 0}, outputs, W, false, nullptr, nullptr, Layouts::kBack);
  Sums<T> sums(Chunks::of(events), form.sums_size());
  form_gradient<T>(form, events, width, 0, nullptr, u, gradient, nullptr, u_gradient, sums, pool);
  unpack_symmetric<T>(form, sums.total(pool), width, W_gradient, nullptr, nullptr, pool);
}

template <class T>
void bilinear(int64_t events, int64_t width, int64_t rows, int64_t outputs, const T* W, const T* x, const T* u, T* y,
              Pool pool) {
  const Form<T> form = bilinear_form<T>({width, rows, 0}, outputs, W, nullptr, Layouts::kApply);
  apply_form<T>(form, events, width, rows, x, u, y, pool);
}

template <class T>
void bilinear_gradient(int64_t events, int64_t width, int64_t rows, int64_t outputs, const T* W, const T* x, const T* u,
                       const T* gradient, T* W_gradient, T* x_gradient, T* u_gradient, Pool pool) {
  const Form<T> form = bilinear_form<T>({width, rows, 0}, outputs, W, nullptr, Layouts::kBack);
  Sums<T> sums(Chunks::of(events), form.sums_size());
  form_gradient<T>(form, events, width, rows, x, u, gradient, x_gradient, u_gradient, sums, pool);
  unpack<T, 1>(sums.total(pool), form.padded(), 0, outputs, {{W_gradient, rows * width}}, pool);
}

}  // namespace s7::S7_ISA
