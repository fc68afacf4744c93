// One block on one event or on a tile of events: norm, drive, state, output, gate, skip, projection.
//
//     w_k = w + W_w u_k            x_k = a_k x_{k-1} + g_k (B_k u_k + b)            y_k = C_k x_k + D_k u_k
//
// The products of the full form, u_i u_j and x_p u_j, are stored, so that all the work is matrix products.
#pragma once

#include "stream_math.h"

namespace s7::S7_ISA::stream {

using s7::stream::BlockPlan;
using s7::stream::Form;
using s7::stream::Pooling;

inline int64_t most(int64_t one, int64_t other) { return one > other ? one : other; }

// Scratch memory for a tile of events. `drive` holds the reduced w_k, the input B_k u_k + b, and the factors; `rows`
// the states where outputs are computed; `last` and `skip` the last event of each window and the input of its skip.
struct Work {
  Tile normalised, drive, rows, output, factors, gate, last, skip;
  Room products;
};

// The number of floats per event in each part of `Work`; of the products, in all.
struct WorkSizes {
  int64_t width = 0, drive = 0, rows = 0, products = 0, factors = 0;

  void include(const WorkSizes& other) {
    width = most(width, other.width);
    drive = most(drive, other.drive);
    rows = most(rows, other.rows);
    products = most(products, other.products);
    factors = most(factors, other.factors);
  }
};

class Block {
 public:
  Block() = default;
  explicit Block(const BlockPlan& plan)
      : plan_(plan),
        width_(padded(plan.width)),
        state_(padded(plan.state)),
        rows_(plan.complex_state ? 2 * state_ : state_),
        rank_(plan.form == Form::kFactored ? padded(plan.rank) : 0),
        norm_(plan.norm, plan.width, plan.scale, plan.shift, plan.mean, plan.variance),
        step_(plan) {
    pack_input(plan);
    pack_output(plan);
    pack_rest(plan);
  }

  int64_t width() const { return plan_.width; }
  int64_t out() const { return plan_.out; }
  int64_t stride() const { return plan_.stride; }
  Pooling pooling() const { return plan_.pooling; }
  int64_t state() const { return plan_.state; }
  bool complex_state() const { return plan_.complex_state; }
  int64_t state_rows() const { return rows_; }
  int64_t drive_size() const { return state_ + rows_; }
  int64_t padded_width() const { return width_; }

  WorkSizes work_sizes() const {
    WorkSizes sizes;
    sizes.width = most(width_, padded(plan_.out));
    sizes.drive = state_ + rows_ + 2 * rank_;
    sizes.rows = rows_;
    sizes.products = most(most(quadratic_.rows(), bilinear_.rows()), kTile * most(width_, kLeastProducts));
    sizes.factors = 2 * (width_ + rank_);
    return sizes;
  }

  // Computes the inputs of the layer: u, normalised if the norm precedes the layer.
  void prepare(const float* const* u, Tile out, int64_t count) const {
    for (int64_t t = 0; t < count; ++t) {
      const float* read = plan_.norm_after ? u[t] : norm_.apply(u[t], out[t]);
      if (read != out[t]) std::memcpy(out[t], read, size_t(width_) * sizeof(float));
    }
  }

  // Computes the reduced w_k and B_k u_k + b from the inputs of the layer: `drive_size` numbers per event in
  // work.drive.
  void drive(ConstTile u, const Work& work, int64_t count) const {
    const Tile input = work.drive.from(state_);
    linear_.apply(u, ConstTile{&linear_bias_[0], 0}, work.drive, count);
    if (!quadratic_.empty()) add_pairs(quadratic_, 0, u, plan_.width, work.products, input, count);
    if (!V3_.empty()) {
      const Tile first = input.from(rows_);
      multiply(first, first.from(rank_), rank_, count);
      V3_.apply(first, input, input, count);
    }
    for (int64_t t = 0; t < count; ++t) step_.reduce(work.drive[t]);
  }

