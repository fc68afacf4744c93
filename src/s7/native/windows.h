// The state at the end of every window of events. Events can be rows of a table.
//
//     x_k = a_k x_{k-1} + v_k, read at the last event of each window        a_k from w_k and dt_k,  v_k = g_k (B_k u_k
//     + b)
//
// With tokens, w_k and B_k u_k + b are rows of a table with one row per token, and everything that does not depend on
// dt_k is computed once per row. Without tokens, there is one row per event. Only the states at the ends of windows are
// stored. The gradient recomputes the others.
#pragma once

#include <type_traits>

#include "discretization.h"
#include "shared_rows.h"

namespace s7::S7_ISA {

// Where the quantities of an event come from: its own row, a row of a table that holds a_k and v_k (regular time), or a
// row of a table that holds the rate and v_k.
enum class Source { kEvents, kRegular, kTimed };

// The states of one vector: the index of the vector and of its first state, and the number of states from there on.
struct Group {
  int64_t number, first, count;
};

// Runs along sequences for the states of one vector.
template <class T, Source kSource, bool kComplex>
class WindowWalk {
 public:
  using V = Vector<T>;
  using State = Complex<T>;

  // Vectors per row of the prepared table, and of the table of gradients: the rate, then v.
  static constexpr int64_t kRecord = (kSource == Source::kRegular && kComplex ? 2 : 1) + (kComplex ? 2 : 1);
  static constexpr int64_t kGradients = kComplex ? 3 : 2;

  WindowWalk(const WindowShape& shape, const WindowInputs<T>& in, const T* table, Group group)
      : shape_(shape),
        in_(in),
        states_(shape.layer.state),
        rows_(shape.layer.rows()),
        length_(shape.layer.length),
        windows_(shape.layer.length / shape.stride),
        group_(group),
        discretization_(shape.layer, in.dt != nullptr),
        exponential_(in.dt != nullptr || kComplex),
        omega_(kComplex ? load_some(in.omega + group.first, group.count) : V{}),
        table_(table + (kSource == Source::kEvents ? 0 : group.number * shape.table * kRecord * kLanes<T>)) {}

  // Computes the record of one row of the table.
  void prepare(int64_t row, T* record) const {
    const auto point = discretization_.at(raw_at(row), all(T(1)));
    const State drive = pair_at(in_.drive + row * rows_);
    if (kSource == Source::kRegular) {
      const State factor = turned(point.modulus, T(1));
      record = append(record, factor.real);
      if (kComplex) record = append(record, factor.imaginary);
    } else {
      record = append(record, point.rate);
    }
    record = append(record, drive.real * point.gain);
    if (kComplex) append(record, drive.imaginary * point.gain);
  }

  void forward(int64_t n, T* x) const {
    State state = initial(n);
    for (int64_t m = 0; m < windows_; ++m) {
      const int64_t window = shape_.layer.reverse ? windows_ - 1 - m : m;
      for (int64_t j = 0; j < shape_.stride; ++j) {
        Step step = {};
        load_step(n, window, j, step);
        state = after(step, state);
      }
      keep(state, x + (n * windows_ + window) * rows_);
    }
  }

  // The gradients of one task.
  struct Gradients {
    T *table, *raw, *drive, *gaps, *initial;
    V omega;
  };

  // Runs backwards along sequence n.
  void back(int64_t n, const T* x, const T* x_gradient, Gradients& out) {
    if (steps_.size() == 0) steps_ = Buffer<Step>(shape_.stride);
    State adjoint = {};
    for (int64_t m = windows_ - 1; m >= 0; --m) {
      const int64_t window = shape_.layer.reverse ? windows_ - 1 - m : m;
      const int64_t previous = shape_.layer.reverse ? window + 1 : window - 1;
      State state = m == 0 ? initial(n) : pair_at(x + (n * windows_ + previous) * rows_);
      for (int64_t j = 0; j < shape_.stride; ++j) {
        load_step(n, window, j, steps_[j]);
        state = after(steps_[j], state);
      }
      const State arriving = pair_at(x_gradient + (n * windows_ + window) * rows_);
      adjoint.real += arriving.real;
      if (kComplex) adjoint.imaginary += arriving.imaginary;
      for (int64_t j = shape_.stride - 1; j >= 0; --j) step_back(steps_[j], adjoint, out);
    }
    keep(adjoint, out.initial + n * rows_);
  }

  // Computes the gradients of raw and drive of one row of the table from the sums of its gradients.
  void finish(int64_t row, const V* sums, const WindowGradients<T>& out) const {
    const V w = raw_at(row);
    const auto point = discretization_.at(w, all(T(1)));
    const State drive = pair_at(in_.drive + row * rows_);
    V gain = sums[1] * drive.real;
    if (kComplex) gain += sums[2] * drive.imaginary;
    const V rate = sums[0] + gain * point.gain_slope;
    store_some(out.raw + row * states_ + group_.first, group_.count, discretization_.raw_gradient(point, w, rate));
    keep({sums[1] * point.gain, kComplex ? sums[2] * point.gain : V{}}, out.drive + row * rows_);
  }

