// A complete model that processes events in tiles: one event, or up to kTile consecutive events.
#pragma once

#include <cfloat>
#include <memory>
#include <type_traits>
#include <utility>

#include "stream_encoder.h"
#include "stream_head.h"

namespace s7::S7_ISA::stream {

using s7::stream::ModelPlan;

class Model {
 public:
  explicit Model(const ModelPlan& plan)
      : depth_(plan.depth), blocks_(new Block[size_t(plan.depth)]), places_(new BlockPlace[size_t(plan.depth)]) {
    for (int64_t b = 0; b < depth_; ++b) blocks_[b] = Block(plan.blocks[b]);
    encoder_ = Encoder(plan.encoder, plan.blocks[0].width);
    head_ = Head(plan.head);
    lay_out();
    if (encoder_.reads_tokens()) tabulate(plan.most_table_bytes);
  }

  size_t size() const { return size_t(memory_size_); }
  int64_t table_rows() const { return table_.size() == 0 ? 0 : encoder_.tokens(); }

  void start(char* memory) const { std::memset(memory, 0, size()); }

  void push_tokens(char* memory, const int32_t* tokens, const float* gaps, int64_t count) const {
    const State state(memory);
    const Work work = work_in(memory);
    catch_up(memory, count == 1 ? 1 : depth_);
    const Tile encoded = signal(memory, 0);
    const float *u[kTile], *drive[kTile];
    for (int64_t first = 0; first < count; first += kTile) {
      const int64_t part = count - first < kTile ? count - first : kTile;
      for (int64_t t = 0; t < part; ++t) {
        const int64_t k = first + t;
        if (table_.size() > 0) {
          if (k + kTile < count) prefetch(row(tokens[k + kTile]));
          u[t] = row(tokens[k]);
          drive[t] = u[t] + blocks_[0].padded_width();
        } else {
          encoder_.encode(tokens[k], encoded[t]);
          u[t] = encoded[t];
        }
      }
      run(memory, state, work, 0, u, table_.size() > 0 ? drive : nullptr, gaps == nullptr ? nullptr : gaps + first,
          part, count == 1);
    }
  }

  void push_vectors(char* memory, const float* inputs, const float* gaps, int64_t count) const {
    const State state(memory);
    const Work work = work_in(memory);
    catch_up(memory, count == 1 ? 1 : depth_);
    const Tile encoded = signal(memory, 0);
    float* room = reinterpret_cast<float*>(memory + encoder_work_);
    const float* u[kTile];
    for (int64_t first = 0; first < count; first += kTile) {
      const int64_t part = count - first < kTile ? count - first : kTile;
      for (int64_t t = 0; t < part; ++t) {
        encoder_.encode(inputs + (first + t) * encoder_.inputs(), room, encoded[t]);
        u[t] = encoded[t];
      }
      run(memory, state, work, 0, u, nullptr, gaps == nullptr ? nullptr : gaps + first, part, count == 1);
    }
  }

  // Computes the answer as if the stream ended here: unfinished windows are closed in a copy of the state.
  void read(char* memory, bool timed, float* answer) const {
    State state(memory);
    const Work work = work_in(memory);
    catch_up(memory, depth_);
    if (pools_) {
      std::memcpy(memory + copy_, memory, size_t(state_size_));
      state = State(memory + copy_);
      for (int64_t b = 0; b < depth_; ++b) {
        if (blocks_[b].stride() == 1 || state.at<Window>(places_[b].window)->events == 0) continue;
        const float gap = close_window(state, work, b, 0);
        finish_windows(memory, work, b, 1);
        const float* u[] = {signal(memory, b + 1)[0]};
        run(memory, state, work, b + 1, u, nullptr, timed ? &gap : nullptr, 1, false);
      }
    }
    head_.read(state, work.normalised[0], reinterpret_cast<float*>(memory + answer_), answer);
  }

