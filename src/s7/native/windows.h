// The state at the end of every window of events. Events can be rows of a table.
//
//     x_k = a_k x_{k-1} + g_k v_k, read at the last event of each window      a_k, g_k from w_k and dt_k
//
// With tokens, w_k and v_k are rows of a table with one row per token. Without tokens, there is one row per event. Only
// the states at the ends of windows are stored. The gradient recomputes the others.
#pragma once

#include "discretization.h"
#include "parallel.h"
#include "tiles.h"

namespace s7::S7_ISA {

template <class T>
inline Vector<T> load_some(const T* from, int64_t count) {
  if (count >= kLanes<T>) return load(from);
  Vector<T> v = {};
  for (int64_t n = 0; n < count; ++n) v[n] = from[n];
  return v;
}

template <class T>
inline void store_some(T* to, int64_t count, Vector<T> v) {
  if (count >= kLanes<T>) return store(to, v);
  for (int64_t n = 0; n < count; ++n) to[n] = v[n];
}

template <class T>
inline void add_some(T* to, int64_t count, Vector<T> v) {
  store_some(to, count, load_some(to, count) + v);
}

// Work is divided into groups of columns and parts of the batch. Sums over events that share a row are computed within
// each part, then over the parts, in an order that does not depend on the number of threads.
struct Cut {
  int64_t groups, parts, batch;

  static Cut of(int64_t columns, int64_t lanes, int64_t batch) {
    const int64_t groups = (columns + lanes - 1) / lanes, wanted = groups >= 4 ? 1 : groups >= 2 ? 2 : 4;
    return {groups, wanted < batch ? wanted : batch, batch};
  }

  int64_t first(int64_t part) const { return part * batch / parts; }
};

// total[n] = Σ_part sums[part · stride + n].
template <class T>
void add_parts(const T* sums, int64_t parts, int64_t size, T* total, int64_t stride, Pool pool) {
  constexpr int64_t kBlock = 4096;
  parallel(pool, (size + kBlock - 1) / kBlock, [&](int64_t block) {
    const int64_t first = block * kBlock, last = first + kBlock < size ? first + kBlock : size;
    for (int64_t n = first; n < last; ++n) {
      T sum = sums[n];
      for (int64_t part = 1; part < parts; ++part) sum += sums[part * stride + n];
      total[n] = sum;
    }
  });
}

template <class T>
class WindowScan {
 public:
  using V = Vector<T>;

  WindowScan(const WindowShape& shape, const WindowInputs<T>& in)
      : shape_(shape),
        in_(in),
        states_(shape.layer.state),
        rows_(shape.layer.rows()),
        length_(shape.layer.length),
        windows_(shape.layer.length / shape.stride),
        discretization_(shape.layer, in.dt != nullptr),
        cut_(Cut::of(states_, kLanes<T>, shape.layer.batch)) {}

  void forward(T* x, Pool pool) const {
    const int64_t groups = cut_.groups;
    parallel(pool, shape_.layer.batch * groups, [&](int64_t task) {
      const int64_t n = task / groups, first = task % groups * kLanes<T>;
      const Group group = {first, states_ - first};
      State state = initial(n, group);
      for (int64_t m = 0; m < windows_; ++m) {
        const int64_t window = shape_.layer.reverse ? windows_ - 1 - m : m;
        for (int64_t j = 0; j < shape_.stride; ++j) state = after(event(n, window, j), group, state);
        keep(state, group, x + (n * windows_ + window) * rows_);
      }
    });
  }

