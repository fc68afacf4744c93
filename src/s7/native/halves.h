// The two halves of a block, before and after the recurrence, for blocks whose halves run on different events: the
// first on every event or on the rows of a table, the second on the last event of every window. window_block.h joins
// them.
//
//     drive:  w_k and B_k u_k + b from norm(u)
//     read:   out = tail(skip + keep · gate(Σ C_k x_k + D_k norm(u_k)))
#pragma once

#include <optional>

#include "gate.h"
#include "maps.h"
#include "norm.h"
#include "tail.h"

namespace s7::S7_ISA {

// w_k and B_k u_k + b of each direction.
template <class T>
struct DriveArrays {
  T *raw[kDirections], *input[kDirections];  // (events, state) and (events, rows)
};

// Up to two maps, one for each direction, of normalised inputs.
template <class T, class Map>
class Half {
 protected:
  template <class... Settings>
  Half(const BlockShape& shape, const BlockInputs<T>& in, const Settings&... settings)
      : events_(shape.layer.events()),
        width_(shape.layer.width),
        states_(shape.layer.state),
        rows_(shape.layer.rows()),
        directions_(shape.directions),
        layout_{width_, rows_, shape.layer.rank},
        norm_(shape.norm, width_, in.scale, in.shift, in.mean) {
    for_directions([&](int64_t d) { maps_[d].emplace(layout_, settings..., in.layers[d]); });
  }

  // Scratch memory of one thread. Each direction has its own.
  struct Work {
    explicit Work(const Half& half) : back(half.layout_.size()), plain(half.width_ * kTile) {
      half.for_directions([&](int64_t d) {
        rows[d] = Buffer<T>(half.layout_.size());
        rows[d].clear();
        maps[d].emplace(*half.maps_[d], ahead);
      });
    }

    Lookahead ahead;  // to which the others refer
    Buffer<T> rows[kDirections], back, plain;
    std::optional<typename Map::Work> maps[kDirections];
  };

  template <class F>
  void for_directions(F task) const {
    for (int64_t d = 0; d < directions_; ++d) task(d);
  }

  // Loads normalised u and the row of ones, for every direction.
  void load_normalised(const T* u, int64_t count, Work& work) const {
    load_input(u, count, width_, work.rows[0].data());
    if (norm_.active()) norm_.apply(work.rows[0].data(), work.rows[0].data());  // in place
    if (directions_ > 1)
      std::memcpy(work.rows[1].data(), work.rows[0].data(), size_t((width_ + 1) * kTile) * sizeof(T));
  }

  void clear_back(Work& work) const { std::memset(work.back.data(), 0, size_t((width_ + 1) * kTile) * sizeof(T)); }

  // Replaces the gradient of normalised u in `work.back` by that of u.
  void normalise_back(const T* u, int64_t count, T* sums, Work& work) const {
    if (!norm_.active()) return;
    load_tile(u, count, width_, work.plain.data());
    norm_.back(work.plain.data(), count, work.back.data(), sums);
  }

  int64_t sums_size() const { return directions_ * maps_[0]->sums_size(); }

  void unpack(Sums<T>& sums, Sums<T>& norm_sums, const BlockGradients<T>& out, Pool pool) const {
    const T* total = sums.total(pool);
    for_directions([&](int64_t d) { maps_[d]->unpack(total + d * maps_[d]->sums_size(), out.layers[d], pool); });
    norm_.unpack(norm_sums.total(pool), out.scale, out.shift, out.mean);
  }

  const int64_t events_, width_, states_, rows_, directions_;
  const Layout layout_;
  const Norm<T> norm_;
  std::optional<Map> maps_[kDirections];
};

// The arguments of a map in the order that `Half` gives them.
template <class T>
struct DriveMap : InputMap<T> {
  DriveMap(const Layout& layout, int64_t states, Layouts layouts, const LayerInputs<T>& in)
      : InputMap<T>(layout, states, in, layouts) {}
};

template <class T>
struct ReadMap : OutputMap<T> {
  ReadMap(const Layout& layout, Direct direct, Layouts layouts, bool finishes, const LayerInputs<T>& in)
      : OutputMap<T>(layout, direct, in, layouts, finishes) {}
};

// The first half. u has as many rows as the shape has events.
template <class T>
class DriveHalf : Half<T, DriveMap<T>> {
  using Base = Half<T, DriveMap<T>>;
  using typename Base::Work;

 public:
  DriveHalf(const BlockShape& shape, const BlockInputs<T>& in, Layouts layouts)
      : Base(shape, in, shape.layer.state, layouts), u_(in.u) {}

