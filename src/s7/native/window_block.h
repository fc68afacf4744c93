// A block that is read once per window of events, or whose events are rows of a table, and its gradient.
//
//     drive    w_k and B_k u_k + b of every event, or of every row of the table       (halves.h)
//     scan     the state at the end of every window                                   (windows.h)
//     read     z = Σ C x + D norm(u) at the last event of every window                (halves.h)
//              out = tail(skip + keep · gate(z))
//
// The skip adds the mean of a window or its last event (pooled_rows.h). The mean and the last event are gathered where
// they are read, a tile of windows at a time.
#pragma once

#include "halves.h"
#include "pooled_rows.h"
#include "windows.h"

namespace s7::S7_ISA {

template <class T>
class WindowBlock {
 public:
  WindowBlock(const WindowBlockShape& shape, const WindowBlockInputs<T>& in, Pool pool)
      : in_(in),
        pool_(pool),
        layer_(shape.block.layer),
        width_(layer_.width),
        directions_(shape.block.directions),
        windows_(layer_.batch * layer_.length / shape.stride),
        table_(shape.table),
        stride_(shape.stride),
        driven_(over(shape.block, table_ > 0 ? 1 : layer_.batch, table_ > 0 ? table_ : layer_.length)),
        read_(over(shape.block, layer_.batch, layer_.length / stride_)),
        pool_shape_{layer_.batch, layer_.length / stride_, stride_, width_, table_},
        pool_inputs_{in.block.u, in.token, in.share, in.last},
        pooled_(pool_shape_, pool_inputs_) {}

  void forward(const WindowBlockOutputs<T>& out) const {
    const Rows own(*this, out.raw[0] == nullptr);
    const DriveArrays<T> drive = own.or_else({{out.raw[0], out.raw[1]}, {out.drive[0], out.drive[1]}});
    DriveHalf<T>(driven_, in_.block, Layouts::kApply).forward(drive, pool_);
    for (int64_t d = 0; d < directions_; ++d)
      window_scan(scan_shape(d), scan_inputs(d, drive.raw[d], drive.input[d]), out.x[d], pool_);
    ReadHalf<T>(read_, in_.block, Layouts::kApply).forward(*this, out.x, out.y, pool_);
  }

  void gradient(const WindowBlockSaved<T>& saved, const WindowBlockGradients<T>& out) const {
    const int64_t rows = layer_.rows();
    Buffer<T> own_last(out.ends == nullptr ? windows_ * width_ : 0), of_norm(3 * width_);
    T* last = out.ends == nullptr ? own_last.data() : out.ends;
    Buffer<T> adjoint[kDirections];
    T* of_states[kDirections] = {};
    for (int64_t d = 0; d < directions_; ++d) {
      adjoint[d] = Buffer<T>(windows_ * rows);
      of_states[d] = adjoint[d].data();
    }
    const ReadHalf<T> read(read_, in_.block, Layouts::kBack);
    Buffer<T> inner(read.has_tail() ? windows_ * width_ : 0);  // the gradient before the tail
    const T* y_gradient = read.has_tail() ? inner.data() : saved.y_gradient;
    read.gradient(*this, saved.x, saved.y_gradient, inner.data(), of_states, last, out.block, pool_);

    const Rows own(*this, true);
    const DriveArrays<T> driven = own.or_else({});
    for (int64_t d = 0; d < directions_; ++d) {
      add_final(d, saved.final_gradient[d], of_states[d]);
      const LayerGradients<T>& layer = out.block.layers[d];
      window_scan_gradient(scan_shape(d), scan_inputs(d, saved.raw[d], saved.drive[d]), saved.x[d], of_states[d],
                           {layer.dt, layer.initial, driven.raw[d], driven.input[d], layer.omega, layer.decay}, pool_);
    }
    // Both halves have a gradient of the norm.
    BlockGradients<T> of_drive = out.block;
    if (out.block.scale != nullptr) of_drive.scale = of_norm.data();
    if (out.block.shift != nullptr) of_drive.shift = of_norm.data() + width_;
    if (out.block.mean != nullptr) of_drive.mean = of_norm.data() + 2 * width_;
    DriveHalf<T>(driven_, in_.block, Layouts::kBack).gradient(driven, of_drive, pool_);
    add(of_drive.scale, out.block.scale);
    add(of_drive.shift, out.block.shift);
    add(of_drive.mean, out.block.mean);
    pool_back(y_gradient, last, out);
  }