  // Computes the gradients of the inputs from the gradient of x.
  void gradient(const T* x, const T* x_gradient, const WindowGradients<T>& out, Pool pool) const {
    const int64_t batch = shape_.layer.batch, events = batch * length_, groups = cut_.groups;
    const bool shared = in_.token != nullptr;
    const int64_t parts = shared ? cut_.parts : batch, table = shape_.table * (states_ + rows_);
    Buffer<T> tables(shared ? parts * table : 0), gaps(out.dt == nullptr ? 0 : groups * events);
    Buffer<T> omegas(parts * groups * kLanes<T>);
    if (shared)
      parallel(pool, parts,
               [&](int64_t part) { std::memset(tables.data() + part * table, 0, size_t(table) * sizeof(T)); });
    parallel(pool, parts * groups, [&](int64_t task) {
      const int64_t part = task / groups, group = task % groups, first = group * kLanes<T>;
      T* raw = shared ? tables.data() + part * table : out.raw;
      T* drive = shared ? raw + shape_.table * states_ : out.drive;
      Buffer<Step> steps(shape_.stride);
      V omega = {};
      const int64_t begin = shared ? cut_.first(part) : part, end = shared ? cut_.first(part + 1) : part + 1;
      for (int64_t n = begin; n < end; ++n)
        omega += back(n, {first, states_ - first}, x, x_gradient, raw, drive,
                      gaps.size() == 0 ? nullptr : gaps.data() + group * events, out.initial, steps);
      store(omegas.data() + task * kLanes<T>, omega);
    });
    if (shared) {
      add_parts(tables.data(), parts, shape_.table * states_, out.raw, table, pool);
      add_parts(tables.data() + shape_.table * states_, parts, shape_.table * rows_, out.drive, table, pool);
    }
    if (out.dt != nullptr) add_parts(gaps.data(), groups, events, out.dt, events, pool);
    if (out.omega != nullptr)
      for (int64_t p = 0; p < states_; ++p) {
        T sum = 0;
        for (int64_t part = 0; part < parts; ++part)
          sum += omegas[(part * groups + p / kLanes<T>)*kLanes<T> + p % kLanes<T>];
        out.omega[p] = sum;
      }
  }

 private:
  // The states of one vector: the index of the first, and the number of states from there to the end.
  struct Group {
    int64_t first, count;
  };

  struct State {
    V real, imaginary;
  };

  struct Event {
    int64_t at, row;
    T dt;
    bool absent, reset;
  };

  // The data of one event that the gradient needs.
  struct Step {
    Event event;
    State before;
  };

  Event event(int64_t n, int64_t window, int64_t j) const {
    const int64_t within = shape_.layer.reverse ? shape_.stride - 1 - j : j;
    const int64_t at = n * length_ + window * shape_.stride + within;
    const int mark = in_.marks == nullptr ? 0 : int(in_.marks[at]);
    return {at, in_.token == nullptr ? at : int64_t(in_.token[at]), in_.dt == nullptr ? T(1) : in_.dt[at],
            (mark & kAbsent) != 0, (mark & kReset) != 0};
  }

  State initial(int64_t n, Group group) const {
    const T* from = in_.initial + n * rows_ + group.first;
    return {load_some(from, group.count), complex() ? load_some(from + states_, group.count) : V{}};
  }

  void keep(const State& state, Group group, T* x) const {
    store_some(x + group.first, group.count, state.real);
    if (complex()) store_some(x + states_ + group.first, group.count, state.imaginary);
  }

  bool complex() const { return shape_.layer.oscillate; }

  Turn<T> turned(const Event& event, Group group) const {
    return turn(load_some(in_.omega + group.first, group.count) * event.dt);
  }

  State after(const Event& event, Group group, State x) const {
    if (event.reset) x = State{};
    if (event.absent) return x;
    const auto point =
        discretization_.at(load_some(in_.raw + event.row * states_ + group.first, group.count), all(event.dt));
    const T* drive = in_.drive + event.row * rows_ + group.first;
    const V real = load_some(drive, group.count) * point.gain;
    if (!complex()) return {point.modulus * x.real + real, V{}};
    const Turn<T> turned = this->turned(event, group);
    const V cosine = point.modulus * turned.cosine, sine = point.modulus * turned.sine;
    const V imaginary = load_some(drive + states_, group.count) * point.gain;
    return {cosine * x.real - sine * x.imaginary + real, cosine * x.imaginary + sine * x.real + imaginary};
  }

  // Runs backwards along one sequence. Returns the gradient of omega.
  V back(int64_t n, Group group, const T* x, const T* x_gradient, T* raw, T* drive, T* gaps, T* initial_gradient,
         Buffer<Step>& steps) const {
    State adjoint = {};
    V omega = {};
    for (int64_t m = windows_ - 1; m >= 0; --m) {
      const int64_t window = shape_.layer.reverse ? windows_ - 1 - m : m;
      const int64_t previous = shape_.layer.reverse ? window + 1 : window - 1;
      State state = m == 0 ? initial(n, group) : kept(x + (n * windows_ + previous) * rows_, group);
      for (int64_t j = 0; j < shape_.stride; ++j) {
        const Event event = this->event(n, window, j);
        if (event.reset) state = State{};
        steps[j] = {event, state};
        if (j + 1 < shape_.stride) state = after(event, group, state);
      }
      const State arriving = kept(x_gradient + (n * windows_ + window) * rows_, group);
      adjoint = {adjoint.real + arriving.real, adjoint.imaginary + arriving.imaginary};
      for (int64_t j = shape_.stride - 1; j >= 0; --j) omega += step_back(steps[j], group, raw, drive, gaps, adjoint);
    }
    keep(adjoint, group, initial_gradient + n * rows_);
    return omega;
  }

