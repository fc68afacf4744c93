// A block and its gradient: norm, one layer or two in opposite directions, gate, dropout, skip and tail.
//
//     z = Σ layer(norm(u))           out = tail(u + keep · z · σ(W gelu(z) + c))
//
// There are two ways through the events. Both give the same outputs.
//
// - Along sequences: each task takes a sequence and computes a tile of events completely, including its part of the
//   recurrence, before the next tile. All intermediate results stay in cache. A second direction needs a pass of its
//   own.
// - By chunks, for few or short sequences and for full forms: everything that depends on a single event is computed in
//   parallel over tiles, and the recurrences run between two such passes, in parallel over sequences and directions.
//
// The gradient has the same structure in reverse. It recomputes what takes more memory than the states.
#pragma once

#include "block_tiles.h"

namespace s7::S7_ISA {

template <class T>
class FusedBlock {
 public:
  FusedBlock(const BlockShape& shape, const BlockInputs<T>& in, Layouts layouts)
      : layer_shape_(shape.layer), directions_(shape.directions), in_(in), tiles_(shape, in, layouts) {}

  void forward(const BlockOutputs<T>& out, Pool pool) const {
    if (!by_sequences()) return forward_by_chunks(out, pool);
    parallel(pool, layer_shape_.batch, [&](int64_t n) {
      typename BlockTiles<T>::Work work(tiles_);
      Buffer<T> a(rows() * kTile);
      if (directions_ > 1) drive_sequence(1, n, out, a.data(), work, [](int64_t, int64_t) {});
      drive_sequence(0, n, out, a.data(), work,
                     [&](int64_t first, int64_t count) { tiles_.finish(first, count, out, work); });
    });
  }

  void gradient(const BlockSaved<T>& saved, const BlockGradients<T>& out, Pool pool) const {
    Buffer<T> inner(tiles_.has_tail() ? layer_shape_.events() * layer_shape_.width : 0);
    if (!by_sequences()) return gradient_by_chunks(saved, inner.data(), out, pool);
    const int64_t batch = layer_shape_.batch, tasks = batch < kMostSums ? batch : kMostSums;
    Sums<T> sums(tasks, tiles_.sums_size());
    parallel(pool, tasks, [&](int64_t task) {
      sums.clear(task);
      typename BlockTiles<T>::BackWork work(tiles_);
      Buffer<T> a(rows() * kTile), adjoint(rows() * kTile);
      Buffer<T> waiting(directions_ > 1 ? layer_shape_.length * rows() : 0);
      for (int64_t n = task * batch / tasks; n < (task + 1) * batch / tasks; ++n) {
        if (directions_ > 1)
          second_direction_back(n, saved, inner.data(), out, a.data(), adjoint.data(), waiting.data(), sums.of(task),
                                work);
        first_direction_back(n, saved, inner.data(), out, a.data(), adjoint.data(), waiting.data(), sums.of(task),
                             work);
      }
    });
    tiles_.unpack(sums.total(pool), out, pool);
  }

 private:
  // An array of the size of the states for each direction.
  struct States {
    explicit States(const FusedBlock& block) {
      for (int64_t d = 0; d < block.directions_; ++d)
        of[d] = Buffer<T>(block.layer_shape_.events() * block.layer_shape_.rows());
    }
    mutable Buffer<T> of[kDirections];
  };

  int64_t rows() const { return layer_shape_.rows(); }
  bool reads_from_end(int64_t d) const { return layer_shape_.reverse != (d == 1); }

  // Enough sequences for the threads of most machines, tiles that are mostly full, and weights that stay in cache from
  // tile to tile. The choice must not depend on the number of threads, because the order of sums depends on it.
  bool by_sequences() const {
    const LayerInputs<T>& layer = in_.layers[0];
    const bool small = layer.W_B == nullptr && layer.W_C == nullptr && layer_shape_.direct != Direct::kFull;
    const int64_t length = layer_shape_.length, tiles = (length + kTile - 1) / kTile;
    return small && layer_shape_.batch >= 8 && length >= kTile && 4 * length >= 3 * tiles * kTile;
  }

  // Along sequences ---------------------------------------------------------------------------------------------------

  // Calls task(first event, number of events) for each tile of sequence n, from the last to the first if `reverse`.
  // Before each task, calls expect(first event, number of events) for the next tile.
  template <class E, class F>
  void for_tiles(int64_t n, bool reverse, E expect, F task) const {
    const int64_t length = layer_shape_.length, tiles = (length + kTile - 1) / kTile;
    const auto with_tile = [&](int64_t t, auto call) {
      const int64_t at = (reverse ? tiles - 1 - t : t) * kTile, left = length - at;
      call(n * length + at, left < kTile ? left : kTile);
    };
    for (int64_t t = 0; t < tiles; ++t) {
      if (t + 1 < tiles) with_tile(t + 1, expect);
      with_tile(t, task);
    }
  }