  // What ReadHalf asks for.
  const T* last(int64_t first, int64_t count, T* scratch) const {
    if (in_.ends != nullptr) return in_.ends + first * width_;
    for (int64_t m = 0; m < count; ++m) pooled_.copy_end(first + m, scratch + m * width_);
    return scratch;
  }
  const T* skip(int64_t first, int64_t count, T* scratch) const {
    if (!read_.skip) return nullptr;
    if (in_.skip != nullptr) return in_.skip + first * width_;
    if (in_.share == nullptr) return last(first, count, scratch);
    for (int64_t m = 0; m < count; ++m) pooled_.add_up(first + m, scratch + m * width_);
    return scratch;
  }
  bool skips_last() const { return read_.skip && in_.skip == nullptr && in_.share == nullptr; }

 private:
  // w_k and B_k u_k + b of every driven row, or their gradients, if no result holds them.
  struct Rows {
    Rows(const WindowBlock& block, bool wanted) {
      const LayerShape& layer = block.driven_.layer;
      for (int64_t d = 0; wanted && d < block.directions_; ++d) {
        raw[d] = Buffer<T>(layer.events() * layer.state);
        input[d] = Buffer<T>(layer.events() * layer.rows());
      }
    }

    DriveArrays<T> or_else(const DriveArrays<T>& results) const {
      if (raw[0].size() == 0) return results;
      return {{raw[0].data(), raw[1].data()}, {input[0].data(), input[1].data()}};
    }

    mutable Buffer<T> raw[kDirections], input[kDirections];
  };

  static BlockShape over(BlockShape shape, int64_t batch, int64_t length) {
    shape.layer.batch = batch;
    shape.layer.length = length;
    return shape;
  }

  bool reads_from_end(int64_t d) const { return layer_.reverse != (d == 1); }

  WindowShape scan_shape(int64_t d) const {
    WindowShape shape = {layer_, stride_, table_};
    shape.layer.reverse = reads_from_end(d);
    return shape;
  }

  WindowInputs<T> scan_inputs(int64_t d, const T* raw, const T* drive) const {
    const LayerInputs<T>& layer = in_.block.layers[d];
    return {in_.token, layer.dt, layer.marks, layer.initial, raw, drive, layer.omega, layer.decay};
  }

  // Adds the gradient of the final states to those of all states.
  void add_final(int64_t d, const T* final_gradient, T* of_states) const {
    const int64_t rows = layer_.rows(), each = windows_ / layer_.batch, at = reads_from_end(d) ? 0 : each - 1;
    for (int64_t n = 0; n < layer_.batch; ++n)
      for (int64_t p = 0; p < rows; ++p) of_states[(n * each + at) * rows + p] += final_gradient[n * rows + p];
  }

  void add(const T* more, T* to) const {
    for (int64_t h = 0; to != nullptr && h < width_; ++h) to[h] += more[h];
  }

  // The gradients through what was gathered from the windows.
  void pool_back(const T* y_gradient, const T* last_gradient, const WindowBlockGradients<T>& out) const {
    if (out.skip != nullptr) std::memcpy(out.skip, y_gradient, size_t(windows_ * width_) * sizeof(T));
    if (out.share != nullptr) pooled_.share_gradient(y_gradient, out.share, pool_);
    const T* of_mean = in_.share == nullptr ? nullptr : y_gradient;
    const T* of_last = in_.ends == nullptr ? last_gradient : nullptr;
    if (of_mean != nullptr || of_last != nullptr) pooled_.gradient(of_mean, of_last, true, out.block.u, pool_);
  }

  const WindowBlockInputs<T>& in_;
  const Pool pool_;
  const LayerShape layer_;
  const int64_t width_, directions_, windows_, table_, stride_;
  const BlockShape driven_, read_;
  const PoolShape pool_shape_;
  const PoolInputs<T> pool_inputs_;
  const PooledRows<T> pooled_;
};

template <class T>
void window_block(const WindowBlockShape& shape, const WindowBlockInputs<T>& in, const WindowBlockOutputs<T>& out,
                  Pool pool) {
  WindowBlock<T>(shape, in, pool).forward(out);
}

template <class T>
void window_block_gradient(const WindowBlockShape& shape, const WindowBlockInputs<T>& in,
                           const WindowBlockSaved<T>& saved, const WindowBlockGradients<T>& out, Pool pool) {
  WindowBlock<T>(shape, in, pool).gradient(saved, out);
}

}  // namespace s7::S7_ISA