  void forward(const DriveArrays<T>& out, Pool pool) const {
    const Chunks chunks = Chunks::small(this->events_);
    parallel(pool, chunks.count, [&](int64_t chunk) {
      Work work(*this);
      chunks.for_tiles(chunk, [&](int64_t first, int64_t count) {
        this->load_normalised(u_ + first * this->width_, count, work);
        this->for_directions([&](int64_t d) {
          auto& found = *work.maps[d];
          this->maps_[d]->apply(work.rows[d].data(), count, found);
          store_tile(found.raw, count, this->states_, out.raw[d] + first * this->states_);
          store_tile(found.drive, count, this->rows_, out.input[d] + first * this->rows_);
        });
      });
    });
  }

  void gradient(const DriveArrays<T>& arriving, const BlockGradients<T>& out, Pool pool) const {
    const Chunks chunks = Chunks::of(this->events_);
    Sums<T> sums(chunks, this->sums_size()), norm_sums(chunks, this->norm_.sums_size());
    parallel(pool, chunks.count, [&](int64_t chunk) {
      Work work(*this);
      sums.clear(chunk);
      norm_sums.clear(chunk);
      chunks.for_tiles(chunk, [&](int64_t first, int64_t count) {
        const T* u = u_ + first * this->width_;
        this->load_normalised(u, count, work);
        this->clear_back(work);
        this->for_directions([&](int64_t d) {
          auto& of = *work.maps[d];
          load_tile(arriving.raw[d] + first * this->states_, count, this->states_, of.raw);
          load_tile(arriving.input[d] + first * this->rows_, count, this->rows_, of.drive);
          T* here = sums.of(chunk) + d * this->maps_[d]->sums_size();
          this->maps_[d]->back(work.rows[d].data(), count, work.back.data(), here, of);
        });
        this->normalise_back(u, count, norm_sums.of(chunk), work);
        store_tile(work.back.data(), count, this->width_, out.u + first * this->width_);
      });
    });
    this->unpack(sums, norm_sums, out, pool);
  }

 private:
  const T* const u_;
};

// The second half. `ends` gives the inputs where the states are read and what is added to the output:
//
//     const T* last(first, count, scratch)    the inputs, event-major
//     const T* skip(first, count, scratch)    what is added, or null
//     bool skips_last()                       whether these are the same
template <class T>
class ReadHalf : Half<T, ReadMap<T>> {
  using Base = Half<T, ReadMap<T>>;

 public:
  ReadHalf(const BlockShape& shape, const BlockInputs<T>& in, Layouts layouts)
      : Base(shape, in, shape.layer.direct, layouts, ends_in_gate(shape, in) || Tail<T>::exists(shape)),
        gated_(ends_in_gate(shape, in)),
        tail_(shape, in, layouts),
        gate_({shape.layer.batch, shape.layer.length, shape.layer.width, shape.threshold}, in.gate_W, in.gate_c,
              in.keys, layouts == Layouts::kBack ? Layouts::kBoth : layouts) {}

  template <class Ends>
  void forward(const Ends& ends, const T* const* x, T* out, Pool pool) const {
    const Chunks chunks = Chunks::small(this->events_);
    parallel(pool, chunks.count, [&](int64_t chunk) {
      Work work(*this);
      chunks.for_tiles(chunk, [&](int64_t first, int64_t count) {
        this->load_normalised(ends.last(first, count, work.ends.data()), count, work);
        prepare(x, first, count, work);
        finish(count, work);
        T* y = work.y[0].data();
        end(ends, first, count, y, work);
        tail_.store(y, count, out + first * tail_.out(), work.tail, work.ahead);
      });
    });
  }

  bool has_tail() const { return tail_.active(); }

