// A block and its gradient: norm, one layer or two in opposite directions, gate, dropout and skip.
//
//     z = Σ layer(norm(u))           out = u + keep · z · σ(W gelu(z) + c)
//
// Everything that depends on a single event is computed tile by tile, in parallel over all events of the batch. The
// recurrences run between two such passes, in parallel over sequences and directions. The gradient has the same
// structure in reverse. It recomputes what takes more memory than the states.
#pragma once

#include <optional>

#include "gate.h"
#include "layer.h"
#include "norm.h"

namespace s7::S7_ISA {

template <class T>
class FusedBlock {
 public:
  FusedBlock(const BlockShape& shape, const BlockInputs<T>& in, Layouts layouts)
      : shape_(shape),
        in_(in),
        width_(shape.layer.width),
        directions_(shape.directions),
        norm_(shape.norm, width_, in.scale, in.shift, in.mean),
        gate_({shape.layer.batch, shape.layer.length, width_, shape.threshold}, in.gate_W, in.gate_c, in.keys,
              layouts == Layouts::kBack ? Layouts::kBoth : layouts),
        first_(shape.layer, in.layers[0], layouts, ends_in_gate()) {
    layers_[0] = &first_;
    if (directions_ < 2) return;
    LayerShape opposite = shape.layer;
    opposite.reverse = !opposite.reverse;
    second_.emplace(opposite, in.layers[1], layouts, ends_in_gate());
    layers_[1] = &*second_;
  }

  void forward(const BlockOutputs<T>& out, Pool pool) const {
    const Chunks chunks = Chunks::small(shape_.layer.events());
    const States a(*this);
    parallel(pool, chunks.count, [&](int64_t chunk) {
      Work work(*this);
      chunks.for_tiles(chunk, [&](int64_t first, int64_t count) {
        load_normalised(first, count, work.rows[0].data());
        for_directions([&](int64_t d) {
          layers_[d]->drive(work.rows[0].data(), first, count, out.layers[d], a.of[d].data(), *work.layers[d]);
        });
      });
    });
    parallel(pool, shape_.layer.batch * directions_, [&](int64_t task) {
      const int64_t d = task % directions_;
      layers_[d]->run(task / directions_, a.of[d].data(), out.layers[d].x);
    });
    parallel(pool, chunks.count, [&](int64_t chunk) {
      Work work(*this);
      typename Gate<T>::Work gate_work(gate_);
      chunks.for_tiles(chunk, [&](int64_t first, int64_t count) {
        load_normalised(first, count, work.rows[0].data());
        const T* x[kDirections] = {out.layers[0].x, out.layers[1].x};
        read(first, count, x, work);
        T* y = work.y[0].data();
        if (out.z != nullptr) store_tile(y, count, width_, out.z + first * width_);
        if (ends_in_gate()) gate_.apply(first, count, y, gate_work);
        if (shape_.skip) add_tile(in_.u + first * width_, count, width_, work.plain.data(), y);
        store_tile(y, count, width_, out.y + first * width_);
      });
    });
  }

  void gradient(const BlockSaved<T>& saved, const BlockGradients<T>& out, Pool pool) const {
    const Chunks chunks = Chunks::of(shape_.layer.events());
    const States a(*this), adjoint(*this);
    Sums<T> read_sums(chunks, directions_ * first_.read_sums()), drive_sums(chunks, directions_ * first_.drive_sums());
    Sums<T> gate_sums(chunks, gate_.sums_size()), norm_sums(chunks, norm_.sums_size());
    parallel(pool, chunks.count, [&](int64_t chunk) {
      read_sums.clear(chunk);
      gate_sums.clear(chunk);
      before_the_scan(chunks, chunk, saved, out.u, a, adjoint, read_sums.of(chunk), gate_sums.of(chunk));
    });
    parallel(pool, shape_.layer.batch * directions_, [&](int64_t task) {
      const int64_t d = task % directions_;
      layers_[d]->run_back(task / directions_, a.of[d].data(), saved.layers[d], adjoint.of[d].data(),
                           out.layers[d].initial);
    });
    parallel(pool, chunks.count, [&](int64_t chunk) {
      drive_sums.clear(chunk);
      norm_sums.clear(chunk);
      after_the_scan(chunks, chunk, saved, adjoint, out, drive_sums.of(chunk), norm_sums.of(chunk));
    });
    const T *of_read = read_sums.total(pool), *of_drive = drive_sums.total(pool);
    for_directions([&](int64_t d) {
      layers_[d]->unpack(of_read + d * first_.read_sums(), of_drive + d * first_.drive_sums(), out.layers[d], pool);
    });
    gate_.unpack_weights(gate_sums.total(pool), out.gate_W, out.gate_c, pool);
    norm_.unpack(norm_sums.total(pool), out.scale, out.shift, out.mean);
  }

 private:
  // An array of the size of the states for each direction.
  struct States {
    explicit States(const FusedBlock& block) {
      const LayerShape& shape = block.shape_.layer;
      block.for_directions([&](int64_t d) { of[d] = Buffer<T>(shape.events() * shape.rows()); });
    }
    mutable Buffer<T> of[kDirections];
  };