  // The state as numbers: x and, in a pooling block, the window of each block, then the running mean of the head.
  int64_t state_numbers() const { return state_numbers_; }
  void save(const char* memory, double* numbers) const {
    catch_up(const_cast<char*>(memory), depth_);
    each_number(State(const_cast<char*>(memory)), [&](auto* from, int64_t n) {
      for (int64_t k = 0; k < n; ++k) *numbers++ = double(from[k]);
    });
  }
  bool restore(char* memory, const double* numbers) const {
    for (int64_t n = 0; n < state_numbers_; ++n)
      if (!(std::fabs(numbers[n]) <= FLT_MAX)) return false;
    // Restore into the copy first, so that the state is unchanged if the window of a block is invalid.
    const State state(memory + copy_);
    std::memset(memory + copy_, 0, size_t(state_size_));
    bool possible = true;
    each_number(state, [&](auto* to, int64_t n) {
      using Number = std::remove_reference_t<decltype(*to)>;
      for (int64_t k = 0; k < n; ++k, ++numbers) {
        if (std::is_integral_v<Number> && std::fabs(*numbers) > 1e9)
          possible = false;
        else
          to[k] = Number(*numbers);
      }
    });
    for (int64_t b = 0; b < depth_; ++b) {
      const int64_t events = state.at<Window>(places_[b].window)->events;
      if (events < 0 || events >= blocks_[b].stride()) possible = false;
    }
    if (!possible) return false;
    std::memcpy(memory, memory + copy_, size_t(state_size_));
    deferred(memory) = Deferred{};
    return true;
  }

 private:
  // Feeds `count` vectors to block b and to the blocks above it, as far as windows become full. `drive` is what block b
  // computes from single events, if it is known. `gaps` is null in regular time. With `defer`, which needs a count of
  // 1, the blocks above a full window are left to `catch_up`.
  void run(char* memory, State state, const Work& work, int64_t b, const float* const* u, const float* const* drive,
           const float* gaps, int64_t count, bool defer) const {
    const float* inputs[kTile];
    float window_gaps[kTile];
    for (; b < depth_; ++b) {
      if (defer && blocks_[b].stride() > 1 && state.at<Window>(places_[b].window)->events + 1 == blocks_[b].stride())
        catch_up(memory, depth_);  // windows reach the blocks above in order
      count = pass(memory, state, work, b, u, drive, gaps, count, window_gaps);
      if (count == 0) return;
      const bool pooled = blocks_[b].stride() > 1;
      if (pooled && gaps != nullptr) gaps = window_gaps;
      const Tile outputs = signal(memory, b + 1);
      if (defer && pooled && b + 1 < depth_) {
        std::memcpy(memory + deferred_signal_, outputs[0], size_t(width_) * sizeof(float));
        deferred(memory) = {b + 1, gaps != nullptr, gaps == nullptr ? 1.0f : gaps[0]};
        return;
      }
      for (int64_t t = 0; t < count; ++t) inputs[t] = outputs[t];
      u = inputs;
      drive = nullptr;
    }
    for (int64_t t = 0; t < count; ++t) head_.absorb(state, u[t], gaps == nullptr ? 1.0f : gaps[t]);
  }

  // Feeds `count` vectors to block b. Returns the number of outputs, which are in signal b + 1: one per vector, or one
  // per full window, with the gaps of these windows in `window_gaps`. `gaps` may be the same array.
  int64_t pass(char* memory, State state, const Work& work, int64_t b, const float* const* u, const float* const* drive,
               const float* gaps, int64_t count, float* window_gaps) const {
    const Block& block = blocks_[b];
    float* x = state.at<float>(places_[b].x);
    const bool timed = gaps != nullptr, known = drive != nullptr;
    const float* drives[kTile];
    if (!known) {
      block.prepare(u, work.normalised, count);
      block.drive(work.normalised, work, count);
      for (int64_t t = 0; t < count; ++t) drives[t] = work.drive[t];
      drive = drives;
    }
    if (block.stride() == 1) {
      for (int64_t t = 0; t < count; ++t) {
        block.advance(drive[t], timed, timed ? gaps[t] : 1.0f, x);
        block.copy_state(x, work.rows[t]);
      }
      if (known) block.prepare(u, work.normalised, count);
      block.output(work.normalised, u, work, signal(memory, b + 1), count);
      return count;
    }
    int64_t windows = 0;
    for (int64_t t = 0; t < count; ++t) {
      const float gap = timed ? gaps[t] : 1.0f;
      block.advance(drive[t], timed, gap, x);
      if (add_to_window(state, b, u[t], gap)) {
        window_gaps[windows] = close_window(state, work, b, windows);
        ++windows;
      }
    }
    if (windows > 0) finish_windows(memory, work, b, windows);
    return windows;
  }

