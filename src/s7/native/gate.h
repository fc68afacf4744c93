// The fused end of a block (gate, dropout and skip) and its gradient.
//
//     out = u + keep · z · σ(W gelu(z) + c)
//
// `keep` is 0 with the dropout probability and 1 / (1 - probability) otherwise. It is a function of the sequence's key,
// the event's position and the channel. Therefore it does not depend on the number of threads, and the gradient
// recomputes it.
#pragma once

#include "forms.h"

namespace s7::S7_ISA {

// A counter-based random generator. `scramble` is a low-bias bijection of 32-bit words, with the constants of C.
// Wellons' lowbias32.
template <class Word>
inline Word scramble(Word x) {
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  return x ^ (x >> 16);
}

// Dropout for a tile of events. Each 32-bit draw decides for two adjacent channels.
template <class T>
class Dropout {
 public:
  Dropout(const GateShape& shape, const T* keys)
      : length_(shape.length),
        keys_(keys),
        threshold_(int32_t(shape.threshold)),
        scale_(T(65536) / T(65536 - shape.threshold)) {}

  bool active() const { return threshold_ > 0; }

  // Starts a tile: computes the part of a draw that depends only on the event.
  void start(int64_t first, int64_t events) {
    int64_t sequence = first / length_, position = first % length_;
    for (int64_t k = 0; k < kTile; ++k) {
      const T* key = keys_ + 4 * sequence;
      event_[k] = scramble(uint32_t(position) * 0x9e3779b1u + word(key));
      second_[k] = word(key + 2);
      if (k + 1 < events && ++position == length_) {
        position = 0;
        ++sequence;
      }
    }
  }

  // Computes keep[0] and keep[1] for channels 2 · pair and 2 · pair + 1.
  void draw(int64_t pair, T (&keep)[2][kTile]) const {
    const uint32_t channel = uint32_t(pair) * 0x85ebca77u;
    alignas(64) int32_t draws[2][kTile];
    for (int64_t k = 0; k < kTile; k += kWords) {
      Words event, second;
      std::memcpy(&event, event_ + k, sizeof event);
      std::memcpy(&second, second_ + k, sizeof second);
      const Words bits = scramble(event ^ (channel + second)), low = bits & 0xffffu, high = bits >> 16;
      std::memcpy(draws[0] + k, &low, sizeof low);
      std::memcpy(draws[1] + k, &high, sizeof high);
    }
    for (int n = 0; n < 2; ++n)
      for (int64_t k = 0; k < kTile; ++k) keep[n][k] = scale_ * T(draws[n][k] >= threshold_);
  }

 private:
  typedef uint32_t Words __attribute__((vector_size(kVectorBytes)));
  static constexpr int64_t kWords = kVectorBytes / 4;

  static uint32_t word(const T* halves) { return uint32_t(halves[0]) | uint32_t(halves[1]) << 16; }

  int64_t length_;
  const T* keys_;
  int32_t threshold_;
  T scale_;
  alignas(64) uint32_t event_[kTile], second_[kTile];
};

template <class T>
inline Vector<T> sigmoid(Vector<T> x) {
  const Vector<T> least = all(T(-80));  // below, the result is that for -80, which is 2e-35
  return reciprocal<T>(T(1) + exponential(-select<T>(x < least, least, x)).value);
}

// gelu(z) in its tanh form is z σ(2 √(2/π) (z + 0.044715 z³)).
template <class T>
struct Gelu {
  static constexpr T kScale = T(1.5957691216057308), kCubic = T(0.044715);

  Vector<T> value, slope;

  explicit Gelu(Vector<T> z) {
    const Vector<T> square = z * z, s = sigmoid<T>(kScale * z * (T(1) + kCubic * square));
    value = z * s;
    slope = s + value * (T(1) - s) * kScale * (T(1) + T(3) * kCubic * square);
  }
};

// The gate and dropout on tiles of events. Without weights only dropout is applied.
template <class T>
class Gate {
 public:
  using V = Vector<T>;

  // Scratch memory of one thread.
  struct Work {
    Work(const Gate& gate, Lookahead& ahead)
        : rows((gate.width_ + 1) * kTile),
          slopes(gate.width_ * kTile),
          back(gate.width_ * kTile),
          gates(gate.width_ * kTile),
          padded(gate.form_.padded() * kTile),
          dropout(gate.shape_, gate.keys_),
          ahead(&ahead) {}

    Buffer<T> rows, slopes, back, gates, padded;
    Dropout<T> dropout;
    Lookahead* ahead;
    alignas(64) T keep[2][kTile];
  };

  Gate(const GateShape& shape, const T* W, const T* c, const T* keys, Layouts layouts)
      : shape_(shape), keys_(keys), width_(shape.width), has_weights_(W != nullptr), form_(make_form(W, c, layouts)) {}

  int64_t sums_size() const { return has_weights_ ? form_.sums_size() : 0; }

  // Replaces z by keep · z · σ(W gelu(z) + c).
  void apply(int64_t first, int64_t count, T* z, Work& work) const {
    open<false>(first, count, z, work);
    const bool drops = work.dropout.active();
    for (int64_t h = 0; h < width_; ++h) {
      if (drops && h % 2 == 0) work.dropout.draw(h / 2, work.keep);
      for (int64_t k = 0; k < kTile; k += kLanes<T>) {
        const int64_t at = h * kTile + k;
        V value = load(z + at);
        if (has_weights_) value *= sigmoid<T>(load(work.gates.data() + at));
        if (drops) value *= load(work.keep[h % 2] + k);
        store(z + at, value);
      }
    }
  }

