// A walk along the events of a sequence, for the states of one vector. windows.h runs it for all of them.
#pragma once

#include <initializer_list>
#include <type_traits>

#include "discretization.h"
#include "shared_rows.h"

namespace s7::S7_ISA {

// Where the quantities of an event come from: its own row, a row of a table that holds a_k and v_k (regular time), or a
// row of a table that holds what does not depend on the gap: the rate and v_k, or for kStep only w_k and B_k u_k + b.
enum class Source { kEvents, kRegular, kTimed };

// Real or oscillating states of the transitions with a rate, and states of the transitions with a step size.
enum class Kind { kReal, kWave, kStep };

// The states of one vector: the index of the vector and of its first state, and the number of states from there on.
struct Group {
  int64_t number, first, count;
};

template <class T, Source kSource, Kind kKind>
class WindowWalk {
 public:
  using V = Vector<T>;
  using State = Complex<T>;
  using StepPoint = typename StepDiscretization<T>::Point;

  static constexpr bool kComplex = kKind != Kind::kReal, kStep = kKind == Kind::kStep;
  // Whether an event computes a_k and g_k from w_k.
  static constexpr bool kFromRaw = kSource == Source::kEvents || (kStep && kSource == Source::kTimed);
  // Vectors per row of the prepared table: a_k or the rate, then v_k.
  static constexpr int64_t kRecord =
      kFromRaw ? 0 : (kSource == Source::kRegular && kComplex ? 2 : 1) + (kComplex ? 2 : 1);
  // Vectors per row of the table of gradients: of the rate, w_k or a_k, then of v_k or B_k u_k + b.
  static constexpr int64_t kGradients = (kStep && kSource == Source::kRegular ? 2 : 1) + (kComplex ? 2 : 1);

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
        by_step_(shape.layer),
        omega_(kComplex ? load_some(in.omega + group.first, group.count) : V{}),
        decay_(kStep ? decays() : V{}),
        reads_gaps_(gap_readers()),
        table_(table + (kSource == Source::kEvents ? 0 : group.number * shape.table * kRecord * kLanes<T>)) {}

