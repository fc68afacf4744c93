// The halves of a block as XLA custom calls.
//
// The order of the arrays is that of src/s7/native/halves.py. Arrays that a block does not have are left out.
#pragma once

#include "ffi_block.h"

namespace s7 {
namespace {

// As `block_weights`, for the weights of the first half.
template <class B, class F>
void drive_weights(const BlockCall& call, B& block, F visit) {
  const LayerShape& shape = call.shape.layer;
  const int64_t H = shape.width, P = shape.state, S = shape.rows(), R = shape.rank;
  const bool full = call.selective_input && R == 0, factored = call.selective_input && R > 0;
  for (int64_t d = 0; d < call.shape.directions; ++d) {
    auto& layer = block.layers[d];
    visit(layer.w, "w", {P}, true);
    visit(layer.W_w, "W_w", {P, H}, call.selective);
    visit(layer.B, "B", {S, H}, true);
    visit(layer.b, "b", {S}, call.bias);
    visit(layer.W_B, "W_B", {S, H, H}, full);
    visit(layer.V1, "V1", {R, H}, factored);
    visit(layer.V2, "V2", {R, H}, factored);
    visit(layer.V3, "V3", {S, R}, factored);
  }
  norm_weights(call, block, visit);
}

// As `block_weights`, for the weights of the second half.
template <class B, class F>
void read_weights(const BlockCall& call, B& block, F visit) {
  const LayerShape& shape = call.shape.layer;
  const int64_t H = shape.width, S = shape.rows(), R = shape.rank;
  const bool full = call.selective_output && R == 0, factored = call.selective_output && R > 0;
  for (int64_t d = 0; d < call.shape.directions; ++d) {
    auto& layer = block.layers[d];
    visit(layer.C, "C", {H, S}, true);
    if (shape.direct == Direct::kFull) {
      visit(layer.D, "D", {H, H}, true);
      visit(layer.W_D, "W_D", {H, H, H}, true);
    } else {
      visit(layer.D, "D", {H}, true);
      visit(layer.W_D, "W_D", {H, H}, shape.direct == Direct::kDiagonal);
    }
    visit(layer.W_C, "W_C", {H, S, H}, full);
    visit(layer.U1, "U1", {R, S}, factored);
    visit(layer.U2, "U2", {R, H}, factored);
    visit(layer.U3, "U3", {H, R}, factored);
  }
  norm_weights(call, block, visit);
  gate_weights(call, block, visit);
}

// Visitors: take a weight, give its gradient, and move on to the gradient of the next group.
template <class T>
auto taking(Arrays<T>& arrays) {
  return [&arrays](const T*& field, const char* name, typename Arrays<T>::Shape shape, bool present) {
    if (present) field = arrays.take(name, shape);
  };
}
template <class T>
auto giving(Arrays<T>& arrays, int64_t groups) {
  return [&arrays, groups](T*& field, const char* name, typename Arrays<T>::Shape shape, bool present) {
    if (present) field = arrays.give_group(groups, name, shape);
  };
}
template <class T>
auto moving(const T*) {
  return [](T*& field, const char*, typename Arrays<T>::Shape shape, bool present) {
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    if (present) field += count;
  };
}

template <class T>
BlockInputs<T> inputs_for(const T* u) {
  BlockInputs<T> in = {};
  in.u = u;
  return in;
}

// Structures of the arrays of the halves.
template <class T>
DriveArrays<T> drive_arrays_for(const T*) {
  return {};
}
template <class T>
DriveArrays<const T> drive_gradients_for(const T*) {
  return {};
}
template <class T>
ReadInputs<T> read_inputs_for(const T*) {
  return {};
}

ffi::Error drive(ffi::ThreadPool threads, ffi::RemainingArgs arguments, ffi::RemainingRets results,
                 ffi::Dictionary attributes) {
  return with_arrays("s7 drive", arguments, results, [&](auto& arrays, bool is_complex) {
    arrays.require(!is_complex, "u must be real");
    const BlockCall call = block_call(arrays, attributes);
    const int64_t N = call.shape.layer.batch, L = call.shape.layer.length;
    auto in = inputs_for(arrays.take("u", {N, L, call.shape.layer.width}));
    drive_weights(call, in, taking(arrays));
    auto out = drive_arrays_for(in.u);
    for (int64_t d = 0; d < call.shape.directions; ++d) {
      out.raw[d] = arrays.give("raw", {N, L, call.shape.layer.state});
      out.input[d] = arrays.give("input", {N, L, call.shape.layer.rows()});
    }
    return arrays.run([&] { kernels_for(in.u).drive(call.shape, in, out, pool_of(threads)); });
  });
}

ffi::Error drive_gradient(ffi::ThreadPool threads, ffi::RemainingArgs arguments, ffi::RemainingRets results,
                          ffi::Dictionary attributes) {
  return with_arrays("s7 drive_gradient", arguments, results, [&](auto& arrays, bool is_complex) {
    arrays.require(!is_complex, "u must be real");
    BlockCall call = block_call(arrays, attributes);
    LayerShape& shape = call.shape.layer;
    const int64_t N = shape.batch, L = shape.length, H = shape.width, P = shape.state, S = shape.rows();
    auto in = inputs_for(arrays.take("u", {N, L, H}));
    auto arriving = drive_gradients_for(in.u);
    for (int64_t d = 0; d < call.shape.directions; ++d) {
      arriving.raw[d] = arrays.take("raw_gradient", {N, L, P});
      arriving.input[d] = arrays.take("input_gradient", {N, L, S});
    }
    drive_weights(call, in, taking(arrays));
    auto out = gradients_for(in.u);
    out.u = arrays.give("du", {N, L, H});
    const int64_t G = arrays.result_size(1, 0);
    drive_weights(call, out, giving(arrays, G));
    arrays.require(G > 0 && N % G == 0, "the groups do not divide the batch");
    return arrays.run([&] {
      shape.batch = N / G;
      for (int64_t g = 0; g < G; ++g) {
        kernels_for(in.u).drive_gradient(call.shape, in, arriving, out, pool_of(threads));
        advance(shape.events() * H, in.u, out.u);
        for (int64_t d = 0; d < call.shape.directions; ++d) {
          advance(shape.events() * P, arriving.raw[d]);
          advance(shape.events() * S, arriving.input[d]);
        }
        drive_weights(call, out, moving(in.u));
      }
    });
  });
}

// Takes u, the states and the keys.
template <class T>
BlockInputs<T> read_data(Arrays<T>& arrays, const BlockCall& call, ReadInputs<T>& read) {
  const int64_t N = call.shape.layer.batch, L = call.shape.layer.length;
  auto in = inputs_for(arrays.take("u", {N, L, call.shape.layer.width}));
  for (int64_t d = 0; d < call.shape.directions; ++d) read.x[d] = arrays.take("x", {N, L, call.shape.layer.rows()});
  if (call.shape.threshold > 0) in.keys = arrays.take("keys", {N, 4});
  return in;
}

ffi::Error read(ffi::ThreadPool threads, ffi::RemainingArgs arguments, ffi::RemainingRets results,
                ffi::Dictionary attributes) {
  return with_arrays("s7 read", arguments, results, [&](auto& arrays, bool is_complex) {
    arrays.require(!is_complex, "u must be real");
    const BlockCall call = block_call(arrays, attributes);
    const int64_t N = call.shape.layer.batch, L = call.shape.layer.length, H = call.shape.layer.width;
    auto inputs = read_inputs_for(arrays.none());
    auto in = read_data(arrays, call, inputs);
    if (call.shape.skip) inputs.skip = arrays.take("skip", {N, L, H});
    read_weights(call, in, taking(arrays));
    auto out = arrays.give("out", {N, L, H});
    return arrays.run([&] { kernels_for(in.u).read(call.shape, in, inputs, out, pool_of(threads)); });
  });
}

ffi::Error read_gradient(ffi::ThreadPool threads, ffi::RemainingArgs arguments, ffi::RemainingRets results,
                         ffi::Dictionary attributes) {
  return with_arrays("s7 read_gradient", arguments, results, [&](auto& arrays, bool is_complex) {
    arrays.require(!is_complex, "u must be real");
    BlockCall call = block_call(arrays, attributes);
    LayerShape& shape = call.shape.layer;
    const int64_t N = shape.batch, L = shape.length, H = shape.width, S = shape.rows();
    auto inputs = read_inputs_for(arrays.none());
    auto in = read_data(arrays, call, inputs);
    auto arriving = arrays.take("out_gradient", {N, L, H});
    read_weights(call, in, taking(arrays));
    auto out = gradients_for(in.u);
    out.u = arrays.give("du", {N, L, H});
    decltype(out.u) x[kDirections] = {};
    for (int64_t d = 0; d < call.shape.directions; ++d) x[d] = arrays.give("dx", {N, L, S});
    const int64_t G = arrays.result_size(1 + call.shape.directions, 0);
    read_weights(call, out, giving(arrays, G));
    arrays.require(G > 0 && N % G == 0, "the groups do not divide the batch");
    return arrays.run([&] {
      shape.batch = N / G;
      for (int64_t g = 0; g < G; ++g) {
        kernels_for(in.u).read_gradient(call.shape, in, inputs, arriving, x, out, pool_of(threads));
        advance(shape.events() * H, in.u, out.u, arriving);
        advance(4 * shape.batch, in.keys);
        for (int64_t d = 0; d < call.shape.directions; ++d) advance(shape.events() * S, inputs.x[d], x[d]);
        read_weights(call, out, moving(in.u));
      }
    });
  });
}

}  // namespace
}  // namespace s7
