// A complete model that processes events in tiles: one event, or up to kTile consecutive events.
#pragma once

#include <cfloat>
#include <memory>
#include <type_traits>
#include <utility>

#include "stream_encoder.h"
#include "stream_memory.h"

namespace s7::S7_ISA::stream {

using s7::stream::HeadPlan;
using s7::stream::ModelPlan;
using s7::stream::Reading;

class Model {
 public:
  explicit Model(const ModelPlan& plan)
      : depth_(plan.depth), blocks_(new Block[size_t(plan.depth)]), places_(new BlockPlace[size_t(plan.depth)]) {
    for (int64_t b = 0; b < depth_; ++b) blocks_[b] = Block(plan.blocks[b]);
    encoder_ = Encoder(plan.encoder, plan.blocks[0].width);
    pack_head(plan.head);
    lay_out();
    if (encoder_.reads_tokens()) tabulate(plan.most_table_bytes);
  }

  size_t size() const { return size_t(memory_size_); }
  int64_t table_rows() const { return table_.size() == 0 ? 0 : encoder_.tokens(); }

  void start(char* memory) const { std::memset(memory, 0, size()); }

  void push_tokens(char* memory, const int32_t* tokens, const float* gaps, int64_t count) const {
    const State state(memory);
    const Work work = work_in(memory);
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
          part);
    }
  }

  void push_vectors(char* memory, const float* inputs, const float* gaps, int64_t count) const {
    const State state(memory);
    const Work work = work_in(memory);
    const Tile encoded = signal(memory, 0);
    float* room = reinterpret_cast<float*>(memory + encoder_work_);
    const float* u[kTile];
    for (int64_t first = 0; first < count; first += kTile) {
      const int64_t part = count - first < kTile ? count - first : kTile;
      for (int64_t t = 0; t < part; ++t) {
        encoder_.encode(inputs + (first + t) * encoder_.inputs(), room, encoded[t]);
        u[t] = encoded[t];
      }
      run(memory, state, work, 0, u, nullptr, gaps == nullptr ? nullptr : gaps + first, part);
    }
  }

  // Computes the answer as if the stream ended here: unfinished windows are closed in a copy of the state.
  void read(char* memory, bool timed, float* answer) const {
    State state(memory);
    const Work work = work_in(memory);
    if (pools_) {
      std::memcpy(memory + copy_, memory, size_t(state_size_));
      state = State(memory + copy_);
      for (int64_t b = 0; b < depth_; ++b) {
        if (blocks_[b].stride() == 1 || state.at<Window>(places_[b].window)->events == 0) continue;
        const float gap = close_window(state, work, b, 0);
        finish_windows(memory, work, b, 1);
        const float* u[] = {signal(memory, b + 1)[0]};
        run(memory, state, work, b + 1, u, nullptr, timed ? &gap : nullptr, 1);
      }
    }
    float *features = work.normalised[0], *outputs = reinterpret_cast<float*>(memory + answer_);
    const int64_t H = blocks_[depth_ - 1].out();
    if (reading_ == Reading::kLast) {
      std::memcpy(features, state.at<float>(head_last_), size_t(H) * sizeof(float));
    } else {
      const Totals totals = *state.at<Totals>(head_totals_);
      const double divisor = totals.weight > 0 ? totals.weight : totals.number > 0 ? totals.number : 1;
      const double* sum = state.at<double>(head_sum_);
      for (int64_t n = 0; n < H; ++n) features[n] = float(sum[n] / divisor);
    }
    head_.apply(features, &head_bias_[0], outputs);
    for (int64_t n = 0; n < outputs_; ++n) answer[n] = outputs[n] * head_scale_[n] + head_mean_[n];
  }

  // The state as numbers: x and, in a pooling block, the window of each block, then the running mean of the head.
  int64_t state_numbers() const { return state_numbers_; }
  void save(const char* memory, double* numbers) const {
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
    return true;
  }

 private:
  // Feeds `count` vectors to block b and to the blocks above it, as far as windows become full. `drive` is what block b
  // computes from single events, if it is known. `gaps` is null in regular time.
  void run(char* memory, State state, const Work& work, int64_t b, const float* const* u, const float* const* drive,
           const float* gaps, int64_t count) const {
    const bool timed = gaps != nullptr;
    const float *inputs[kTile], *drives[kTile];
    float window_gaps[kTile];
    for (; b < depth_; ++b) {
      const Block& block = blocks_[b];
      float* x = state.at<float>(places_[b].x);
      const bool known = drive != nullptr;
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
      } else {
        int64_t windows = 0;
        for (int64_t t = 0; t < count; ++t) {
          const float gap = timed ? gaps[t] : 1.0f;
          block.advance(drive[t], timed, gap, x);
          if (!add_to_window(state, b, u[t], gap)) continue;
          window_gaps[windows] = close_window(state, work, b, windows);  // `gaps` may be this array, up to t
          ++windows;
        }
        if (windows == 0) return;
        finish_windows(memory, work, b, windows);
        count = windows;
        if (timed) gaps = window_gaps;
      }
      const Tile outputs = signal(memory, b + 1);
      for (int64_t t = 0; t < count; ++t) inputs[t] = outputs[t];
      u = inputs;
      drive = nullptr;
    }
    for (int64_t t = 0; t < count; ++t) absorb(state, u[t], timed ? gaps[t] : 1.0f);
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

  void absorb(State state, const float* u, float gap) const {
    const int64_t H = blocks_[depth_ - 1].out();
    if (reading_ == Reading::kLast) {
      std::memcpy(state.at<float>(head_last_), u, size_t(H) * sizeof(float));
      return;
    }
    Totals& totals = *state.at<Totals>(head_totals_);
    const double weight = reading_ == Reading::kTimeMean ? double(gap) : 1.0;
    accumulate<double>(u, weight, totals.weight, H, state.at<double>(head_sum_));
    totals.weight += weight;
    totals.number += 1;
  }

  void pack_head(const HeadPlan& plan) {
    reading_ = plan.kind;
    outputs_ = plan.outputs;
    head_ = Matrix(plan.width, padded(plan.outputs));
    head_.put(plan.W, plan.outputs, plan.width, 0, 0);
    head_bias_ = padded_copy(plan.c, plan.outputs);
    head_scale_ = padded_copy(plan.scale, plan.outputs);
    head_mean_ = padded_copy(plan.mean, plan.outputs);
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
    const int64_t H = blocks_[depth_ - 1].out();
    head_last_ = state.add<float>(reading_ == Reading::kLast ? H : 0);
    head_sum_ = state.add<double>(reading_ == Reading::kLast ? 0 : H);
    head_totals_ = state.add<Totals>(1);
    state_size_ = state.size();

    Places memory;
    memory.add<char>(state_size_);
    copy_ = memory.add<char>(state_size_);
    width_ = sizes.width;
    for (int64_t& place : signals_) place = memory.add<float>(kTile * width_ + kLane);
    encoder_work_ = memory.add<float>(encoder_.work_size() + kLane);
    answer_ = memory.add<float>(padded(outputs_));
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
    const int64_t H = blocks_[depth_ - 1].out();
    if (reading_ == Reading::kLast) return f(state.at<float>(head_last_), H);
    f(state.at<double>(head_sum_), H);
    f(&state.at<Totals>(head_totals_)->weight, 1);
    f(&state.at<Totals>(head_totals_)->number, 1);
  }

  int64_t depth_ = 0;
  std::unique_ptr<Block[]> blocks_;
  std::unique_ptr<BlockPlace[]> places_;
  Encoder encoder_;
  Matrix head_;
  Buffer<float> head_bias_, head_scale_, head_mean_, table_;
  Reading reading_ = Reading::kMean;
  int64_t outputs_ = 0, row_size_ = 0;
  bool pools_ = false;
  int64_t head_last_ = 0, head_sum_ = 0, head_totals_ = 0, state_size_ = 0, state_numbers_ = 0;
  int64_t copy_ = 0, width_ = 0, signals_[2] = {}, encoder_work_ = 0, answer_ = 0, memory_size_ = 0;
  // Scratch memory: its offset in bytes, and its size in floats; per event, except for the products.
  struct Scratch {
    int64_t place, size;
  };
  static constexpr int kWorks = 8;
  Scratch works_[kWorks] = {}, products_ = {};
};

}  // namespace s7::S7_ISA::stream
