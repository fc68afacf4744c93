// Forms that are linear in products of two rows: y_n = Σ_m M[m, n] · left_m · right_m, for a tile of events.
//
// B_k u_k is such a form in the products u_i u_j with i ≤ j (the symmetric half), and C_k x_k in the products x_p u_j.
// With a row of ones, the linear parts are the products u_j · 1. A tile holds kTile events. Its rows (u, one, x) are
// stored with consecutive events in the lanes of the vectors. The matrices B_k and C_k are never stored; they exist
// only as sums in registers. All three directions are matrix products whose left operand is computed on the fly:
//
//     forward            y[n]       += Σ_m M[m, n] · z_m                    z_m = left_m · right_m
//     gradient of rows   t_m         = Σ_n M[m, n] · g[n],   d left_m += t_m · right_m,   d right_m += t_m · left_m
//     gradient of M      dM[m, n]   += Σ_events z_m · g[n]
#pragma once

#include <utility>

#include "memory.h"
#include "simd.h"

// A kernel keeps its sums in all available registers. The compiler manages this only if small loops are unrolled early
// and the function is not inlined into its caller.
#define S7_KERNEL __attribute__((noinline))
// Functions that several passes call are not inlined, because large functions take long to compile.
#define S7_SHARED __attribute__((noinline))
#if defined(__clang__)
#define S7_UNROLL _Pragma("unroll")
#else
#define S7_UNROLL _Pragma("GCC unroll 16")
#endif

namespace s7::S7_ISA {

inline constexpr int kTile = 96;    // events per tile; a multiple of kGroup for every instruction set
inline constexpr int kVectors = 3;  // vectors of events in a group; kOutputs × kVectors sums fill the registers
inline constexpr int kOutputs = kRegisters == 32 ? 8 : 4;
inline constexpr int kSpread = 4;      // products per block in the gradient of rows
inline constexpr int kProducts = 192;  // products computed and stored at a time

template <class T>
inline constexpr int kGroup = kVectors * kLanes<T>;

// The products left · right for right = first, first + 1, …; `number` is the index of the first of them among all
// products.
struct Run {
  int32_t left, first, count, number;

  // Returns the index of the product with this right row, or -1 if there is none.
  int32_t product(int32_t right) const { return right >= first && right < first + count ? number + right - first : -1; }
};

// Offsets of the two factors of a product in the buffer of rows.
struct Pair {
  int32_t left, right;
};

// A block of products that the gradient of rows processes together: one left row times four right rows, or two times
// two, which reads and writes fewer rows. `products` is -1 where the form does not contain the product.
struct Block {
  int32_t lefts, left, right;
  int32_t products[kSpread];
};

// The rows of a tile: the input and a row of ones, the products of factors if a form has them, and the state. Three
// padding rows follow the input and the state, because the last block of a run may extend past its end. Layers that
// read the same input share its rows: the products and the state of the second follow those of the first.
struct Layout {
  int64_t width, state, rank;
  int64_t layer = 0;  // which of them

  int64_t one() const { return width; }
  int64_t factor_row() const { return width + 4 + layer * (rank + state + 3); }
  int64_t state_row() const { return factor_row() + rank; }
  int64_t rows() const { return state_row() + state + 3; }
  int64_t size() const { return rows() * kTile; }
};

// The list of products of a form.
class Products {
 public:
  // u_i · u_j for i ≤ j. If `affine`, also 1 · u_j and 1 · 1.
  static Products symmetric(const Layout& layout, bool affine) {
    Products products(layout.width + affine);
    for (int64_t i = 0; i < layout.width; ++i) products.add(i, i, layout.width - i);
    if (affine) products.add(layout.one(), 0, layout.width + 1);
    return products.finish();
  }

  // x_p · u_j. If `affine`, also 1 · x_p.
  static Products bilinear(const Layout& layout, bool affine) {
    Products products(layout.state + affine);
    for (int64_t p = 0; p < layout.state; ++p) products.add(layout.state_row() + p, 0, layout.width);
    if (affine) products.add(layout.one(), layout.state_row(), layout.state);
    return products.finish();
  }

  const Buffer<Pair>& pairs() const { return pairs_; }
  int64_t count() const { return count_; }
  const Block* blocks() const { return blocks_.data(); }
  int64_t block_count() const { return block_count_; }

 private:
  explicit Products(int64_t runs) : runs_(runs) {}

  void add(int64_t left, int64_t first, int64_t count) {
    runs_[filled_++] = {int32_t(left), int32_t(first), int32_t(count), int32_t(count_)};
    count_ += count;
  }