  void advance(const float* drive, bool timed, float gap, float* x) const {
    step_.advance(drive, drive + state_, timed, gap, x);
  }

  // Copies the rows of the state without padding between the real and imaginary parts.
  void copy_state(const float* x, float* rows) const {
    std::memcpy(rows, x, size_t(plan_.state) * sizeof(float));
    if (plan_.complex_state) std::memcpy(rows + plan_.state, x + state_, size_t(plan_.state) * sizeof(float));
  }

  // Computes the block's outputs from the states in work.rows, the inputs of the layer and the inputs of the skip.
  void output(ConstTile u, const float* const* skip, const Work& work, Tile out, int64_t count) const {
    layer_output(u, work, count);
    const Tile z = work.output;
    if (!gate_.empty()) {
      for (int64_t t = 0; t < count; ++t)
        for (int64_t n = 0; n < width_; n += kLane) store(work.gate[t] + n, gelu(load(z[t] + n)));
      gate_.apply(work.gate, ConstTile{&gate_bias_[0], 0}, work.factors, count);
      for (int64_t t = 0; t < count; ++t)
        for (int64_t n = 0; n < width_; n += kLane)
          store(z[t] + n, load(z[t] + n) * sigmoid(load(work.factors[t] + n)));
    }
    for (int64_t t = 0; t < count; ++t) {
      if (plan_.skip)
        for (int64_t n = 0; n < width_; n += kLane) store(z[t] + n, load(z[t] + n) + load(skip[t] + n));
      const float* result = plan_.norm_after ? norm_.apply(z[t], work.gate[t]) : z[t];
      if (result != z[t]) std::memcpy(z[t], result, size_t(width_) * sizeof(float));
      if (project_.empty()) std::memcpy(out[t], z[t], size_t(width_) * sizeof(float));
    }
    if (!project_.empty()) project_.apply(z, ConstTile{&project_bias_[0], 0}, out, count);
  }

 private:
  // Returns the index of row p of the state among the padded rows.
  int64_t place(int64_t p) const { return p < plan_.state ? p : state_ + p - plan_.state; }

  static void multiply(Tile first, ConstTile second, int64_t size, int64_t count) {
    for (int64_t t = 0; t < count; ++t)
      for (int64_t n = 0; n < size; n += kLane) store(first[t] + n, load(first[t] + n) * load(second[t] + n));
  }

  // Computes y in work.output.
  void layer_output(ConstTile u, const Work& work, int64_t count) const {
    const int64_t H = plan_.width, S = plan_.rows();
    const Tile y = work.output, first = work.factors.from(width_), direct = first.from(rank_);
    C_.apply(work.rows, ConstTile{&zeros_[0], 0}, work.factors, count);  // C x and, if factored, U1 x
    // Linear in u: D u or D_k and, if factored, U2 u.
    if (!direct_.empty()) direct_.apply(u, ConstTile{&direct_bias_[0], 0}, direct, count);
    for (int64_t t = 0; t < count; ++t) {
      const float *read = work.factors[t], *diagonal = direct_.empty() ? &direct_bias_[0] : direct[t];
      if (plan_.direct == Direct::kFull)
        for (int64_t n = 0; n < width_; n += kLane) store(y[t] + n, load(read + n) + load(diagonal + n));
      else
        for (int64_t n = 0; n < width_; n += kLane)
          store(y[t] + n, load(read + n) + load(diagonal + n) * load(u[t] + n));
    }
    if (plan_.W_C != nullptr) add_outer(bilinear_, work.rows, S, u, H, work.products, y, count);
    if (plan_.direct == Direct::kFull)
      add_pairs(bilinear_, plan_.W_C == nullptr ? 0 : S * H, u, H, work.products, y, count);
    if (!U3_.empty()) {
      multiply(first, direct.from(width_), rank_, count);
      U3_.apply(first, y, y, count);
    }
  }