  State kept(const T* x, Group group) const {
    return {load_some(x + group.first, group.count),
            complex() ? load_some(x + states_ + group.first, group.count) : V{}};
  }

  // Adds to the gradients of an event's row and gap, and replaces `adjoint` by the adjoint of the state before the
  // event. Returns the gradient of omega.
  V step_back(const Step& step, Group group, T* raw, T* drive, T* gaps, State& adjoint) const {
    const Event& event = step.event;
    const bool shared = in_.token != nullptr;
    T *raw_at = raw + event.row * states_ + group.first, *drive_at = drive + event.row * rows_ + group.first;
    if (event.absent) {
      if (event.reset) adjoint = State{};
      if (gaps != nullptr) gaps[event.at] = 0;
      if (!shared) {
        store_some(raw_at, group.count, V{});
        store_some(drive_at, group.count, V{});
        if (complex()) store_some(drive_at + states_, group.count, V{});
      }
      return V{};
    }
    const V w = load_some(in_.raw + event.row * states_ + group.first, group.count), dt = all(event.dt);
    const T* input = in_.drive + event.row * rows_ + group.first;
    const auto point = discretization_.at(w, dt);
    V gain = adjoint.real * load_some(input, group.count), modulus = adjoint.real * step.before.real, angle = {};
    V before_real = point.modulus * adjoint.real, before_imaginary = {};
    if (complex()) {
      gain += adjoint.imaginary * load_some(input + states_, group.count);
      const Turn<T> turned = this->turned(event, group);
      const V real = modulus + adjoint.imaginary * step.before.imaginary;
      const V imaginary = adjoint.imaginary * step.before.real - adjoint.real * step.before.imaginary;
      modulus = real * turned.cosine + imaginary * turned.sine;
      angle = (imaginary * turned.cosine - real * turned.sine) * point.modulus;
      const V cosine = point.modulus * turned.cosine, sine = point.modulus * turned.sine;
      before_real = cosine * adjoint.real + sine * adjoint.imaginary;
      before_imaginary = cosine * adjoint.imaginary - sine * adjoint.real;
    }
    if (event.reset) modulus = angle = before_real = before_imaginary = V{};
    const V rate = modulus * point.slope + gain * point.gain_slope;
    const V raw_gradient = discretization_.raw_gradient(point, w, rate);
    const V real = adjoint.real * point.gain, imaginary = adjoint.imaginary * point.gain;
    if (shared) {
      add_some(raw_at, group.count, raw_gradient);
      add_some(drive_at, group.count, real);
      if (complex()) add_some(drive_at + states_, group.count, imaginary);
    } else {
      store_some(raw_at, group.count, raw_gradient);
      store_some(drive_at, group.count, real);
      if (complex()) store_some(drive_at + states_, group.count, imaginary);
    }
    if (gaps != nullptr) {
      V gap = -modulus * point.rate * point.modulus;
      if (complex()) gap += angle * load_some(in_.omega + group.first, group.count);
      T sum = 0;
      for (int64_t p = 0; p < kLanes<T> && p < group.count; ++p) sum += gap[p];
      gaps[event.at] = sum;
    }
    adjoint = {before_real, before_imaginary};
    return angle * dt;
  }

  const WindowShape& shape_;
  const WindowInputs<T>& in_;
  const int64_t states_, rows_, length_, windows_;
  const Discretization<T> discretization_;
  const Cut cut_;
};

template <class T>
void window_scan(const WindowShape& shape, const WindowInputs<T>& in, T* x, Pool pool) {
  WindowScan<T>(shape, in).forward(x, pool);
}

template <class T>
void window_scan_gradient(const WindowShape& shape, const WindowInputs<T>& in, const T* x, const T* x_gradient,
                          const WindowGradients<T>& out, Pool pool) {
  WindowScan<T>(shape, in).gradient(x, x_gradient, out, pool);
}

}  // namespace s7::S7_ISA