  Products finish() {
    list_pairs();
    list_blocks();
    return std::move(*this);
  }

  void list_pairs() {
    pairs_ = Buffer<Pair>(count_);
    int64_t m = 0;
    for (int64_t r = 0; r < runs_.size(); ++r)
      for (int32_t n = 0; n < runs_[r].count; ++n) pairs_[m++] = {runs_[r].left * kTile, (runs_[r].first + n) * kTile};
  }

  void list_blocks() {
    blocks_ = Buffer<Block>(count_);
    int32_t lefts = 1;
    for (int64_t r = 0; r < runs_.size(); r += lefts) {
      lefts = r + 1 < runs_.size() && alike(runs_[r], runs_[r + 1]) ? 2 : 1;
      const int32_t rights = kSpread / lefts, end = runs_[r].first + runs_[r].count;
      for (int32_t right = runs_[r].first; right < end; right += rights) {
        Block& block = blocks_[block_count_++];
        block = {lefts, runs_[r].left, right, {}};
        for (int32_t n = 0; n < kSpread; ++n) block.products[n] = runs_[r + n / rights].product(right + n % rights);
      }
    }
  }

  // Returns whether the left rows of two runs are adjacent and their right rows are the same, except possibly the
  // first.
  static bool alike(const Run& run, const Run& next) {
    const int32_t later = next.first - run.first;
    return next.left == run.left + 1 && (later == 0 || later == 1) && next.count == run.count - later;
  }