  // Feeds the output of a window, if one is waiting, to at most `most` further blocks. Between single events this
  // spreads the work of the blocks above over the following events, so that none of them takes long.
  void catch_up(char* memory, int64_t most) const {
    Deferred& waiting = deferred(memory);
    const State state(memory);
    for (; most > 0 && waiting.block > 0; --most) {
      const int64_t b = waiting.block;
      const float* u[] = {reinterpret_cast<const float*>(memory + deferred_signal_)};
      const float* gap = waiting.timed ? &waiting.gap : nullptr;
      float window_gap = waiting.gap;
      const bool complete = pass(memory, state, work_in(memory), b, u, nullptr, gap, 1, &window_gap) > 0;
      if (complete && b + 1 == depth_)
        head_.absorb(state, signal(memory, depth_)[0], waiting.timed ? window_gap : 1.0f);
      if (complete && b + 1 < depth_) {
        std::memcpy(memory + deferred_signal_, signal(memory, b + 1)[0], size_t(width_) * sizeof(float));
        waiting = {b + 1, waiting.timed, window_gap};
      } else {
        waiting = Deferred{};
      }
    }
  }

  // Adds an event to the window. Returns whether the window is full.
  bool add_to_window(State state, int64_t b, const float* u, float gap) const {
    const Block& block = blocks_[b];
    Window& window = *state.at<Window>(places_[b].window);
    if (block.pooling() != Pooling::kLast) {
      const float weight = block.pooling() == Pooling::kTime ? gap : 1.0f;
      accumulate<float>(u, weight, window.weight, block.padded_width(), state.at<float>(places_[b].sum));
      window.weight += weight;
    }
    std::memcpy(state.at<float>(places_[b].last), u, size_t(block.padded_width()) * sizeof(float));
    window.gap += gap;
    return ++window.events == block.stride();
  }

  // Puts what the output of a full window is computed from into place n of a tile, starts the next window, and returns
  // the gap of the full one.
  float close_window(State state, const Work& work, int64_t b, int64_t n) const {
    const Block& block = blocks_[b];
    Window& window = *state.at<Window>(places_[b].window);
    const size_t bytes = size_t(block.padded_width()) * sizeof(float);
    block.copy_state(state.at<float>(places_[b].x), work.rows[n]);
    std::memcpy(work.last[n], state.at<float>(places_[b].last), bytes);
    if (block.pooling() == Pooling::kLast) {
      std::memcpy(work.skip[n], work.last[n], bytes);
    } else {
      float *sum = state.at<float>(places_[b].sum), *skip = work.skip[n];
      const float divisor = window.weight > 0 ? window.weight : float(window.events);
      for (int64_t i = 0; i < block.padded_width(); ++i) {
        skip[i] = sum[i] / divisor;
        sum[i] = 0;
      }
    }
    const float gap = window.gap;
    window = Window{};
    return gap;
  }

  // Computes the outputs of the first `count` windows of a tile in signal b + 1.
  void finish_windows(char* memory, const Work& work, int64_t b, int64_t count) const {
    const float *last[kTile], *skip[kTile];
    for (int64_t n = 0; n < count; ++n) {
      last[n] = work.last[n];
      skip[n] = work.skip[n];
    }
    blocks_[b].prepare(last, work.normalised, count);
    blocks_[b].output(work.normalised, skip, work, signal(memory, b + 1), count);
  }

  void lay_out() {
    Places state;
    WorkSizes sizes;
    for (int64_t b = 0; b < depth_; ++b) {
      const Block& block = blocks_[b];
      BlockPlace& place = places_[b];
      pools_ = pools_ || block.stride() > 1;
      place.x = state.add<float>(block.state_rows());
      place.window = state.add<Window>(1);
      place.last = state.add<float>(block.stride() > 1 ? block.padded_width() : 0);
      place.sum = state.add<float>(block.stride() > 1 ? block.padded_width() : 0);
      sizes.include(block.work_sizes());
    }
    head_.lay_out(state);
    state_size_ = state.size();

    Places memory;
    memory.add<char>(state_size_);
    copy_ = memory.add<char>(state_size_);
    width_ = sizes.width;
    for (int64_t& place : signals_) place = memory.add<float>(kTile * width_ + kLane);
    encoder_work_ = memory.add<float>(encoder_.work_size() + kLane);
    answer_ = memory.add<float>(head_.padded_outputs());
    deferred_ = memory.add<Deferred>(1);
    deferred_signal_ = memory.add<float>(width_ + kLane);
    const int64_t wanted[] = {sizes.width,   sizes.drive, sizes.rows,  sizes.width,
                              sizes.factors, sizes.width, sizes.width, sizes.width};
    for (int n = 0; n < kWorks; ++n) works_[n] = {memory.add<float>(kTile * wanted[n] + kLane), wanted[n]};
    products_ = {memory.add<float>(sizes.products + kLane), sizes.products};
    memory_size_ = memory.size();
    Buffer<char> sample(memory_size_);
    each_number(State(sample.data()), [&](auto*, int64_t n) { state_numbers_ += n; });
  }