 private:
  struct Step {
    int64_t at, row;
    T dt;
    bool absent, reset;
    State factor, v, before;
    V rate, gain, gain_slope;
  };

  void load_step(int64_t n, int64_t window, int64_t j, Step& step) const {
    const int64_t within = shape_.layer.reverse ? shape_.stride - 1 - j : j;
    const int64_t at = n * length_ + window * shape_.stride + within;
    const int mark = in_.marks == nullptr ? 0 : int(in_.marks[at]);
    step.at = at;
    step.row = kSource == Source::kEvents ? at : int64_t(in_.token[at]);
    step.dt = kSource == Source::kRegular || in_.dt == nullptr ? T(1) : in_.dt[at];
    step.absent = (mark & kAbsent) != 0;
    step.reset = (mark & kReset) != 0;
    if (!step.absent) load_factors(step);
  }

  void load_factors(Step& step) const {
    if constexpr (kSource == Source::kEvents) {
      const auto point = discretization_.at(raw_at(step.row), all(step.dt));
      const State drive = pair_at(in_.drive + step.row * rows_);
      step.factor = turned(point.modulus, step.dt);
      step.v = {drive.real * point.gain, kComplex ? drive.imaginary * point.gain : V{}};
      step.rate = point.rate;
      step.gain = point.gain;
      step.gain_slope = point.gain_slope;
    } else {
      const T* record = table_ + step.row * kRecord * kLanes<T>;
      if constexpr (kSource == Source::kRegular) {
        step.factor = {load(record), kComplex ? load(record + kLanes<T>) : V{}};
      } else {
        step.rate = load(record);
        step.factor = turned(discretization_.modulus(step.rate, all(step.dt)), step.dt);
      }
      const T* v = record + (kRecord - (kComplex ? 2 : 1)) * kLanes<T>;
      step.v = {load(v), kComplex ? load(v + kLanes<T>) : V{}};
    }
  }

  State after(Step& step, State state) const {
    if (step.reset) state = State{};
    step.before = state;
    if (step.absent) return state;
    const State &a = step.factor, &v = step.v;
    if (!kComplex) return {a.real * state.real + v.real, V{}};
    return {a.real * state.real - a.imaginary * state.imaginary + v.real,
            a.real * state.imaginary + a.imaginary * state.real + v.imaginary};
  }

  // Adds to the gradients of an event's row and gap, and replaces `adjoint` by the adjoint of the state before it.
  void step_back(const Step& step, State& adjoint, Gradients& out) const {
    if (step.absent) {
      if (step.reset) adjoint = State{};
      if (out.gaps != nullptr) out.gaps[step.at] = 0;
      if (kSource == Source::kEvents) store_event(step.row, V{}, State{}, out);
      return;
    }
    const State &a = step.factor, &x = step.before;  // after a reset x = 0, so a has no gradient
    State gradient = {adjoint.real * x.real, V{}};
    if (kComplex) {
      gradient.real += adjoint.imaginary * x.imaginary;
      gradient.imaginary = adjoint.imaginary * x.real - adjoint.real * x.imaginary;
    }
    // The gradients of log |a_k| and of the angle of a_k.
    V modulus = gradient.real * a.real, angle = {};
    if (kComplex) {
      modulus += gradient.imaginary * a.imaginary;
      angle = gradient.imaginary * a.real - gradient.real * a.imaginary;
      out.omega += angle * step.dt;
    }
    const V rate = exponential_ ? -modulus * step.dt : -gradient.real;
    if (kSource == Source::kEvents) {
      store_event(step, rate, adjoint, out);
    } else {
      T* sums = out.table + step.row * kGradients * kLanes<T>;
      store(sums, load(sums) + rate);
      store(sums + kLanes<T>, load(sums + kLanes<T>) + adjoint.real);
      if (kComplex) store(sums + 2 * kLanes<T>, load(sums + 2 * kLanes<T>) + adjoint.imaginary);
    }
    if (kSource != Source::kRegular && out.gaps != nullptr) {
      const V gap = angle * omega_ - modulus * step.rate;
      T sum = 0;
      for (int64_t p = 0; p < kLanes<T> && p < group_.count; ++p) sum += gap[p];
      out.gaps[step.at] = sum;
    }
    if (step.reset) {
      adjoint = State{};
    } else if (kComplex) {
      adjoint = {a.real * adjoint.real + a.imaginary * adjoint.imaginary,
                 a.real * adjoint.imaginary - a.imaginary * adjoint.real};
    } else {
      adjoint.real = a.real * adjoint.real;
    }
  }