  // Scratch memory of one thread. Each direction has rows, outputs and scratch memory of its own.
  struct Work {
    explicit Work(const FusedBlock& block) : plain(block.width_ * kTile) {
      block.for_directions([&](int64_t d) {
        rows[d] = Buffer<T>(block.first_.layout().size());
        rows[d].clear();
        y[d] = Buffer<T>(block.width_ * kTile);
        layers[d].emplace(*block.layers_[d]);
      });
    }

    Buffer<T> rows[kDirections], y[kDirections], plain;
    std::optional<typename Layer<T>::Work> layers[kDirections];
  };

  template <class F>
  void for_directions(F task) const {
    for (int64_t d = 0; d < directions_; ++d) task(d);
  }

  bool ends_in_gate() const { return in_.gate_W != nullptr || shape_.threshold > 0; }

  // Loads the rows of a tile that the layers read: normalised u, and the row of ones.
  void load_normalised(int64_t first, int64_t count, T* rows) const {
    load_input(in_.u + first * width_, count, width_, rows);
    norm_.apply(rows);
  }

  // Computes the sum of the layers' outputs in y[0], from the input in rows[0].
  void read(int64_t first, int64_t count, const T* const* x, Work& work) const {
    if (directions_ > 1) copy_input(work);
    for_directions([&](int64_t d) {
      layers_[d]->read(work.rows[d].data(), first, count, x[d], work.y[d].data(), *work.layers[d]);
    });
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
    if (directions_ > 1) copy_input(work);
    for_directions(
        [&](int64_t d) { layers_[d]->prepare(work.rows[d].data(), first, count, saved.layers[d].x, *work.layers[d]); });
  }

  void copy_input(Work& work) const {
    std::memcpy(work.rows[1].data(), work.rows[0].data(), size_t((width_ + 1) * kTile) * sizeof(T));
  }

  // From the gradient of the output, computes the gradients of the states and the gradient of the layers' input through
  // C_k and D_k. The latter stays in tile layout in u_gradient until `after_the_scan` adds to it.
  void before_the_scan(const Chunks& chunks, int64_t chunk, const BlockSaved<T>& saved, T* u_gradient, const States& a,
                       const States& adjoint, T* read_sums, T* gate_sums) const {
    Work work(*this);
    Buffer<T> back(first_.layout().size()), arriving(width_ * kTile), padded(first_.padded() * kTile);
    typename Gate<T>::Work gate_work(gate_);
    chunks.for_tiles(chunk, [&](int64_t first, int64_t count) {
      load_normalised(first, count, work.rows[0].data());
      load_tile(saved.y_gradient + first * width_, count, width_, arriving.data());
      const T* by_event = padded.data();
      if (ends_in_gate()) {
        recall(first, count, saved, work);
        gate_.back(first, count, work.y[0].data(), arriving.data(), gate_sums, gate_work);
        pad_tile(arriving.data(), width_, first_.padded(), padded.data());
      } else {
        prepare(first, count, saved, work);
        by_event = in_padded(saved.y_gradient + first * width_, count, width_, first_.padded(), padded.data());
      }
      back.clear();
      for_directions([&](int64_t d) {
        layers_[d]->read_back(work.rows[d].data(), first, count, saved.layers[d], arriving.data(), by_event,
                              back.data(), a.of[d].data(), adjoint.of[d].data(), read_sums + d * first_.read_sums(),
                              *work.layers[d]);
      });
      keep_tile(back.data(), count, width_, u_gradient + first * width_);
    });
  }

  // From the adjoints of the states, computes the gradients of u and the gaps.
  void after_the_scan(const Chunks& chunks, int64_t chunk, const BlockSaved<T>& saved, const States& adjoint,
                      const BlockGradients<T>& out, T* drive_sums, T* norm_sums) const {
    Work work(*this);
    Buffer<T> back(first_.layout().size());
    back.clear();  // once is enough: take_tile overwrites the rows of u, and the other rows are not read here
    chunks.for_tiles(chunk, [&](int64_t first, int64_t count) {
      load_normalised(first, count, work.rows[0].data());
      take_tile(out.u + first * width_, count, width_, back.data());
      for_directions([&](int64_t d) {
        layers_[d]->drive_back(work.rows[0].data(), first, count, saved.layers[d], adjoint.of[d].data(), back.data(),
                               out.layers[d].dt, drive_sums + d * first_.drive_sums(), *work.layers[d]);
      });
      if (norm_.active()) {
        load_tile(in_.u + first * width_, count, width_, work.plain.data());
        norm_.back(work.plain.data(), count, back.data(), norm_sums);
      }
      if (shape_.skip) add_tile(saved.y_gradient + first * width_, count, width_, work.plain.data(), back.data());
      store_tile(back.data(), count, width_, out.u + first * width_);
    });
  }

  const BlockShape& shape_;
  const BlockInputs<T>& in_;
  const int64_t width_, directions_;
  const Norm<T> norm_;
  const Gate<T> gate_;
  const Layer<T> first_;
  std::optional<const Layer<T>> second_;
  const Layer<T>* layers_[kDirections] = {};
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
