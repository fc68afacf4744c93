// What a block computes on one tile of events. block.h runs it along all events, forward and backward.
#pragma once

#include <array>
#include <optional>

#include "gate.h"
#include "layer.h"
#include "norm.h"
#include "tail.h"

namespace s7::S7_ISA {

template <class T>
class BlockTiles {
 public:
  // Scratch memory of one thread. Each direction has outputs and scratch memory of its own.
  struct Work {
    explicit Work(const BlockTiles& block)
        : rows(block.rows_size()), plain(block.width_ * kTile), gate(block.gate_, ahead), tail(block.tail_) {
      rows.clear();
      for (int64_t d = 0; d < block.directions_; ++d) {
        y[d] = Buffer<T>(block.width_ * kTile);
        layers[d].emplace(block.layer(d), ahead);
      }
    }

    Lookahead ahead;  // to which the others refer
    Buffer<T> rows, y[kDirections], plain;
    std::optional<typename Layer<T>::Work> layers[kDirections];
    typename Gate<T>::Work gate;
    typename Tail<T>::Work tail;
  };

  // As `Work`, for the gradient. `back` holds the gradients of the rows, `arriving` that of the layers' outputs, and
  // `out` the output of the block before its tail.
  struct BackWork : Work {
    explicit BackWork(const BlockTiles& block)
        : Work(block),
          back(block.rows_size()),
          arriving(block.width_ * kTile),
          padded(block.first_.padded() * kTile),
          out(block.has_tail() ? block.width_ * kTile : 0) {
      back.clear();
    }

    Buffer<T> back, arriving, padded, out;
  };

  BlockTiles(const BlockShape& shape, const BlockInputs<T>& in, Layouts layouts)
      : shape_(shape),
        in_(in),
        width_(shape.layer.width),
        directions_(shape.directions),
        norm_(shape.norm, width_, in.scale, in.shift, in.mean),
        gate_({shape.layer.batch, shape.layer.length, width_, shape.threshold}, in.gate_W, in.gate_c, in.keys,
              layouts == Layouts::kBack ? Layouts::kBoth : layouts),
        tail_(shape, in, layouts),
        first_(shape.layer, in.layers[0], layouts, reads_twice(), 0) {
    if (directions_ < 2) return;
    LayerShape opposite = shape.layer;
    opposite.reverse = !opposite.reverse;
    second_.emplace(opposite, in.layers[1], layouts, reads_twice(), 1);
  }

  bool has_tail() const { return tail_.active(); }

  const Layer<T>& layer(int64_t d) const { return d == 0 ? first_ : *second_; }
  int64_t rows_size() const { return layer(directions_ - 1).layout().size(); }

  // Loads u, normalises it and adds the row of ones.
  S7_SHARED void load(int64_t first, int64_t count, Work& work) const {
    T *rows = work.rows.data(), *u = norm_.active() ? work.plain.data() : rows;
    load_tile(in_.u + first * width_, count, width_, u);
    if (norm_.active()) norm_.apply(u, rows);
    for (int64_t k = 0; k < kTile; ++k) rows[width_ * kTile + k] = k < count ? T(1) : T(0);
  }

  // What the next tile of direction d will access, most important first. Direction 0 of a block with two also finishes
  // the output, and direction 1 of its gradient starts from it.
  void expect(int64_t d, int64_t first, int64_t count, const BlockOutputs<T>& out, Work& work) const {
    work.ahead.clear();
    add_rows_of(in_.u, first, count, work);
    if (d == 0 && directions_ > 1) work.ahead.add(out.layers[1].x + first * states_rows(), count * states_rows());
    layer(d).expect(first, count, out.layers[d], work.ahead);
    if (d == 0) work.ahead.add(out.y + first * tail_.out(), count * tail_.out());
  }
  void expect_back(int64_t d, int64_t first, int64_t count, const BlockSaved<T>& saved, const T* u_gradient,
                   BackWork& work) const {
    work.ahead.clear();
    add_rows_of(in_.u, first, count, work);
    work.ahead.add(saved.y_gradient + first * tail_.out(), count * tail_.out());
    layer(d).expect_back(first, count, saved.layers[d], work.ahead);
    if (d == 1) work.ahead.add(saved.layers[0].x + first * states_rows(), count * states_rows());
    add_rows_of(u_gradient, first, count, work);
  }

  // Computes the block's output from the states.
  S7_SHARED void finish(int64_t first, int64_t count, const BlockOutputs<T>& out, Work& work) const {
    const T* x[kDirections] = {out.layers[0].x, out.layers[1].x};
    read(first, count, x, work);
    T* y = work.y[0].data();
    if (out.z != nullptr) store_tile(y, count, width_, out.z + first * width_);
    end(first, count, y, work);
    tail_.store(y, count, out.y + first * tail_.out(), work.tail, work.ahead);
  }

  // The sums over events in the gradients of the weights: those of the layers' outputs and inputs, the gate, the norm
  // and the tail.
  int64_t sums_size() const { return tail_sums() + tail_.sums_size(); }
  int64_t read_sums(int64_t d) const { return d * first_.read_sums(); }
  int64_t drive_sums(int64_t d) const { return directions_ * first_.read_sums() + d * first_.drive_sums(); }
  int64_t gate_sums() const { return drive_sums(directions_); }
  int64_t norm_sums() const { return gate_sums() + gate_.sums_size(); }
  int64_t tail_sums() const { return norm_sums() + norm_.sums_size(); }

