// The state at the end of every window of events. Events can be rows of a table.
//
//     x_k = a_k x_{k-1} + v_k, read at the last event of each window
//     a_k from w_k and dt_k        v_k = g_k (B_k u_k + b)
//
// With tokens, w_k and B_k u_k + b are rows of a table with one row per token, and what does not depend on dt_k is
// computed once per row. Without tokens, there is one row per event. Only the states at the ends of windows are stored.
// The gradient recomputes the others.
#pragma once

#include "window_walk.h"

namespace s7::S7_ISA {

template <class T, Source kSource, Kind kKind>
class WindowScan {
 public:
  using Walk = WindowWalk<T, kSource, kKind>;
  static constexpr bool kShared = kSource != Source::kEvents;

  WindowScan(const WindowShape& shape, const WindowInputs<T>& in, Pool pool)
      : shape_(shape),
        in_(in),
        pool_(pool),
        cut_(Cut::of(shape.layer.state, kLanes<T>, shape.layer.batch, shape.layer.events(), shape.table)),
        table_(kShared ? cut_.groups * shape.table * Walk::kRecord * kLanes<T> : 0) {
    if (Walk::kRecord > 0)
      for_rows([&](const Walk& walk, int64_t group, int64_t row) {
        walk.prepare(row, table_.data() + (group * shape_.table + row) * Walk::kRecord * kLanes<T>);
      });
  }

  void forward(T* x) const {
    parallel(pool_, shape_.layer.batch * cut_.groups,
             [&](int64_t task) { walk(task % cut_.groups).forward(task / cut_.groups, x); });
  }

  // Computes the gradients of the inputs from the gradient of x.
  void gradient(const T* x, const T* x_gradient, const WindowGradients<T>& out) const {
    const int64_t batch = shape_.layer.batch, events = shape_.layer.events(), groups = cut_.groups;
    const int64_t parts = kShared ? cut_.parts : batch, each = shape_.table * Walk::kGradients * kLanes<T>;
    Buffer<T> tables(kShared ? parts * groups * each : 0), gaps(out.dt == nullptr ? 0 : groups * events);
    // The gradients of omega and decay: of each task, and of each row of the table if they are computed there.
    constexpr bool kByRow = Walk::kStep && kSource == Source::kRegular;
    Buffer<T> spectra(parts * groups * 2 * kLanes<T>), of_rows(kByRow ? groups * shape_.table * 2 * kLanes<T> : 0);
    parallel(pool_, parts * groups, [&](int64_t task) {
      const int64_t part = task / groups, group = task % groups;
      T* table = kShared ? tables.data() + task * each : nullptr;
      if (kShared) std::memset(table, 0, size_t(each) * sizeof(T));
      T* of_gaps = out.dt == nullptr ? nullptr : gaps.data() + group * events;
      typename Walk::Gradients gradients = {table, out.raw, out.drive, of_gaps, out.initial, {}, {}};
      Walk walk = this->walk(group);
      const int64_t begin = kShared ? cut_.first(part) : part, end = kShared ? cut_.first(part + 1) : part + 1;
      for (int64_t n = begin; n < end; ++n) walk.back(n, x, x_gradient, gradients);
      store(spectra.data() + 2 * task * kLanes<T>, gradients.omega);
      store(spectra.data() + (2 * task + 1) * kLanes<T>, gradients.decay);
    });
    if (kShared)
      for_rows([&](const Walk& walk, int64_t group, int64_t row) {
        Vector<T> sums[Walk::kGradients] = {};
        for (int64_t part = 0; part < parts; ++part)
          for (int64_t v = 0; v < Walk::kGradients; ++v)
            sums[v] += load(tables.data() + (part * groups + group) * each + (row * Walk::kGradients + v) * kLanes<T>);
        walk.finish(row, sums, out, kByRow ? of_rows.data() + 2 * (row * groups + group) * kLanes<T> : nullptr);
      });
    if (out.dt != nullptr) add_parts(gaps.data(), groups, events, false, out.dt, pool_);
    for (int64_t p = 0; p < shape_.layer.state; ++p) {
      const auto sum = [&](int64_t which) {
        const int64_t at = (2 * (p / kLanes<T>)+which) * kLanes<T> + p % kLanes<T>, step = 2 * groups * kLanes<T>;
        T total = 0;
        for (int64_t part = 0; part < parts; ++part) total += spectra[part * step + at];
        for (int64_t row = 0; kByRow && row < shape_.table; ++row) total += of_rows[row * step + at];
        return total;
      };
      if (out.omega != nullptr) out.omega[p] = sum(0);
      if (out.decay == nullptr) continue;
      // The parameter is the logarithm of the decay. Below its least value the decay is constant.
      const T decay = StepDiscretization<T>::decay_of(in_.decay[p]);
      out.decay[p] = decay > StepDiscretization<T>::kLeastDecay ? sum(1) * decay : T(0);
    }
  }

 private:
  Walk walk(int64_t group) const {
    const int64_t first = group * kLanes<T>;
    return Walk(shape_, in_, table_.data(), {group, first, shape_.layer.state - first});
  }

  // Calls task(walk, group, row) for every group and row of the table.
  template <class F>
  void for_rows(F task) const {
    constexpr int64_t kBlock = 256;
    const int64_t blocks = (shape_.table + kBlock - 1) / kBlock;
    parallel(pool_, blocks * cut_.groups, [&](int64_t n) {
      const int64_t first = n / cut_.groups * kBlock, last = first + kBlock;
      const int64_t group = n % cut_.groups;
      const Walk walk = this->walk(group);
      for (int64_t row = first; row < last && row < shape_.table; ++row) task(walk, group, row);
    });
  }

  const WindowShape& shape_;
  const WindowInputs<T>& in_;
  const Pool pool_;
  const Cut cut_;
  Buffer<T> table_;
};

// Calls task(scan) with the scan of the right kind.
template <class T, class F>
void with_window_scan(const WindowShape& shape, const WindowInputs<T>& in, Pool pool, F task) {
  const auto with_source = [&](auto kind) {
    constexpr Kind kKind = decltype(kind)::value;
    if (in.token == nullptr) {
      task(WindowScan<T, Source::kEvents, kKind>(shape, in, pool));
    } else if (in.dt == nullptr) {
      task(WindowScan<T, Source::kRegular, kKind>(shape, in, pool));
    } else {
      task(WindowScan<T, Source::kTimed, kKind>(shape, in, pool));
    }
  };
  if (shape.layer.transition >= Transition::kStep) return with_source(std::integral_constant<Kind, Kind::kStep>());
  if (shape.layer.oscillate) return with_source(std::integral_constant<Kind, Kind::kWave>());
  with_source(std::integral_constant<Kind, Kind::kReal>());
}

template <class T>
void window_scan(const WindowShape& shape, const WindowInputs<T>& in, T* x, Pool pool) {
  with_window_scan(shape, in, pool, [&](const auto& scan) { scan.forward(x); });
}

template <class T>
void window_scan_gradient(const WindowShape& shape, const WindowInputs<T>& in, const T* x, const T* x_gradient,
                          const WindowGradients<T>& out, Pool pool) {
  with_window_scan(shape, in, pool, [&](const auto& scan) { scan.gradient(x, x_gradient, out); });
}

}  // namespace s7::S7_ISA