  // Computes the record of one row of the table.
  void prepare(int64_t row, T* record) const {
    const State drive = drive_at(row);
    if constexpr (kStep) {
      const StepPoint point = step_at(row, all(T(1)));
      const State v = product(drive, point.gain);
      for (const V part : {point.factor.real, point.factor.imaginary, v.real, v.imaginary})
        record = append(record, part);
      return;
    }
    const auto point = discretization_.at(raw_at(row), all(T(1)));
    if (kSource == Source::kRegular) {
      const State factor = turned(point.modulus, all(T(1)));
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
    V omega, decay;
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

  // Computes the gradients of raw and drive of one row of the table from the sums of its gradients. Where these are
  // those of a_k and v_k of kStep, also computes the row's part of the gradients of omega and decay, in `spectrum`.
  void finish(int64_t row, const V* sums, const WindowGradients<T>& out, T* spectrum) const {
    if constexpr (kStep) return finish_steps(row, sums, out, spectrum);
    const V w = raw_at(row);
    const auto point = discretization_.at(w, all(T(1)));
    const State drive = drive_at(row);
    V gain = sums[1] * drive.real;
    if (kComplex) gain += sums[2] * drive.imaginary;
    const V rate = sums[0] + gain * point.gain_slope;
    store_some(out.raw + row * states_ + group_.first, group_.count, discretization_.raw_gradient(point, w, rate));
    keep({sums[1] * point.gain, kComplex ? sums[2] * point.gain : V{}}, out.drive + row * rows_);
  }

 private:
  struct Step {
    int64_t at, row;
    V dt;  // as each state reads it
    bool absent, reset;
    State factor, v, before;
    V rate, gain, gain_slope;
    std::conditional_t<kStep && kFromRaw, StepPoint, std::false_type> point;  // of the transitions with a step size
  };

  void load_step(int64_t n, int64_t window, int64_t j, Step& step) const {
    const int64_t within = shape_.layer.reverse ? shape_.stride - 1 - j : j;
    const int64_t at = n * length_ + window * shape_.stride + within;
    const int mark = in_.marks == nullptr ? 0 : int(in_.marks[at]);
    step.at = at;
    step.row = kSource == Source::kEvents ? at : int64_t(in_.token[at]);
    step.dt = kSource == Source::kRegular || in_.dt == nullptr ? all(T(1)) : gap_of(in_.dt[at]);
    step.absent = (mark & kAbsent) != 0;
    step.reset = (mark & kReset) != 0;
    if (!step.absent) load_factors(step);
  }

  void load_factors(Step& step) const {
    if constexpr (kStep && kFromRaw) {
      step.point = step_at(step.row, step.dt);
      step.factor = step.point.factor;
      step.v = product(drive_at(step.row), step.point.gain);
    } else if constexpr (kFromRaw) {
      const auto point = discretization_.at(raw_at(step.row), step.dt);
      const State drive = drive_at(step.row);
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
        step.factor = turned(discretization_.modulus(step.rate, step.dt), step.dt);
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
    if constexpr (kStep) {
      size_back(step, gradient, adjoint, out);
    } else {
      rate_back(step, gradient, adjoint, out);
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

  // Adds to the gradients of an event's row and gap, given that of a_k and the adjoint, for a transition with a rate.
  void rate_back(const Step& step, const State& gradient, const State& adjoint, Gradients& out) const {
    const State& a = step.factor;
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
      add_to_row(step.row, {rate, adjoint.real, adjoint.imaginary}, out);
    }
    set_gap(step, angle * omega_ - modulus * step.rate, out);
  }

  // The same for a transition with a step size.
  void size_back(const Step& step, const State& gradient, const State& adjoint, Gradients& out) const {
    if constexpr (kFromRaw) {
      const StepPoint& point = step.point;
      const State drive = times_conjugate(adjoint, point.gain);
      const auto found =
          by_step_.back(point, decay_, omega_, step.dt, gradient, times_conjugate(adjoint, drive_at(step.row)));
      out.omega += found.omega;
      out.decay += found.decay;
      set_gap(step, found.dt, out);
      if (kSource == Source::kEvents) return store_event(step.row, found.w, drive, out);
      add_to_row(step.row, {found.w, drive.real, drive.imaginary}, out);
    } else {
      add_to_row(step.row, {gradient.real, gradient.imaginary, adjoint.real, adjoint.imaginary}, out);
    }
  }

  void finish_steps(int64_t row, const V* sums, const WindowGradients<T>& out, T* spectrum) const {
    T* raw = out.raw + row * states_ + group_.first;
    if constexpr (kFromRaw) {
      store_some(raw, group_.count, sums[0]);
      keep({sums[1], sums[2]}, out.drive + row * rows_);
    } else {
      const StepPoint point = step_at(row, all(T(1)));
      const State v = {sums[2], sums[3]};
      const auto found =
          by_step_.back(point, decay_, omega_, all(T(1)), {sums[0], sums[1]}, times_conjugate(v, drive_at(row)));
      store_some(raw, group_.count, found.w);
      keep(times_conjugate(v, point.gain), out.drive + row * rows_);
      store(spectrum, found.omega);
      store(spectrum + kLanes<T>, found.decay);
    }
  }

  // Adds to the gradients of a row of the table, of which only the first kGradients exist.
  void add_to_row(int64_t row, std::initializer_list<V> gradients, Gradients& out) const {
    T* sums = out.table + row * kGradients * kLanes<T>;
    for (int64_t n = 0; n < kGradients; ++n, sums += kLanes<T>) store(sums, load(sums) + gradients.begin()[n]);
  }

  void set_gap(const Step& step, V gap, Gradients& out) const {
    if (kSource == Source::kRegular || out.gaps == nullptr) return;
    T sum = 0;
    for (int64_t p = 0; p < kLanes<T> && p < group_.count; ++p)
      if (!shape_.layer.counts(group_.first + p)) sum += gap[p];
    out.gaps[step.at] = sum;
  }

  // Stores the gradients of an event with a row of its own.
  void store_event(const Step& step, V rate, const State& adjoint, Gradients& out) const {
    const State drive = drive_at(step.row);
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

  State drive_at(int64_t row) const { return pair_at(in_.drive + row * rows_); }

  StepPoint step_at(int64_t row, V dt) const { return by_step_.at(raw_at(row), decay_, omega_, dt); }

  // 1 for the states that read gaps, 0 for those that count events.
  V gap_readers() const {
    V reads = all(T(1));
    for (int64_t p = 0; p < kLanes<T>; ++p)
      if (shape_.layer.counts(group_.first + p)) reads[p] = 0;
    return reads;
  }

  // A gap as each state reads it: dt, or 1.
  V gap_of(T dt) const { return reads_gaps_ * dt + (T(1) - reads_gaps_); }

  // The decays of the vector's states; 1 in unused lanes, because the gain divides by Λ.
  V decays() const {
    V decay = all(T(1));
    for (int64_t p = 0; p < kLanes<T> && p < group_.count; ++p)
      decay[p] = by_step_.decay_of(in_.decay[group_.first + p]);
    return decay;
  }

  State pair_at(const T* from) const {
    return {load_some(from + group_.first, group_.count),
            kComplex ? load_some(from + states_ + group_.first, group_.count) : V{}};
  }

  State initial(int64_t n) const { return pair_at(in_.initial + n * rows_); }

  void keep(const State& state, T* to) const {
    store_some(to + group_.first, group_.count, state.real);
    if (kComplex) store_some(to + states_ + group_.first, group_.count, state.imaginary);
  }

  State turned(V modulus, V dt) const {
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
  const StepDiscretization<T> by_step_;
  const V omega_, decay_, reads_gaps_;
  const T* const table_;
  Buffer<Step> steps_;
};

}  // namespace s7::S7_ISA