  Buffer<Run> runs_;
  Buffer<Pair> pairs_;
  Buffer<Block> blocks_;
  int64_t filled_ = 0, count_ = 0, block_count_ = 0;
};

// Returns how many of the `left` last outputs are computed together. The last two blocks share the remaining outputs
// evenly, because a block of one or two outputs has too few independent sums to hide the latency of additions.
inline int64_t outputs_together(int64_t left) {
  if (left >= 2 * kOutputs) return kOutputs;
  return left > kOutputs ? (left + 1) / 2 : left;
}

// y[r][group] = Σ_m weights[m][r] · z_m, or += if `add`. If kMake, z is computed from its factors and stored for the
// calls that follow; otherwise it is read.
template <class T, int kRows, bool kMake>
inline void accumulate(const T* weights, const T* rows, const Pair* pairs, int64_t count, T* z, bool add, T* y) {
  using V = Vector<T>;
  V sum[kRows][kVectors] = {};
  for (int64_t m = 0; m < count; ++m) {
    V product[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      if constexpr (kMake) {
        product[v] = load(rows + pairs[m].left + v * kLanes<T>) * load(rows + pairs[m].right + v * kLanes<T>);
        store(z + m * kGroup<T> + v * kLanes<T>, product[v]);
      } else {
        product[v] = load(z + m * kGroup<T> + v * kLanes<T>);
      }
    }
    for (int r = 0; r < kRows; ++r) {
      const V weight = all(weights[m * kRows + r]);
      for (int v = 0; v < kVectors; ++v) sum[r][v] += weight * product[v];
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) {
      T* place = y + r * kTile + v * kLanes<T>;
      store(place, add ? load(place) + sum[r][v] : sum[r][v]);
    }
}

template <class T, bool kMake>
inline void accumulate_rows(int64_t outputs, const T* weights, const T* rows, const Pair* pairs, int64_t count, T* z,
                            bool add, T* y) {
  switch (outputs) {
    case 1:
      return accumulate<T, 1, kMake>(weights, rows, pairs, count, z, add, y);
    case 2:
      return accumulate<T, 2, kMake>(weights, rows, pairs, count, z, add, y);
    case 3:
      return accumulate<T, 3, kMake>(weights, rows, pairs, count, z, add, y);
    case 4:
      return accumulate<T, 4, kMake>(weights, rows, pairs, count, z, add, y);
    case 5:
      if constexpr (kOutputs > 4) return accumulate<T, 5, kMake>(weights, rows, pairs, count, z, add, y);
      break;
    case 6:
      if constexpr (kOutputs > 4) return accumulate<T, 6, kMake>(weights, rows, pairs, count, z, add, y);
      break;
    case 7:
      if constexpr (kOutputs > 4) return accumulate<T, 7, kMake>(weights, rows, pairs, count, z, add, y);
      break;
    case 8:
      if constexpr (kOutputs > 4) return accumulate<T, 8, kMake>(weights, rows, pairs, count, z, add, y);
      break;
  }
}

// Computes t = Σ_n weights[n] · g[n] for the products of a block and adds the result to the gradients of both factors.
template <class T, int kLefts>
S7_KERNEL void spread(const T* weights, const T* g, int64_t outputs, const T* left, const T* right, T* left_gradient,
                      T* right_gradient) {
  using V = Vector<T>;
  constexpr int kRights = kSpread / kLefts;
  V t[kLefts][kRights][kVectors] = {};
  for (int64_t n = 0; n < outputs; ++n) {
    V gradient[kVectors];
    S7_UNROLL
    for (int v = 0; v < kVectors; ++v) gradient[v] = load(g + n * kTile + v * kLanes<T>);
    S7_UNROLL
    for (int s = 0; s < kSpread; ++s) {
      const V weight = all(weights[n * kSpread + s]);
      S7_UNROLL
      for (int v = 0; v < kVectors; ++v) t[s / kRights][s % kRights][v] += weight * gradient[v];
    }
  }
  S7_UNROLL
  for (int v = 0; v < kVectors; ++v) {
    const int64_t at = v * kLanes<T>;
    S7_UNROLL
    for (int r = 0; r < kRights; ++r) {
      T* place = right_gradient + r * kTile + at;
      V sum = load(place);
      S7_UNROLL
      for (int l = 0; l < kLefts; ++l) sum += t[l][r][v] * load(left + l * kTile + at);
      store(place, sum);
    }
    // The left factors come second: for a square, left and right are the same row, which must be stored before it is
    // read again.
    S7_UNROLL
    for (int l = 0; l < kLefts; ++l) {
      T* place = left_gradient + l * kTile + at;
      V sum = load(place);
      S7_UNROLL
      for (int r = 0; r < kRights; ++r) sum += t[l][r][v] * load(right + r * kTile + at);
      store(place, sum);
    }
  }
}

// sums[m][columns] += Σ_events z[m][event] · g[event][columns] for kRows products and kColumns vectors of outputs.
template <class T, int kRows, int kColumns>
S7_KERNEL void gather(const T* z, const T* g, int64_t events, int64_t g_stride, T* sums, int64_t sums_stride) {
  using V = Vector<T>;
  V sum[kRows][kColumns] = {};
  S7_UNROLL
  for (int r = 0; r < kRows; ++r) {  // prefetch: the sums may be out of cache, and the loop hides the latency
    S7_UNROLL
    for (int c = 0; c < kColumns; c += 64 / int(sizeof(V)))
      __builtin_prefetch(sums + r * sums_stride + c * kLanes<T>, 1);
  }
  for (int64_t k = 0; k < events; ++k) {
    V gradient[kColumns];
    S7_UNROLL
    for (int c = 0; c < kColumns; ++c) gradient[c] = load(g + k * g_stride + c * kLanes<T>);
    S7_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const V product = all(z[r * kTile + k]);
      S7_UNROLL
      for (int c = 0; c < kColumns; ++c) sum[r][c] += product * gradient[c];
    }
  }
  S7_UNROLL
  for (int r = 0; r < kRows; ++r) {
    S7_UNROLL
    for (int c = 0; c < kColumns; ++c) {
      T* place = sums + r * sums_stride + c * kLanes<T>;
      store(place, load(place) + sum[r][c]);
    }
  }
}

inline constexpr int kGathered = 12;  // products per gather_all; `gather` takes 12, 6 or 4 with 1, 2 or 3 columns

// Gathers up to kGathered products.
template <class T>
inline void gather_all(const T* z, int64_t products, const T* g, int64_t events, int64_t columns, T* sums) {
  const int64_t stride = columns * kLanes<T>;
  int64_t c = 0;
  while (c < columns) {
    const int64_t left = columns - c, at = c * kLanes<T>;
    if (left == 1) {
      gather<T, 12, 1>(z, g + at, events, stride, sums + at, stride);
      c += 1;
    } else if (left == 2 || left == 4) {
      for (int64_t r = 0; r < products; r += 6)
        gather<T, 6, 2>(z + r * kTile, g + at, events, stride, sums + r * stride + at, stride);
      c += 2;
    } else {
      for (int64_t r = 0; r < products; r += 4)
        gather<T, 4, 3>(z + r * kTile, g + at, events, stride, sums + r * stride + at, stride);
      c += 3;
    }
  }
}

// Selects the packed layouts of the weights that a form needs: `apply` reads one, `back` the other.
enum class Layouts { kApply, kBack, kBoth };

// A form with packed weights. weight(m, n) returns the weight of product m in output n.
template <class T>
class Form {
 public:
  template <class F>
  Form(Products products, int64_t outputs, F weight, Layouts layouts)
      : products_(std::move(products)), outputs_(outputs) {
    pack(weight, layouts);
  }

  Form(Products products, int64_t outputs) : products_(std::move(products)), outputs_(outputs) {}