  // Computes the states of direction d along sequence n, and calls finish(first event, number of events) after each
  // tile.
  template <class F>
  void drive_sequence(int64_t d, int64_t n, const BlockOutputs<T>& out, T* a, typename BlockTiles<T>::Work& work,
                      F finish) const {
    const Layer<T>& layer = tiles_.layer(d);
    const bool reverse = reads_from_end(d);
    const T* before = in_.layers[d].initial + n * rows();
    const auto expect = [&](int64_t first, int64_t count) { tiles_.expect(d, first, count, out, work); };
    for_tiles(n, reverse, expect, [&](int64_t first, int64_t count) {
      T* x = out.layers[d].x + first * rows();
      tiles_.load(first, count, work);
      layer.drive(work.rows.data(), first, count, out.layers[d], a, *work.layers[d]);
      layer.run(count, a, before, x);
      before = reverse ? x : x + (count - 1) * rows();
      finish(first, count);
    });
  }

  // Computes the gradients of the second direction along sequence n, which runs first because it needs nothing else.
  // The gradient of the states of the first direction waits for its own pass, and so does that of the layers' input, in
  // tile layout in out.u.
  void second_direction_back(int64_t n, const BlockSaved<T>& saved, T* inner, const BlockGradients<T>& out, T* a,
                             T* adjoint, T* waiting, T* sums, typename BlockTiles<T>::BackWork& work) const {
    start_adjoint(1, n, saved, out);
    const auto expect = [&](int64_t first, int64_t count) { tiles_.expect_back(1, first, count, saved, out.u, work); };
    for_tiles(n, !reads_from_end(1), expect, [&](int64_t first, int64_t count) {
      tiles_.load(first, count, work);
      tiles_.finish_back(first, count, saved, inner, {waiting + (first - n * layer_shape_.length) * rows(), adjoint},
                         sums, work);
      drive_back(1, n, first, count, saved, out, a, adjoint, sums, work);
      keep_tile(work.back.data(), count, layer_shape_.width, out.u + first * layer_shape_.width);
    });
  }

  void first_direction_back(int64_t n, const BlockSaved<T>& saved, T* inner, const BlockGradients<T>& out, T* a,
                            T* adjoint, T* waiting, T* sums, typename BlockTiles<T>::BackWork& work) const {
    start_adjoint(0, n, saved, out);
    const auto expect = [&](int64_t first, int64_t count) { tiles_.expect_back(0, first, count, saved, out.u, work); };
    for_tiles(n, !reads_from_end(0), expect, [&](int64_t first, int64_t count) {
      tiles_.load(first, count, work);
      if (directions_ > 1) {
        take_tile(out.u + first * layer_shape_.width, count, layer_shape_.width, work.back.data());
        adjoint = waiting + (first - n * layer_shape_.length) * rows();
      } else {
        tiles_.finish_back(first, count, saved, inner, {adjoint, nullptr}, sums, work);
      }
      drive_back(0, n, first, count, saved, out, a, adjoint, sums, work);
      tiles_.load_back(first, count, saved, inner, out.u, sums, work);
    });
  }

  // While a sequence is processed, `initial` of its gradients holds the gradient of the state after the tiles to come.
  void start_adjoint(int64_t d, int64_t n, const BlockSaved<T>& saved, const BlockGradients<T>& out) const {
    std::memcpy(out.layers[d].initial + n * rows(), saved.layers[d].final_gradient + n * rows(),
                size_t(rows()) * sizeof(T));
  }

  // Runs the recurrence of the adjoint through a tile, and computes the gradients of the drive.
  void drive_back(int64_t d, int64_t n, int64_t first, int64_t count, const BlockSaved<T>& saved,
                  const BlockGradients<T>& out, T* a, T* adjoint, T* sums,
                  typename BlockTiles<T>::BackWork& work) const {
    const Layer<T>& layer = tiles_.layer(d);
    T* passed = out.layers[d].initial + n * rows();
    layer.recompute_factor(first, count, saved.layers[d], a, *work.layers[d]);
    layer.run_back(count, a, passed, adjoint, passed);
    layer.drive_back(work.rows.data(), first, count, saved.layers[d], adjoint, work.back.data(), out.layers[d].dt,
                     sums + tiles_.drive_sums(d), *work.layers[d]);
  }

