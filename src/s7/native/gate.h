// The end of a block, fused: gate, dropout and skip, and its gradient.
//
//     out = u + keep · z · σ(W gelu(z) + c)
//
// `keep` is 0 with the dropout probability and 1 / (1 - probability) otherwise. It is a function of the sequence's key,
// the event's position and the channel, so it is the same for any number of threads and is computed again for the
// gradient.
#pragma once

#include "forms.h"

namespace s7::S7_ISA {

// Bits from a counter. `scramble` is a bijection of 32-bit words with low bias (the constants are those of C. Wellons'
// lowbias32).
inline uint32_t scramble(uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  return x ^ (x >> 16);
}

// Dropout along a tile of events. Each draw of 32 bits decides for two neighbouring channels.
template <class T>
class Dropout {
 public:
  Dropout(const GateShape& shape, const T* keys)
      : length_(shape.length),
        keys_(keys),
        threshold_(int32_t(shape.threshold)),
        scale_(T(65536) / T(65536 - shape.threshold)) {}

  bool active() const { return threshold_ > 0; }

  // Starts a tile: the part of a draw that depends on the event alone.
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

  // keep[0] and keep[1] for channels 2 · pair and 2 · pair + 1.
  void draw(int64_t pair, T (&keep)[2][kTile]) const {
    const uint32_t channel = uint32_t(pair) * 0x85ebca77u;
    for (int64_t k = 0; k < kTile; ++k) {
      const uint32_t bits = scramble(event_[k] ^ (channel + second_[k]));
      keep[0][k] = int32_t(bits & 0xffffu) >= threshold_ ? scale_ : T(0);
      keep[1][k] = int32_t(bits >> 16) >= threshold_ ? scale_ : T(0);
    }
  }

 private:
  static uint32_t word(const T* halves) { return uint32_t(halves[0]) | uint32_t(halves[1]) << 16; }

  int64_t length_;
  const T* keys_;
  int32_t threshold_;
  T scale_;
  alignas(64) uint32_t event_[kTile], second_[kTile];
};

template <class T>
inline Vector<T> sigmoid(Vector<T> x) {
  const Vector<T> one = all(T(1)), e = exponential(select<T>(x < Vector<T>{}, x, -x)).value, s = one / (one + e);
  return select<T>(x < Vector<T>{}, e * s, s);
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

template <class T>
class Gate {
 public:
  using V = Vector<T>;

  Gate(const GateShape& shape, const GateInputs<T>& in, Layouts layouts)
      : shape_(shape),
        in_(in),
        width_(shape.width),
        layout_{shape.width, 0, 0},
        form_(Products::linear(layout_, 0, shape.width + 1), shape.width,
              Columns<T, 2>{{{in.W, shape.width}, {in.c, 1}}}, layouts) {}

  void forward(T* out, Pool pool) const {
    const Chunks chunks = Chunks::small(shape_.events());
    parallel(pool, chunks.count, [&](int64_t chunk) {
      Buffer<T> z(width_ * kTile), rows(layout_.size()), gate(width_ * kTile), skip(width_ * kTile);
      Dropout<T> dropout(shape_, in_.keys);
      rows.clear();
      alignas(64) T keep[2][kTile];
      chunks.for_tiles(chunk, [&](int64_t first, int64_t count) {
        load_gate(first, count, z.data(), rows.data());
        form_.apply(rows.data(), count, gate.data());
        if (in_.u != nullptr) load_tile(in_.u + first * width_, count, width_, skip.data());
        if (dropout.active()) dropout.start(first, count);
        for (int64_t h = 0; h < width_; ++h) {
          if (dropout.active() && h % 2 == 0) dropout.draw(h / 2, keep);
          for (int64_t k = 0; k < kTile; k += kLanes<T>) {
            const int64_t at = h * kTile + k;
            V value = load(z.data() + at) * sigmoid<T>(load(gate.data() + at));
            if (dropout.active()) value *= load(keep[h % 2] + k);
            if (in_.u != nullptr) value += load(skip.data() + at);
            store(z.data() + at, value);
          }
        }
        store_tile(z.data(), count, width_, out + first * width_);
      });
    });
  }

  // From the gradient that reaches `out` those of z, W and c; that of u is the same as that of `out`.
  void gradient(const T* out_gradient, const GateGradients<T>& out, Pool pool) const {
    const Chunks chunks = Chunks::of(shape_.events());
    Sums<T> sums(chunks, form_.sums_size());
    parallel(pool, chunks.count, [&](int64_t chunk) {
      sums.clear(chunk);
      Buffer<T> z(width_ * kTile), rows(layout_.size()), back(layout_.size()), gate(width_ * kTile);
      Buffer<T> arriving(width_ * kTile), padded(form_.padded() * kTile);
      Dropout<T> dropout(shape_, in_.keys);
      rows.clear();
      alignas(64) T keep[2][kTile];
      chunks.for_tiles(chunk, [&](int64_t first, int64_t count) {
        load_gate(first, count, z.data(), rows.data());
        form_.apply(rows.data(), count, gate.data());
        load_tile(out_gradient + first * width_, count, width_, arriving.data());
        if (dropout.active()) dropout.start(first, count);
        for (int64_t h = 0; h < width_; ++h) {
          if (dropout.active() && h % 2 == 0) dropout.draw(h / 2, keep);
          for (int64_t k = 0; k < kTile; k += kLanes<T>) {
            const int64_t at = h * kTile + k;
            V g = load(arriving.data() + at);
            if (dropout.active()) g *= load(keep[h % 2] + k);
            const V s = sigmoid<T>(load(gate.data() + at));
            store(arriving.data() + at, g * s);
            store(gate.data() + at, g * load(z.data() + at) * s * (T(1) - s));
          }
        }
        back.clear();
        form_.back(rows.data(), gate.data(), count, back.data());
        pad_tile(gate.data(), width_, form_.padded(), padded.data());
        form_.gather_weights(rows.data(), padded.data(), count, sums.of(chunk));
        for (int64_t n = 0; n < width_ * kTile; n += kLanes<T>) {
          const V slope = Gelu<T>(load(z.data() + n)).slope;
          store(arriving.data() + n, load(arriving.data() + n) + load(back.data() + n) * slope);
        }
        store_tile(arriving.data(), count, width_, out.z + first * width_);
      });
    });
    unpack<T, 2>(sums.total(pool), form_.padded(), 0, width_, {{out.W, width_}, {out.c, 1}}, pool);
  }

 private:
  // The values of a tile, and gelu of them with a row of ones.
  void load_gate(int64_t first, int64_t count, T* z, T* rows) const {
    load_tile(in_.z + first * width_, count, width_, z);
    for (int64_t n = 0; n < width_ * kTile; n += kLanes<T>) store(rows + n, Gelu<T>(load(z + n)).value);
    for (int64_t k = 0; k < kTile; ++k) rows[width_ * kTile + k] = k < count ? T(1) : T(0);
  }

  const GateShape& shape_;
  const GateInputs<T>& in_;
  const int64_t width_;
  const Layout layout_;
  const Form<T> form_;
};

template <class T>
void gate(const GateShape& shape, const GateInputs<T>& in, T* out, Pool pool) {
  Gate<T>(shape, in, Layouts::kApply).forward(out, pool);
}

template <class T>
void gate_gradient(const GateShape& shape, const GateInputs<T>& in, const T* out_gradient, const GateGradients<T>& out,
                   Pool pool) {
  Gate<T>(shape, in, Layouts::kBoth).gradient(out_gradient, out, pool);
}

}  // namespace s7::S7_ISA