  template <class F>
  void pack(F weight, Layouts layouts) {
    if (layouts != Layouts::kBack) pack_forward(weight);
    if (layouts != Layouts::kApply) pack_backward(weight);
  }

  // y[n] = form(rows), for every group that contains an event.
  void apply(const T* rows, int64_t events, T* y) const { compute(rows, events, false, y); }

  // y[n] += form(rows).
  void add(const T* rows, int64_t events, T* y) const { compute(rows, events, true, y); }

  // Adds the gradient of the factors to `gradient`, given the gradient g[n] of the outputs.
  void back(const T* rows, const T* g, int64_t events, T* gradient) const {
    const T* weights = backward_.data();
    for (int64_t b = 0; b < products_.block_count(); ++b, weights += kSpread * outputs_) {
      const Block& block = products_.blocks()[b];
      const int64_t left = int64_t(block.left) * kTile, right = int64_t(block.right) * kTile;
      for (int64_t k = 0; k < events; k += kGroup<T>) {
        const auto run = block.lefts == 2 ? spread<T, 2> : spread<T, 1>;
        run(weights, g + k, outputs_, rows + left + k, rows + right + k, gradient + left + k, gradient + right + k);
      }
    }
  }

  // The length of a row of `sums`, in vectors and in numbers: the outputs, padded to whole vectors.
  int64_t columns() const { return (outputs_ + kLanes<T> - 1) / kLanes<T>; }
  int64_t padded() const { return columns() * kLanes<T>; }
  int64_t sums_size() const { return (products_.count() + kGathered - 1) / kGathered * kGathered * padded(); }

  // sums[m][n] += Σ_events z_m · g[event][n]. Here g is event-major, with `padded()` numbers per event.
  void gather_weights(const T* rows, const T* g, int64_t events, T* sums) const {
    alignas(64) T z[kGathered * kTile];
    const Pair* pairs = products_.pairs().data();
    for (int64_t m = 0; m < products_.count(); m += kGathered) {
      const int64_t left = products_.count() - m, count = left < kGathered ? left : kGathered;
      for (int64_t q = 0; q < kGathered; ++q) {
        T* to = z + q * kTile;
        if (q < count) {
          const T *first = rows + pairs[m + q].left, *second = rows + pairs[m + q].right;
          for (int64_t k = 0; k < events; k += kLanes<T>) store(to + k, load(first + k) * load(second + k));
        } else {
          std::memset(to, 0, kTile * sizeof(T));
        }
      }
      gather_all(z, count, g, events, columns(), sums + m * padded());
    }
  }

  int64_t outputs() const { return outputs_; }
  const Products& products() const { return products_; }

 private:
  void compute(const T* rows, int64_t events, bool add, T* y) const {
    alignas(64) T z[kProducts * kGroup<T>];
    const Pair* pairs = products_.pairs().data();
    for (int64_t m = 0; m < products_.count(); m += kProducts) {
      const int64_t count = products_.count() - m < kProducts ? products_.count() - m : kProducts;
      for (int64_t k = 0; k < events; k += kGroup<T>) {
        for (int64_t n = 0, wide = 0; n < outputs_; n += wide) {
          wide = outputs_together(outputs_ - n);
          const T* weights = forward_.data() + n * products_.count() + m * wide;
          T* to = y + n * kTile + k;
          if (n == 0) {
            accumulate_rows<T, true>(wide, weights, rows + k, pairs + m, count, z, add || m > 0, to);
          } else {
            accumulate_rows<T, false>(wide, weights, rows + k, pairs + m, count, z, add || m > 0, to);
          }
        }
      }
    }
  }

  template <class F>
  void pack_forward(F weight) {
    forward_ = Buffer<T>(products_.count() * outputs_);
    T* to = forward_.data();
    for (int64_t first = 0, wide = 0; first < outputs_; first += wide) {
      wide = outputs_together(outputs_ - first);
      for (int64_t m = 0; m < products_.count(); ++m)
        for (int64_t n = first; n < first + wide; ++n) *to++ = weight(m, n);
    }
  }

  template <class F>
  void pack_backward(F weight) {
    backward_ = Buffer<T>(products_.block_count() * kSpread * outputs_);
    T* to = backward_.data();
    for (int64_t b = 0; b < products_.block_count(); ++b)
      for (int64_t n = 0; n < outputs_; ++n)
        for (int32_t m : products_.blocks()[b].products) *to++ = m < 0 ? T(0) : weight(m, n);
  }

  Products products_;
  int64_t outputs_;
  Buffer<T> forward_, backward_;
};

}  // namespace s7::S7_ISA
