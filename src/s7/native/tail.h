// The end of a block after the skip: a norm and a linear map to another width, each if there is one.
//
//     out = P norm(y) + c
#pragma once

#include "linear.h"
#include "norm.h"

namespace s7::S7_ISA {

template <class T>
class Tail {
 public:
  // Scratch memory of one thread.
  struct Work {
    explicit Work(const Tail& tail)
        : rows(tail.active() ? (tail.width_ + 1) * kTile : 0),
          out(tail.projects_ ? tail.out() * kTile : 0),
          padded(tail.projects_ ? tail.map_.padded() * kTile : 0) {}

    Buffer<T> rows, out, padded;
  };

  static bool exists(const BlockShape& shape) { return shape.after != NormKind::kNone || shape.out > 0; }

  Tail(const BlockShape& shape, const BlockInputs<T>& in, Layouts layouts)
      : width_(shape.layer.width),
        projects_(shape.out > 0),
        norm_(shape.after, width_, in.after_scale, in.after_shift, nullptr),
        map_(projects_ ? Linear<T>(width_, true, shape.out, Columns<T, 2>{{{in.project_W, width_}, {in.project_c, 1}}},
                                   layouts)
                       : Linear<T>()) {}

  bool active() const { return norm_.active() || projects_; }
  // The width of the output.
  int64_t out() const { return projects_ ? map_.outputs() : width_; }
  int64_t sums_size() const { return map_.sums_size() + (norm_.active() ? norm_.sums_size() : 0); }

  // Stores the output of the rows y of a tile.
  void store(const T* y, int64_t count, T* out, Work& work, Lookahead& ahead) const {
    if (active()) y = apply(y, count, work, ahead);
    store_tile(y, count, this->out(), out);
  }

  // Computes the gradient of the rows y from that of the output, and adds the gradients of the weights to `sums`.
  S7_SHARED void back(const T* y, const T* out_gradient, int64_t count, T* gradient, T* sums, Work& work,
                      Lookahead& ahead) const {
    if (projects_) {
      load_tile(out_gradient, count, out(), work.out.data());
      const T* by_event = in_padded(out_gradient, count, out(), map_.padded(), work.padded.data());
      map_.gather_weights(normalised(y, count, work), by_event, count, sums);
      map_.back(work.out.data(), count, gradient, ahead);
      clear_after(count, width_, gradient);
    } else {
      load_tile(out_gradient, count, width_, gradient);
    }
    if (norm_.active()) norm_.back(y, count, gradient, sums + map_.sums_size());
  }

  void unpack(const T* sums, const BlockGradients<T>& out, Pool pool) const {
    if (projects_)
      S7_ISA::unpack<T, 2>(sums, map_.padded(), 0, map_.outputs(), {{out.project_W, width_}, {out.project_c, 1}}, pool);
    if (norm_.active()) norm_.unpack(sums + map_.sums_size(), out.after_scale, out.after_shift, nullptr);
  }

 private:
  // Returns the rows of the output.
  S7_SHARED const T* apply(const T* y, int64_t count, Work& work, Lookahead& ahead) const {
    y = normalised(y, count, work);
    if (!projects_) return y;
    map_.apply(y, count, work.out.data(), ahead);
    return work.out.data();
  }

  // The rows y after the norm, and the row of ones.
  const T* normalised(const T* y, int64_t count, Work& work) const {
    T* rows = work.rows.data();
    if (norm_.active()) {
      norm_.apply(y, rows);
    } else {
      std::memcpy(rows, y, size_t(width_ * kTile) * sizeof(T));
    }
    for (int64_t k = 0; k < kTile; ++k) rows[width_ * kTile + k] = k < count ? T(1) : T(0);
    return rows;
  }

  const int64_t width_;
  const bool projects_;
  const Norm<T> norm_;
  const Linear<T> map_;
};

}  // namespace s7::S7_ISA