  // Precomputes a table with one row per token: the encoded vector, then the drive of the first block.
  void tabulate(int64_t most_bytes) {
    const Block& block = blocks_[0];
    row_size_ = block.padded_width() + block.drive_size();
    if (encoder_.tokens() > most_bytes / int64_t(sizeof(float)) / row_size_) return;
    Buffer<float> table(encoder_.tokens() * row_size_);
    Buffer<char> memory(memory_size_);
    start(memory.data());
    const Work work = work_in(memory.data());
    float* const u[] = {signal(memory.data(), 0)[0]};
    for (int64_t token = 0; token < encoder_.tokens(); ++token) {
      encoder_.encode(token, u[0]);
      block.prepare(u, work.normalised, 1);
      block.drive(work.normalised, work, 1);
      float* to = &table[token * row_size_];
      std::memcpy(to, u[0], size_t(block.padded_width()) * sizeof(float));
      std::memcpy(to + block.padded_width(), work.drive[0], size_t(block.drive_size()) * sizeof(float));
    }
    table_ = std::move(table);
  }

  const float* row(int64_t token) const { return table_.data() + token * row_size_; }
  void prefetch(const float* from) const {
    for (int64_t n = 0; n < row_size_; n += 16) __builtin_prefetch(from + n);
  }

  Work work_in(char* memory) const {
    const auto at = [&](int n) { return Tile{reinterpret_cast<float*>(memory + works_[n].place), works_[n].size}; };
    const Room products{reinterpret_cast<float*>(memory + products_.place), products_.size};
    return {at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7), products};
  }
  // Returns the inputs of block b, which are also the outputs of block b - 1.
  Tile signal(char* memory, int64_t b) const { return {reinterpret_cast<float*>(memory + signals_[b % 2]), width_}; }

  Deferred& deferred(char* memory) const { return *reinterpret_cast<Deferred*>(memory + deferred_); }

  // Calls f(pointer, count) for all numbers of a state, without padding.
  template <class F>
  void each_number(State state, F f) const {
    for (int64_t b = 0; b < depth_; ++b) {
      const Block& block = blocks_[b];
      float* x = state.at<float>(places_[b].x);
      f(x, block.state());
      if (block.complex_state()) f(x + block.state_rows() / 2, block.state());
      if (block.stride() == 1) continue;
      Window* window = state.at<Window>(places_[b].window);
      f(&window->events, 1);
      f(&window->weight, 1);
      f(&window->gap, 1);
      f(state.at<float>(places_[b].last), block.width());
      f(state.at<float>(places_[b].sum), block.width());
    }
    head_.each_number(state, f);
  }

  int64_t depth_ = 0;
  std::unique_ptr<Block[]> blocks_;
  std::unique_ptr<BlockPlace[]> places_;
  Encoder encoder_;
  Head head_;
  Buffer<float> table_;
  int64_t row_size_ = 0;
  bool pools_ = false;
  int64_t state_size_ = 0, state_numbers_ = 0;
  int64_t copy_ = 0, width_ = 0, signals_[2] = {}, encoder_work_ = 0, answer_ = 0, memory_size_ = 0;
  int64_t deferred_ = 0, deferred_signal_ = 0;
  // Scratch memory: its offset in bytes, and its size in floats; per event, except for the products.
  struct Scratch {
    int64_t place, size;
  };
  static constexpr int kWorks = 8;
  Scratch works_[kWorks] = {}, products_ = {};
};

}  // namespace s7::S7_ISA::stream