  // Computes the gradients of the states, of the inputs where they are read, and of the weights. If there is a tail,
  // also computes the gradient before it in `inner`.
  template <class Ends>
  void gradient(const Ends& ends, const T* const* x, const T* y_gradient, T* inner, T* const* x_gradient,
                T* last_gradient, const BlockGradients<T>& out, Pool pool) const {
    const Chunks chunks = Chunks::of(this->events_);
    Sums<T> sums(chunks, this->sums_size()), norm_sums(chunks, this->norm_.sums_size());
    Sums<T> gate_sums(chunks, gate_.sums_size()), tail_sums(chunks, tail_.sums_size());
    parallel(pool, chunks.count, [&](int64_t chunk) {
      Work work(*this);
      sums.clear(chunk);
      norm_sums.clear(chunk);
      gate_sums.clear(chunk);
      tail_sums.clear(chunk);
      chunks.for_tiles(chunk, [&](int64_t first, int64_t count) {
        const T* last = ends.last(first, count, work.ends.data());
        this->load_normalised(last, count, work);
        prepare(x, first, count, work);
        if (gated_ || has_tail()) finish(count, work);
        const T* here = y_gradient + first * tail_.out();
        if (has_tail()) here = tail_back(ends, here, first, count, inner, tail_sums.of(chunk), work);
        const T* by_event = arriving(here, first, count, gate_sums.of(chunk), work);
        this->clear_back(work);
        this->for_directions([&](int64_t d) {
          T* of_maps = sums.of(chunk) + d * this->maps_[d]->sums_size();
          this->maps_[d]->back(work.rows[d].data(), work.arriving.data(), by_event, count, work.back.data(), of_maps,
                               *work.maps[d]);
          store_tile(work.back.data() + this->layout_.state_row() * kTile, count, this->rows_,
                     x_gradient[d] + first * this->rows_);
        });
        this->normalise_back(last, count, norm_sums.of(chunk), work);
        if (ends.skips_last()) add_tile(here, count, this->width_, work.plain.data(), work.back.data());
        store_tile(work.back.data(), count, this->width_, last_gradient + first * this->width_);
      });
    });
    this->unpack(sums, norm_sums, out, pool);
    gate_.unpack_weights(gate_sums.total(pool), out.gate_W, out.gate_c, pool);
    tail_.unpack(tail_sums.total(pool), out, pool);
  }

 private:
  struct Work : Base::Work {
    explicit Work(const ReadHalf& half)
        : Base::Work(half),
          ends(half.width_ * kTile),
          added(half.width_ * kTile),
          out(half.has_tail() ? half.width_ * kTile : 0),
          arriving(half.width_ * kTile),
          padded(half.maps_[0]->padded() * kTile),
          gate(half.gate_, this->ahead),
          tail(half.tail_) {
      half.for_directions([&](int64_t d) { y[d] = Buffer<T>(half.width_ * kTile); });
    }

    Buffer<T> y[kDirections], ends, added, out, arriving, padded;
    typename Gate<T>::Work gate;
    typename Tail<T>::Work tail;
  };

  static bool ends_in_gate(const BlockShape& shape, const BlockInputs<T>& in) {
    return in.gate_W != nullptr || shape.threshold > 0;
  }

  void prepare(const T* const* x, int64_t first, int64_t count, Work& work) const {
    this->for_directions([&](int64_t d) {
      T* rows = work.rows[d].data();
      load_tile(x[d] + first * this->rows_, count, this->rows_, rows + this->layout_.state_row() * kTile);
      this->maps_[d]->prepare(rows, count, *work.maps[d]);
    });
  }

  // Computes the sum of the outputs of both directions in y[0].
  void finish(int64_t count, Work& work) const {
    this->for_directions(
        [&](int64_t d) { this->maps_[d]->finish(work.rows[d].data(), count, *work.maps[d], work.y[d].data()); });
    if (this->directions_ > 1) add_rows(work.y[1].data(), this->width_, work.y[0].data());
  }

  // Replaces the sum of the outputs by the block's output before its tail.
  template <class Ends>
  void end(const Ends& ends, int64_t first, int64_t count, T* y, Work& work) const {
    if (gated_) gate_.apply(first, count, y, work.gate);
    const T* skip = ends.skip(first, count, work.added.data());
    if (skip != nullptr) add_tile(skip, count, this->width_, work.plain.data(), y);
  }

  // Computes the gradient before the tail, and returns it event-major.
  template <class Ends>
  const T* tail_back(const Ends& ends, const T* y_gradient, int64_t first, int64_t count, T* inner, T* sums,
                     Work& work) const {
    T *out = work.out.data(), *gradient = work.arriving.data();
    std::memcpy(out, work.y[0].data(), size_t(this->width_ * kTile) * sizeof(T));
    end(ends, first, count, out, work);
    tail_.back(out, y_gradient, count, gradient, sums, work.tail, work.ahead);
    store_tile(gradient, count, this->width_, inner + first * this->width_);
    return inner + first * this->width_;
  }

  // Computes the gradient of the sum of the outputs in `work.arriving`, and returns it event-major.
  const T* arriving(const T* y_gradient, int64_t first, int64_t count, T* gate_sums, Work& work) const {
    const int64_t padded = this->maps_[0]->padded();
    load_tile(y_gradient, count, this->width_, work.arriving.data());
    if (!gated_) return in_padded(y_gradient, count, this->width_, padded, work.padded.data());
    gate_.back(first, count, work.y[0].data(), work.arriving.data(), gate_sums, work.gate);
    pad_tile(work.arriving.data(), this->width_, padded, work.padded.data());
    return work.padded.data();
  }

  const bool gated_;
  const Tail<T> tail_;
  const Gate<T> gate_;
};

}  // namespace s7::S7_ISA