  // By chunks ---------------------------------------------------------------------------------------------------------

  void forward_by_chunks(const BlockOutputs<T>& out, Pool pool) const {
    const Chunks chunks = Chunks::small(layer_shape_.events());
    const States a(*this);
    parallel(pool, chunks.count, [&](int64_t chunk) {
      typename BlockTiles<T>::Work work(tiles_);
      chunks.for_tiles(chunk, [&](int64_t first, int64_t count) {
        tiles_.load(first, count, work);
        for (int64_t d = 0; d < directions_; ++d)
          tiles_.layer(d).drive(work.rows.data(), first, count, out.layers[d], a.of[d].data() + first * rows(),
                                *work.layers[d]);
      });
    });
    for_sequences(pool, [&](int64_t n, int64_t d, int64_t at) {
      tiles_.layer(d).run(layer_shape_.length, a.of[d].data() + at, in_.layers[d].initial + n * rows(),
                          out.layers[d].x + at);
    });
    parallel(pool, chunks.count, [&](int64_t chunk) {
      typename BlockTiles<T>::Work work(tiles_);
      chunks.for_tiles(chunk, [&](int64_t first, int64_t count) {
        tiles_.load(first, count, work);
        tiles_.finish(first, count, out, work);
      });
    });
  }

  void gradient_by_chunks(const BlockSaved<T>& saved, T* inner, const BlockGradients<T>& out, Pool pool) const {
    const int64_t width = layer_shape_.width;
    const Chunks chunks = Chunks::of(layer_shape_.events());
    const States a(*this), adjoint(*this);
    Sums<T> sums(chunks.count, tiles_.sums_size());
    parallel(pool, chunks.count, [&](int64_t chunk) {
      sums.clear(chunk);
      typename BlockTiles<T>::BackWork work(tiles_);
      chunks.for_tiles(chunk, [&](int64_t first, int64_t count) {
        tiles_.load(first, count, work);
        for (int64_t d = 0; d < directions_; ++d)
          tiles_.layer(d).recompute_factor(first, count, saved.layers[d], a.of[d].data() + first * rows(),
                                           *work.layers[d]);
        tiles_.finish_back(first, count, saved, inner,
                           {adjoint.of[0].data() + first * rows(), adjoint.of[1].data() + first * rows()},
                           sums.of(chunk), work);
        keep_tile(work.back.data(), count, width, out.u + first * width);
      });
    });
    for_sequences(pool, [&](int64_t n, int64_t d, int64_t at) {
      tiles_.layer(d).run_back(layer_shape_.length, a.of[d].data() + at, saved.layers[d].final_gradient + n * rows(),
                               adjoint.of[d].data() + at, out.layers[d].initial + n * rows());
    });
    parallel(pool, chunks.count, [&](int64_t chunk) {
      typename BlockTiles<T>::BackWork work(tiles_);
      chunks.for_tiles(chunk, [&](int64_t first, int64_t count) {
        tiles_.load(first, count, work);
        take_tile(out.u + first * width, count, width, work.back.data());
        for (int64_t d = 0; d < directions_; ++d)
          tiles_.layer(d).drive_back(work.rows.data(), first, count, saved.layers[d],
                                     adjoint.of[d].data() + first * rows(), work.back.data(), out.layers[d].dt,
                                     sums.of(chunk) + tiles_.drive_sums(d), *work.layers[d]);
        tiles_.load_back(first, count, saved, inner, out.u, sums.of(chunk), work);
      });
    });
    tiles_.unpack(sums.total(pool), out, pool);
  }

  // Calls task(sequence, direction, offset of the sequence's states) in parallel.
  template <class F>
  void for_sequences(Pool pool, F task) const {
    parallel(pool, layer_shape_.batch * directions_, [&](int64_t t) {
      const int64_t n = t / directions_;
      task(n, t % directions_, n * layer_shape_.length * rows());
    });
  }

  const LayerShape& layer_shape_;
  const int64_t directions_;
  const BlockInputs<T>& in_;
  const BlockTiles<T> tiles_;
};

template <class T>
void block(const BlockShape& shape, const BlockInputs<T>& in, const BlockOutputs<T>& out, Pool pool) {
  FusedBlock<T>(shape, in, Layouts::kApply).forward(out, pool);
}

template <class T>
void block_gradient(const BlockShape& shape, const BlockInputs<T>& in, const BlockSaved<T>& saved,
                    const BlockGradients<T>& out, Pool pool) {
  FusedBlock<T>(shape, in, Layouts::kBack).gradient(saved, out, pool);
}

}  // namespace s7::S7_ISA