  // Replaces the gradient of the result by the gradient of z. Adds the gradients of W and c to `sums`.
  void back(int64_t first, int64_t count, const T* z, T* gradient, T* sums, Work& work) const {
    open<true>(first, count, z, work);
    const bool drops = work.dropout.active();
    T* gates = work.gates.data();
    for (int64_t h = 0; h < width_; ++h) {
      if (drops && h % 2 == 0) work.dropout.draw(h / 2, work.keep);
      for (int64_t k = 0; k < kTile; k += kLanes<T>) {
        const int64_t at = h * kTile + k;
        V g = load(gradient + at);
        if (drops) g *= load(work.keep[h % 2] + k);
        if (has_weights_) {
          const V s = sigmoid<T>(load(gates + at));
          store(gates + at, g * load(z + at) * s * (T(1) - s));
          g *= s;
        }
        store(gradient + at, g);
      }
    }
    if (!has_weights_) return;
    T* back = work.back.data();
    form_.back(gates, count, back, *work.ahead);
    pad_tile(gates, width_, form_.padded(), work.padded.data());
    form_.gather_weights(work.rows.data(), work.padded.data(), count, sums);
    for (int64_t n = 0; n < width_ * kTile; n += kLanes<T>)
      store(gradient + n, load(gradient + n) + load(back + n) * load(work.slopes.data() + n));
  }

  void unpack_weights(const T* sums, T* W, T* c, Pool pool) const {
    if (has_weights_) unpack<T, 2>(sums, form_.padded(), 0, width_, {{W, width_}, {c, 1}}, pool);
  }

 private:
  Linear<T> make_form(const T* W, const T* c, Layouts layouts) const {
    if (!has_weights_) return Linear<T>();
    return Linear<T>(width_, true, width_, Columns<T, 2>{{{W, width_}, {c, 1}}}, layouts);
  }

  // Computes the gates of a tile before the sigmoid, and starts the tile's dropout. If kSlopes, also computes the
  // derivative of gelu.
  template <bool kSlopes>
  void open(int64_t first, int64_t count, const T* z, Work& work) const {
    if (work.dropout.active()) work.dropout.start(first, count);
    if (!has_weights_) return;
    T* rows = work.rows.data();
    for (int64_t n = 0; n < width_ * kTile; n += kLanes<T>) {
      const Gelu<T> gelu(load(z + n));
      store(rows + n, gelu.value);
      if (kSlopes) store(work.slopes.data() + n, gelu.slope);
    }
    for (int64_t k = 0; k < kTile; ++k) rows[width_ * kTile + k] = k < count ? T(1) : T(0);
    form_.apply(rows, count, work.gates.data(), *work.ahead);
  }

  const GateShape shape_;
  const T* keys_;
  const int64_t width_;
  const bool has_weights_;
  const Linear<T> form_;
};

// to += from, for `count` rows of a tile.
template <class T>
inline void add_rows(const T* from, int64_t count, T* to) {
  for (int64_t n = 0; n < count * kTile; n += kLanes<T>) store(to + n, load(to + n) + load(from + n));
}

// rows += u for the events of a tile.
template <class T>
inline void add_tile(const T* u, int64_t count, int64_t width, T* work, T* rows) {
  load_tile(u, count, width, work);
  add_rows(work, width, rows);
}

template <class T>
void gate(const GateShape& shape, const GateInputs<T>& in, T* out, Pool pool) {
  const Gate<T> gate(shape, in.W, in.c, in.keys, Layouts::kApply);
  const Chunks chunks = Chunks::small(shape.events());
  const int64_t width = shape.width;
  parallel(pool, chunks.count, [&](int64_t chunk) {
    Buffer<T> z(width * kTile), skip(width * kTile);
    Lookahead ahead;
    typename Gate<T>::Work work(gate, ahead);
    chunks.for_tiles(chunk, [&](int64_t first, int64_t count) {
      load_tile(in.z + first * width, count, width, z.data());
      gate.apply(first, count, z.data(), work);
      if (in.u != nullptr) add_tile(in.u + first * width, count, width, skip.data(), z.data());
      store_tile(z.data(), count, width, out + first * width);
    });
  });
}

// Computes the gradients of z, W and c from the gradient of `out`. The gradient of u equals that of `out`.
template <class T>
void gate_gradient(const GateShape& shape, const GateInputs<T>& in, const T* out_gradient, const GateGradients<T>& out,
                   Pool pool) {
  const Gate<T> gate(shape, in.W, in.c, in.keys, Layouts::kBoth);
  const Chunks chunks = Chunks::of(shape.events());
  const int64_t width = shape.width;
  Sums<T> sums(chunks, gate.sums_size());
  parallel(pool, chunks.count, [&](int64_t chunk) {
    sums.clear(chunk);
    Buffer<T> z(width * kTile), gradient(width * kTile);
    Lookahead ahead;
    typename Gate<T>::Work work(gate, ahead);
    chunks.for_tiles(chunk, [&](int64_t first, int64_t count) {
      load_tile(in.z + first * width, count, width, z.data());
      load_tile(out_gradient + first * width, count, width, gradient.data());
      gate.back(first, count, z.data(), gradient.data(), sums.of(chunk), work);
      store_tile(gradient.data(), count, width, out.z + first * width);
    });
  });
  gate.unpack_weights(sums.total(pool), out.W, out.c, pool);
}

}  // namespace s7::S7_ISA