  // From the gradient of the block's output, computes those of the layers' input in `back` and of the states, for
  // direction d in adjoint[d]. The gradient before the tail, which `load_back` reads, is stored in `inner`.
  S7_SHARED void finish_back(int64_t first, int64_t count, const BlockSaved<T>& saved, T* inner,
                             std::array<T*, kDirections> adjoint, T* sums, BackWork& work) const {
    T* arriving = work.arriving.data();
    if (reads_twice()) {
      recall(first, count, saved, work);
    } else {
      prepare(first, count, saved, work);
    }
    if (has_tail()) {
      T* out = work.out.data();
      std::memcpy(out, work.y[0].data(), size_t(width_ * kTile) * sizeof(T));
      end(first, count, out, work);
      tail_.back(out, saved.y_gradient + first * tail_.out(), count, arriving, sums + tail_sums(), work.tail,
                 work.ahead);
      store_tile(arriving, count, width_, inner + first * width_);
    } else {
      load_tile(saved.y_gradient + first * width_, count, width_, arriving);
    }
    const T* by_event = work.padded.data();
    if (ends_in_gate()) {
      gate_.back(first, count, work.y[0].data(), arriving, sums + gate_sums(), work.gate);
      pad_tile(arriving, width_, first_.padded(), work.padded.data());
    } else {
      by_event = in_padded((has_tail() ? inner : saved.y_gradient) + first * width_, count, width_, first_.padded(),
                           work.padded.data());
    }
    std::memset(work.back.data(), 0, size_t(width_ * kTile) * sizeof(T));
    for (int64_t d = 0; d < directions_; ++d)
      layer(d).read_back(work.rows.data(), count, arriving, by_event, work.back.data(), adjoint[d], sums + read_sums(d),
                         *work.layers[d]);
  }

  // Computes the gradient of u from that of the layers' input in `back`.
  S7_SHARED void load_back(int64_t first, int64_t count, const BlockSaved<T>& saved, const T* inner, T* u_gradient,
                           T* sums, BackWork& work) const {
    T* back = work.back.data();
    if (norm_.active()) norm_.back(work.plain.data(), count, back, sums + norm_sums());
    if (shape_.skip) {
      load_tile((has_tail() ? inner : saved.y_gradient) + first * width_, count, width_, work.arriving.data());
      add_rows(work.arriving.data(), width_, back);
    }
    store_tile(back, count, width_, u_gradient + first * width_);
  }

  void unpack(const T* sums, const BlockGradients<T>& out, Pool pool) const {
    for (int64_t d = 0; d < directions_; ++d)
      layer(d).unpack(sums + read_sums(d), sums + drive_sums(d), out.layers[d], pool);
    gate_.unpack_weights(sums + gate_sums(), out.gate_W, out.gate_c, pool);
    norm_.unpack(sums + norm_sums(), out.scale, out.shift, out.mean);
    tail_.unpack(sums + tail_sums(), out, pool);
  }

 private:
  int64_t states_rows() const { return shape_.layer.rows(); }

  void add_rows_of(const T* array, int64_t first, int64_t count, Work& work) const {
    work.ahead.add(array + first * width_, count * width_);
  }

  bool ends_in_gate() const { return in_.gate_W != nullptr || shape_.threshold > 0; }

  // Whether the gradient needs the layers' outputs again.
  bool reads_twice() const { return ends_in_gate() || has_tail(); }

  // Replaces the layers' outputs by the block's output before its tail.
  void end(int64_t first, int64_t count, T* y, Work& work) const {
    if (ends_in_gate()) gate_.apply(first, count, y, work.gate);
    if (shape_.skip) add_rows(plain(work), width_, y);
  }

  // The rows of u before the norm.
  const T* plain(const Work& work) const { return norm_.active() ? work.plain.data() : work.rows.data(); }

  // Computes the sum of the layers' outputs in y[0].
  void read(int64_t first, int64_t count, const T* const* x, Work& work) const {
    for (int64_t d = 0; d < directions_; ++d)
      layer(d).read(work.rows.data(), first, count, x[d], work.y[d].data(), *work.layers[d]);
    if (directions_ > 1) add_rows(work.y[1].data(), width_, work.y[0].data());
  }

  // Brings back what `read` left: the sum of the outputs, loaded or computed again, and the layers' rows.
  void recall(int64_t first, int64_t count, const BlockSaved<T>& saved, Work& work) const {
    const T* x[kDirections] = {saved.layers[0].x, saved.layers[1].x};
    if (saved.z == nullptr) return read(first, count, x, work);
    prepare(first, count, saved, work);
    load_tile(saved.z + first * width_, count, width_, work.y[0].data());
  }

  void prepare(int64_t first, int64_t count, const BlockSaved<T>& saved, Work& work) const {
    for (int64_t d = 0; d < directions_; ++d)
      layer(d).prepare(work.rows.data(), first, count, saved.layers[d].x, *work.layers[d]);
  }

  const BlockShape& shape_;
  const BlockInputs<T>& in_;
  const int64_t width_, directions_;
  const Norm<T> norm_;
  const Gate<T> gate_;
  const Tail<T> tail_;
  const Layer<T> first_;
  std::optional<const Layer<T>> second_;
};

}  // namespace s7::S7_ISA
