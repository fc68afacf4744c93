// The block as an XLA custom call.
//
// The order of the arrays is that of src/s7/native/blocks.py. Arrays that a block does not have are left out.
#pragma once

#include "ffi_arrays.h"

namespace s7 {
namespace {

// The attributes of the call.
class Settings {
 public:
  explicit Settings(const ffi::Dictionary& attributes) : attributes_(attributes) {}

  bool flag(const char* name) { return get<bool>(name); }
  int64_t number(const char* name) { return get<int64_t>(name); }
  double real(const char* name) { return get<double>(name); }
  const std::string& missing() const { return missing_; }

 private:
  template <class A>
  A get(const char* name) {
    const auto value = attributes_.get<A>(name);
    if (!value.has_value()) missing_ = name;
    return value.has_value() ? *value : A();
  }

  const ffi::Dictionary& attributes_;
  std::string missing_;
};

// The sizes of a block, and which arrays it has.
struct BlockCall {
  BlockShape shape;
  bool timed, marked, gated;
  bool selective, selective_input, selective_output, bias;  // whether W_w, W_B, W_C and b exist

  bool has_step() const {
    return shape.layer.transition == Transition::kStep || shape.layer.transition == Transition::kHeldStep;
  }
  // Whether the outputs of the layers are saved for the gradient: a full output map is expensive to compute again.
  bool keeps_z() const { return reads_twice() && selective_output && shape.layer.rank == 0; }
  // Whether the gradient needs the outputs of the layers: for the gate, dropout and the tail.
  bool reads_twice() const { return gated || shape.threshold > 0 || shape.after != NormKind::kNone || shape.out > 0; }
};

template <class T>
BlockCall block_call(Arrays<T>& arrays, const ffi::Dictionary& attributes) {
  Settings settings(attributes);
  BlockCall call = {};
  LayerShape& layer = call.shape.layer;
  layer.batch = arrays.size(0, 0);
  layer.length = arrays.size(0, 1);
  layer.width = arrays.size(0, 2);
  layer.oscillate = settings.flag("oscillate");
  layer.counting = settings.flag("counting");
  layer.reverse = settings.flag("reverse");
  layer.transition = Transition(settings.number("transition"));
  layer.gain = Gain(settings.number("gain"));
  layer.direct = Direct(settings.number("direct"));
  layer.rank = settings.number("rank");
  layer.a = settings.real("a");
  layer.b = settings.real("b");
  layer.state = settings.number("state");
  call.shape.directions = settings.number("directions");
  call.shape.norm = NormKind(settings.number("norm"));
  call.shape.skip = settings.flag("skip");
  call.shape.after = NormKind(settings.number("after"));
  call.shape.out = settings.number("out");
  const int64_t threshold = settings.number("threshold");
  call.shape.threshold = uint32_t(threshold);
  call.timed = settings.flag("timed");
  call.marked = settings.flag("marked");
  call.selective = settings.flag("selective");
  call.selective_input = settings.flag("selective_input");
  call.selective_output = settings.flag("selective_output");
  call.bias = settings.flag("bias");
  call.gated = settings.flag("gated");
  arrays.require(settings.missing().empty(), ("no attribute " + settings.missing()).c_str());
  arrays.require(call.shape.directions == 1 || call.shape.directions == 2, "there are one or two directions");
  arrays.require(call.shape.after != NormKind::kAffine, "the norm after the skip must not be affine");
  check_threshold(arrays, threshold);
  return call;
}

// Empty structures of the type of a pointer.
template <class T>
BlockOutputs<T> outputs_for(const T*) {
  return {};
}
template <class T>
BlockSaved<T> saved_for(const T*) {
  return {};
}
template <class T>
BlockGradients<T> gradients_for(const T*) {
  return {};
}

// Calls visit(field, weight name, shape, present) for the weights of a layer, in their order.
template <class L, class F>
void layer_weights(const BlockCall& call, L& layer, F visit) {
  const LayerShape& shape = call.shape.layer;
  const int64_t H = shape.width, P = shape.state, S = shape.rows(), R = shape.rank;
  const bool full = shape.direct == Direct::kFull, in = call.selective_input, out = call.selective_output;
  visit(layer.w, "w", {P}, true);
  visit(layer.W_w, "W_w", {P, H}, call.selective);
  visit(layer.omega, "omega", {P}, shape.oscillate);
  visit(layer.decay, "decay", {P}, call.has_step());
  visit(layer.B, "B", {S, H}, true);
  visit(layer.b, "b", {S}, call.bias);
  visit(layer.C, "C", {H, S}, true);
  if (full) {
    visit(layer.D, "D", {H, H}, true);
    visit(layer.W_D, "W_D", {H, H, H}, true);
  } else {
    visit(layer.D, "D", {H}, true);
    visit(layer.W_D, "W_D", {H, H}, shape.direct == Direct::kDiagonal);
  }
  visit(layer.W_B, "W_B", {S, H, H}, in && R == 0);
  visit(layer.W_C, "W_C", {H, S, H}, out && R == 0);
  visit(layer.V1, "V1", {R, H}, in && R > 0);
  visit(layer.V2, "V2", {R, H}, in && R > 0);
  visit(layer.V3, "V3", {S, R}, in && R > 0);
  visit(layer.U1, "U1", {R, S}, out && R > 0);
  visit(layer.U2, "U2", {R, H}, out && R > 0);
  visit(layer.U3, "U3", {H, R}, out && R > 0);
}

template <class B, class F>
void norm_weights(const BlockCall& call, B& block, F visit) {
  const int64_t H = call.shape.layer.width;
  const NormKind norm = call.shape.norm;
  visit(block.scale, "scale", {H}, norm != NormKind::kNone);
  visit(block.shift, "shift", {H}, norm == NormKind::kLayer || norm == NormKind::kAffine);
  visit(block.mean, "mean", {H}, norm == NormKind::kAffine);
}

template <class B, class F>
void gate_weights(const BlockCall& call, B& block, F visit) {
  const int64_t H = call.shape.layer.width;
  visit(block.gate_W, "gate_W", {H, H}, call.gated);
  visit(block.gate_c, "gate_c", {H}, call.gated);
}

template <class B, class F>
void tail_weights(const BlockCall& call, B& block, F visit) {
  const int64_t H = call.shape.layer.width, O = call.shape.out;
  visit(block.after_scale, "after_scale", {H}, call.shape.after != NormKind::kNone);
  visit(block.after_shift, "after_shift", {H}, call.shape.after == NormKind::kLayer);
  visit(block.project_W, "project_W", {O, H}, O > 0);
  visit(block.project_c, "project_c", {O}, O > 0);
}

// As `layer_weights`, for all weights of the block.
template <class B, class F>
void block_weights(const BlockCall& call, B& block, F visit) {
  for (int64_t d = 0; d < call.shape.directions; ++d) layer_weights(call, block.layers[d], visit);
  norm_weights(call, block, visit);
  gate_weights(call, block, visit);
  tail_weights(call, block, visit);
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

// Takes what the layers read besides u, and the keys of dropout.
template <class T>
void take_data(Arrays<T>& arrays, const BlockCall& call, BlockInputs<T>& in) {
  const int64_t N = call.shape.layer.batch, L = call.shape.layer.length;
  for (int64_t d = 0; d < call.shape.directions; ++d) {
    if (call.timed) in.layers[d].dt = arrays.take("dt", {N, L});
    if (call.marked) in.layers[d].marks = arrays.take("marks", {N, L});
    in.layers[d].initial = arrays.take("initial", {N, call.shape.layer.rows()});
  }
  if (call.shape.threshold > 0) in.keys = arrays.take("keys", {N, 4});
}

template <class T>
BlockInputs<T> block_data(Arrays<T>& arrays, const BlockCall& call, const T*) {
  BlockInputs<T> in = {};
  in.u = arrays.take("u", {call.shape.layer.batch, call.shape.layer.length, call.shape.layer.width});
  take_data(arrays, call, in);
  return in;
}

ffi::Error block(ffi::ThreadPool threads, ffi::RemainingArgs arguments, ffi::RemainingRets results,
                 ffi::Dictionary attributes) {
  return with_arrays("s7 block", arguments, results, [&](auto& arrays, bool is_complex) {
    arrays.require(!is_complex, "u must be real");
    const BlockCall call = block_call(arrays, attributes);
    const LayerShape& shape = call.shape.layer;
    auto in = block_data(arrays, call, arrays.none());
    block_weights(call, in, taking(arrays));
    const int64_t N = shape.batch, L = shape.length, S = shape.rows();
    auto out = outputs_for(in.u);
    out.y = arrays.give("y", {N, L, call.shape.out_width()});
    const bool saved = arrays.results() > size_t(1 + call.shape.directions);
    for (int64_t d = 0; d < call.shape.directions; ++d) {
      out.layers[d].x = arrays.give("x", {N, L, S});
      if (!saved) continue;
      out.layers[d].input = arrays.give("input", {N, L, S});
      if (call.selective) out.layers[d].raw = arrays.give("raw", {N, L, shape.state});
    }
    if (saved && call.keeps_z()) out.z = arrays.give("z", {N, L, shape.width});
    return arrays.run([&] { kernels_for(in.u).block(call.shape, in, out, pool_of(threads)); });
  });
}

// Moves the pointers from one group of sequences to the next.
template <class T>
void next_group(const BlockCall& call, BlockInputs<T>& in, BlockSaved<T>& saved, BlockGradients<T>& out) {
  const LayerShape& shape = call.shape.layer;
  const int64_t events = shape.events(), H = shape.width, S = shape.rows();
  advance(events * H, in.u, saved.z, out.u);
  advance(events * call.shape.out_width(), saved.y_gradient);
  advance(4 * shape.batch, in.keys);
  for (int64_t d = 0; d < call.shape.directions; ++d) {
    advance(events, in.layers[d].dt, in.layers[d].marks, out.layers[d].dt);
    advance(shape.batch * S, in.layers[d].initial, saved.layers[d].final_gradient, out.layers[d].initial);
    advance(events * S, saved.layers[d].x, saved.layers[d].input);
    advance(events * shape.state, saved.layers[d].raw);
  }
  block_weights(call, out, moving(in.u));
}

// The gradients of weights have an additional leading dimension: the batch is divided into that many groups, and each
// group has its own sum.
ffi::Error block_gradient(ffi::ThreadPool threads, ffi::RemainingArgs arguments, ffi::RemainingRets results,
                          ffi::Dictionary attributes) {
  return with_arrays("s7 block_gradient", arguments, results, [&](auto& arrays, bool is_complex) {
    arrays.require(!is_complex, "u must be real");
    BlockCall call = block_call(arrays, attributes);
    LayerShape& shape = call.shape.layer;
    const int64_t N = shape.batch, L = shape.length, H = shape.width, S = shape.rows();
    auto in = block_data(arrays, call, arrays.none());
    auto saved = saved_for(in.u);
    for (int64_t d = 0; d < call.shape.directions; ++d) {
      saved.layers[d].x = arrays.take("x", {N, L, S});
      saved.layers[d].input = arrays.take("input", {N, L, S});
      if (call.selective) saved.layers[d].raw = arrays.take("raw", {N, L, shape.state});
    }
    if (call.keeps_z()) saved.z = arrays.take("z", {N, L, H});
    saved.y_gradient = arrays.take("y_gradient", {N, L, call.shape.out_width()});
    for (int64_t d = 0; d < call.shape.directions; ++d)
      saved.layers[d].final_gradient = arrays.take("final_gradient", {N, S});
    block_weights(call, in, taking(arrays));
    auto out = gradients_for(in.u);
    out.u = arrays.give("du", {N, L, H});
    for (int64_t d = 0; d < call.shape.directions; ++d) {
      if (call.timed) out.layers[d].dt = arrays.give("ddt", {N, L});
      out.layers[d].initial = arrays.give("dinitial", {N, S});
    }
    const int64_t G = arrays.result_size(1 + call.shape.directions * (1 + call.timed), 0);
    block_weights(call, out, giving(arrays, G));
    arrays.require(G > 0 && N % G == 0, "the groups do not divide the batch");
    return arrays.run([&] {
      shape.batch = N / G;
      for (int64_t g = 0; g < G; ++g) {
        kernels_for(in.u).block_gradient(call.shape, in, saved, out, pool_of(threads));
        next_group(call, in, saved, out);
      }
    });
  });
}

inline auto bind_block() { return bind().Attrs(); }

}  // namespace
}  // namespace s7