  void pack_input(const BlockPlan& plan) {
    const int64_t H = plan.width, P = plan.state, S = plan.rows(), R = plan.rank;
    const bool factored = plan.V1 != nullptr;
    linear_ = Matrix(H, state_ + rows_ + (factored ? 2 * rank_ : 0));
    linear_bias_ = padded_copy(nullptr, linear_.outputs());
    if (plan.W_w != nullptr) linear_.put(plan.W_w, P, H, 0, 0);
    for (int64_t p = 0; p < P; ++p) linear_bias_[p] = plan.w[p];
    for (int64_t p = 0; p < S; ++p) {
      linear_.put(plan.B + p * H, 1, H, 0, state_ + place(p));
      if (plan.b != nullptr) linear_bias_[state_ + place(p)] = plan.b[p];
    }
    if (plan.W_B != nullptr) {
      quadratic_ = Matrix(pair_count(H), rows_);
      put_symmetric(quadratic_, plan.W_B, S, H, 0, [this](int64_t n) { return place(n); });
    }
    if (factored) {
      linear_.put(plan.V1, R, H, 0, state_ + rows_);
      linear_.put(plan.V2, R, H, 0, state_ + rows_ + rank_);
      V3_ = Matrix(R, rows_);
      for (int64_t p = 0; p < S; ++p) V3_.put(plan.V3 + p * R, 1, R, 0, place(p));
    }
  }

  void pack_output(const BlockPlan& plan) {
    const int64_t H = plan.width, S = plan.rows(), R = plan.rank;
    const bool factored = plan.U1 != nullptr, full = plan.direct == Direct::kFull;
    C_ = Matrix(S, width_ + (factored ? rank_ : 0));
    zeros_ = padded_copy(nullptr, C_.outputs());
    C_.put(plan.C, H, S, 0, 0);
    if (factored) C_.put(plan.U1, R, S, 0, width_);
    direct_bias_ = padded_copy(nullptr, width_ + rank_);
    if (factored || plan.W_D != nullptr) direct_ = Matrix(H, width_ + (factored ? rank_ : 0));
    if (full) {
      direct_.put(plan.D, H, H, 0, 0);
    } else {
      for (int64_t n = 0; n < H; ++n) direct_bias_[n] = plan.D[n];
      if (plan.W_D != nullptr) direct_.put(plan.W_D, H, H, 0, 0);
    }
    if (factored) {
      direct_.put(plan.U2, R, H, 0, width_);
      U3_ = Matrix(R, width_);
      U3_.put(plan.U3, H, R, 0, 0);
    }
    const int64_t selected = plan.W_C != nullptr ? S * H : 0;
    if (selected > 0 || full) bilinear_ = Matrix(selected + (full ? pair_count(H) : 0), width_);
    if (selected > 0) bilinear_.put(plan.W_C, H, S * H, 0, 0);
    if (full) put_symmetric(bilinear_, plan.W_D, H, H, selected, [](int64_t n) { return n; });
  }

  void pack_rest(const BlockPlan& plan) {
    if (plan.gate_W != nullptr) {
      gate_ = Matrix(plan.width, width_);
      gate_.put(plan.gate_W, plan.width, plan.width, 0, 0);
      gate_bias_ = padded_copy(plan.gate_c, plan.width);
    }
    if (plan.project_W != nullptr) {
      project_ = Matrix(plan.width, padded(plan.out));
      project_.put(plan.project_W, plan.out, plan.width, 0, 0);
      project_bias_ = padded_copy(plan.project_c, plan.out);
    }
  }

  // Large enough that each part of the products of a tile keeps the processor busy.
  static constexpr int64_t kLeastProducts = 128;

  BlockPlan plan_{};  // its pointers show which parts exist; they are not dereferenced after packing
  int64_t width_ = 0, state_ = 0, rows_ = 0, rank_ = 0;
  Norm norm_;
  StateStep step_;
  Matrix linear_, quadratic_, V3_, C_, direct_, bilinear_, U3_, gate_, project_;
  Buffer<float> linear_bias_, zeros_, direct_bias_, gate_bias_, project_bias_;
};

}  // namespace s7::S7_ISA::stream