  // Stores the gradients of an event with a row of its own.
  void store_event(const Step& step, V rate, const State& adjoint, Gradients& out) const {
    const State drive = pair_at(in_.drive + step.row * rows_);
    V gain = adjoint.real * drive.real;
    if (kComplex) gain += adjoint.imaginary * drive.imaginary;
    const V w = raw_at(step.row);
    typename Discretization<T>::Point point = {};
    point.rate = step.rate;
    store_event(step.row, discretization_.raw_gradient(point, w, rate + gain * step.gain_slope),
                {adjoint.real * step.gain, kComplex ? adjoint.imaginary * step.gain : V{}}, out);
  }

  void store_event(int64_t row, V raw, const State& drive, Gradients& out) const {
    store_some(out.raw + row * states_ + group_.first, group_.count, raw);
    keep(drive, out.drive + row * rows_);
  }

  V raw_at(int64_t row) const { return load_some(in_.raw + row * states_ + group_.first, group_.count); }

  State pair_at(const T* from) const {
    return {load_some(from + group_.first, group_.count),
            kComplex ? load_some(from + states_ + group_.first, group_.count) : V{}};
  }

  State initial(int64_t n) const { return pair_at(in_.initial + n * rows_); }

  void keep(const State& state, T* to) const {
    store_some(to + group_.first, group_.count, state.real);
    if (kComplex) store_some(to + states_ + group_.first, group_.count, state.imaginary);
  }

  State turned(V modulus, T dt) const {
    if (!kComplex) return {modulus, V{}};
    const Turn<T> turned = turn(omega_ * dt);
    return {modulus * turned.cosine, modulus * turned.sine};
  }

  static T* append(T* record, V v) {
    store(record, v);
    return record + kLanes<T>;
  }

  const WindowShape& shape_;
  const WindowInputs<T>& in_;
  const int64_t states_, rows_, length_, windows_;
  const Group group_;
  const Discretization<T> discretization_;
  const bool exponential_;
  const V omega_;
  const T* const table_;
  Buffer<Step> steps_;
};

template <class T, Source kSource, bool kComplex>
class WindowScan {
 public:
  using Walk = WindowWalk<T, kSource, kComplex>;
  static constexpr bool kShared = kSource != Source::kEvents;

  WindowScan(const WindowShape& shape, const WindowInputs<T>& in, Pool pool)
      : shape_(shape),
        in_(in),
        pool_(pool),
        cut_(Cut::of(shape.layer.state, kLanes<T>, shape.layer.batch, shape.layer.events(), shape.table)),
        table_(kShared ? cut_.groups * shape.table * Walk::kRecord * kLanes<T> : 0) {
    if (kShared)
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
    Buffer<T> omegas(parts * groups * kLanes<T>);
    parallel(pool_, parts * groups, [&](int64_t task) {
      const int64_t part = task / groups, group = task % groups;
      T* table = kShared ? tables.data() + task * each : nullptr;
      if (kShared) std::memset(table, 0, size_t(each) * sizeof(T));
      T* of_gaps = out.dt == nullptr ? nullptr : gaps.data() + group * events;
      typename Walk::Gradients gradients = {table, out.raw, out.drive, of_gaps, out.initial, {}};
      Walk walk = this->walk(group);
      const int64_t begin = kShared ? cut_.first(part) : part, end = kShared ? cut_.first(part + 1) : part + 1;
      for (int64_t n = begin; n < end; ++n) walk.back(n, x, x_gradient, gradients);
      store(omegas.data() + task * kLanes<T>, gradients.omega);
    });
    if (kShared)
      for_rows([&](const Walk& walk, int64_t group, int64_t row) {
        Vector<T> sums[Walk::kGradients] = {};
        for (int64_t part = 0; part < parts; ++part)
          for (int64_t v = 0; v < Walk::kGradients; ++v)
            sums[v] += load(tables.data() + (part * groups + group) * each + (row * Walk::kGradients + v) * kLanes<T>);
        walk.finish(row, sums, out);
      });
    if (out.dt != nullptr) add_parts(gaps.data(), groups, events, out.dt, events, pool_);
    if (out.omega != nullptr)
      for (int64_t p = 0; p < shape_.layer.state; ++p) {
        T sum = 0;
        for (int64_t part = 0; part < parts; ++part)
          sum += omegas[(part * groups + p / kLanes<T>)*kLanes<T> + p % kLanes<T>];
        out.omega[p] = sum;
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
  const auto with_source = [&](auto complex) {
    constexpr bool kComplex = decltype(complex)::value;
    if (in.token == nullptr) {
      task(WindowScan<T, Source::kEvents, kComplex>(shape, in, pool));
    } else if (in.dt == nullptr) {
      task(WindowScan<T, Source::kRegular, kComplex>(shape, in, pool));
    } else {
      task(WindowScan<T, Source::kTimed, kComplex>(shape, in, pool));
    }
  };
  if (shape.layer.oscillate) return with_source(std::true_type());
  with_source(std::false_type());
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
