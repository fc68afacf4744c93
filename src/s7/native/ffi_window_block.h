// The block over windows of events or tokens as an XLA custom call.
//
// The order of the arrays is that of src/s7/native/window_blocks.py. Arrays that a block does not have are left out.
#pragma once

#include "ffi_block.h"

namespace s7 {
namespace {

// The sizes of a block over windows, and which arrays it has besides those of every block.
struct WindowBlockCall {
  BlockCall block;
  int64_t stride, table;
  bool tokens, ends, skip, last, share;

  WindowBlockShape shape() const { return {block.shape, stride, table}; }
  int64_t windows() const { return block.shape.layer.length / stride; }
  // The number of arrays before the weights: in the forward call, and of those that the gradient adds.
  size_t data() const {
    const size_t of_layer = size_t(1) + block.timed + block.marked;
    return 1 + ends + skip + last + share + of_layer * size_t(block.shape.directions) + (block.shape.threshold > 0);
  }
  size_t saved() const { return 1 + 4 * size_t(block.shape.directions); }
};

template <class T>
WindowBlockCall window_block_call(Arrays<T>& arrays, const ffi::Dictionary& attributes, bool is_gradient) {
  Settings settings(attributes);
  WindowBlockCall call = {};
  call.block = block_call(arrays, attributes);
  call.stride = settings.number("stride");
  call.tokens = settings.flag("tokens");
  call.ends = settings.flag("ends");
  call.skip = settings.flag("added");
  call.last = settings.flag("last");
  call.share = settings.flag("share");
  arrays.require(settings.missing().empty(), ("no attribute " + settings.missing()).c_str());
  LayerShape& layer = call.block.shape.layer;
  if (call.tokens) {
    const size_t table = call.data() + (is_gradient ? call.saved() : 0);
    call.table = arrays.size(table, 0);
    layer.width = arrays.size(table, 1);
  }
  if (call.stride < 1 || layer.length % call.stride != 0) {
    arrays.require(false, "the length is not a multiple of the stride");
    call.stride = 1;
  }
  return call;
}

template <class T>
WindowBlockInputs<T> window_block_data(Arrays<T>& arrays, const WindowBlockCall& call, const T*) {
  const LayerShape& layer = call.block.shape.layer;
  const int64_t N = layer.batch, L = layer.length, H = layer.width, M = call.windows();
  WindowBlockInputs<T> in = {};
  if (call.tokens) {
    in.token = arrays.take("token", {N, L});
  } else {
    in.block.u = arrays.take("values", {N, L, H});
  }
  if (call.ends) in.ends = arrays.take("ends", {N, M, H});
  if (call.skip) in.skip = arrays.take("skip", {N, M, H});
  if (call.last) in.last = arrays.take("last", {N, M});
  if (call.share) in.share = arrays.take("share", {N, L});
  take_data(arrays, call.block, in.block);
  if (arrays.fit() && in.last != nullptr)
    arrays.require(all_below(in.last, N * M, T(call.stride)), "a last event is not in its window");
  if (arrays.fit() && in.token != nullptr)
    arrays.require(all_below(in.token, N * L, T(call.table)), "a token is not a row of the table");
  return in;
}

// Takes the weights: the table, then those of the block.
template <class T>
void take_window_weights(Arrays<T>& arrays, const WindowBlockCall& call, BlockInputs<T>& in) {
  if (call.tokens) in.u = arrays.take("table", {call.table, call.block.shape.layer.width});
  block_weights(call.block, in, taking(arrays));
}

// Empty structures of the type of a pointer.
template <class T>
WindowBlockOutputs<T> window_outputs_for(const T*) {
  return {};
}
template <class T>
WindowBlockSaved<T> window_saved_for(const T*) {
  return {};
}
template <class T>
WindowBlockGradients<T> window_gradients_for(const T*) {
  return {};
}

ffi::Error window_block(ffi::ThreadPool threads, ffi::RemainingArgs arguments, ffi::RemainingRets results,
                        ffi::Dictionary attributes) {
  return with_arrays("s7 window_block", arguments, results, [&](auto& arrays, bool is_complex) {
    arrays.require(!is_complex, "the values must be real");
    const WindowBlockCall call = window_block_call(arrays, attributes, false);
    const LayerShape& layer = call.block.shape.layer;
    const int64_t N = layer.batch, L = layer.length, P = layer.state, S = layer.rows(), M = call.windows();
    auto in = window_block_data(arrays, call, arrays.none());
    take_window_weights(arrays, call, in.block);
    auto out = window_outputs_for(in.block.u);
    out.y = arrays.give("y", {N, M, call.block.shape.out_width()});
    const int64_t directions = call.block.shape.directions;
    const bool saved = arrays.results() > size_t(1 + directions);
    for (int64_t d = 0; d < directions; ++d) {
      out.x[d] = arrays.give("x", {N, M, S});
      if (!saved) continue;
      const int64_t groups = call.tokens ? arrays.result_size(arrays.given(), 0) : N;
      const int64_t rows = call.tokens ? call.table : L;
      out.raw[d] = arrays.give("raw", {groups, rows, P});
      out.drive[d] = arrays.give("drive", {groups, rows, S});
    }
    const int64_t groups = saved && call.tokens ? arrays.result_size(2, 0) : 1;
    return arrays.run([&] {
      kernels_for(in.block.u).window_block(call.shape(), in, out, pool_of(threads));
      // Each group of sequences has its own copy of what was computed once per row of the table.
      for (int64_t g = 1; g < groups; ++g)
        for (int64_t d = 0; d < directions; ++d) {
          const int64_t raw = call.table * P, drive = call.table * S;
          std::memcpy(out.raw[d] + g * raw, out.raw[d], size_t(raw) * sizeof *out.raw[d]);
          std::memcpy(out.drive[d] + g * drive, out.drive[d], size_t(drive) * sizeof *out.drive[d]);
        }
    });
  });
}

// Moves the pointers from one group of sequences to the next.
template <class T>
void next_group(const WindowBlockCall& call, WindowBlockInputs<T>& in, WindowBlockSaved<T>& saved,
                WindowBlockGradients<T>& out) {
  const LayerShape& layer = call.block.shape.layer;
  const int64_t N = layer.batch, S = layer.rows(), events = layer.events(), windows = N * call.windows();
  const int64_t rows = call.tokens ? call.table : events;
  advance(events, in.token, in.share, out.share);
  advance(windows, in.last);
  advance(windows * layer.width, in.ends, in.skip, out.ends, out.skip);
  advance(windows * call.block.shape.out_width(), saved.y_gradient);
  advance(4 * N, in.block.keys);
  for (int64_t d = 0; d < call.block.shape.directions; ++d) {
    advance(events, in.block.layers[d].dt, in.block.layers[d].marks, out.block.layers[d].dt);
    advance(N * S, in.block.layers[d].initial, saved.final_gradient[d], out.block.layers[d].initial);
    advance(windows * S, saved.x[d]);
    advance(rows * layer.state, saved.raw[d]);
    advance(rows * S, saved.drive[d]);
  }
  if (!call.tokens) advance(rows * layer.width, in.block.u);
  advance(rows * layer.width, out.block.u);
  block_weights(call.block, out.block, moving(in.block.u));
}

ffi::Error window_block_gradient(ffi::ThreadPool threads, ffi::RemainingArgs arguments, ffi::RemainingRets results,
                                 ffi::Dictionary attributes) {
  return with_arrays("s7 window_block_gradient", arguments, results, [&](auto& arrays, bool is_complex) {
    arrays.require(!is_complex, "the values must be real");
    WindowBlockCall call = window_block_call(arrays, attributes, true);
    LayerShape& layer = call.block.shape.layer;
    const int64_t N = layer.batch, L = layer.length, H = layer.width, P = layer.state, S = layer.rows();
    const int64_t M = call.windows(), directions = call.block.shape.directions;
    auto in = window_block_data(arrays, call, arrays.none());
    // With tokens, the saved arrays have a row per row of the table, for each group of sequences.
    const int64_t G = call.tokens ? arrays.size(call.data() + 1, 0) : arrays.result_size(arrays.results() - 1, 0);
    const int64_t copies = call.tokens ? G : N, rows = call.tokens ? call.table : L;
    auto saved = window_saved_for(in.block.u);
    for (int64_t d = 0; d < directions; ++d) {
      saved.x[d] = arrays.take("x", {N, M, S});
      saved.raw[d] = arrays.take("raw", {copies, rows, P});
      saved.drive[d] = arrays.take("drive", {copies, rows, S});
    }
    saved.y_gradient = arrays.take("y_gradient", {N, M, call.block.shape.out_width()});
    for (int64_t d = 0; d < directions; ++d) saved.final_gradient[d] = arrays.take("final_gradient", {N, S});
    take_window_weights(arrays, call, in.block);
    auto out = window_gradients_for(in.block.u);
    // The gradients of gaps and of weights in the mean are empty if they are not needed.
    const auto wanted = [&] { return arrays.result_size(arrays.given(), 1) > 0; };
    if (!call.tokens) out.block.u = arrays.give("dvalues", {N, L, H});
    if (call.ends) out.ends = arrays.give("dends", {N, M, H});
    if (call.skip) out.skip = arrays.give("dskip", {N, M, H});
    if (call.share) out.share = arrays.give_if(wanted(), "dshare", {N, L});
    for (int64_t d = 0; d < directions; ++d) {
      if (call.block.timed) out.block.layers[d].dt = arrays.give_if(wanted(), "ddt", {N, L});
      out.block.layers[d].initial = arrays.give("dinitial", {N, S});
    }
    if (call.tokens) out.block.u = arrays.give_group(G, "dtable", {call.table, H});
    block_weights(call.block, out.block, giving(arrays, G));
    arrays.require(G > 0 && N % G == 0, "the groups do not divide the batch");
    return arrays.run([&] {
      layer.batch = N / G;
      for (int64_t g = 0; g < G; ++g) {
        kernels_for(in.block.u).window_block_gradient(call.shape(), in, saved, out, pool_of(threads));
        next_group(call, in, saved, out);
      }
    });
  });
}

}  // namespace
}  // namespace s7
