// A complete model that processes one event at a time.
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
    if (encoder_.reads_tokens()) tabulate();
  }

  size_t size() const { return size_t(memory_size_); }
  int64_t table_rows() const { return table_.size() == 0 ? 0 : encoder_.tokens(); }

  void start(char* memory) const { std::memset(memory, 0, size()); }

  void push_tokens(char* memory, const int32_t* tokens, const float* gaps, int64_t count) const {
    const State state(memory);
    const Work work = work_in(memory);
    float* encoded = signal(memory, 0);
    for (int64_t k = 0; k < count; ++k) {
      const float gap = gaps == nullptr ? 1.0f : gaps[k];
      if (table_.size() > 0) {
        if (k + kAhead < count) prefetch(row(tokens[k + kAhead]));
        const float* u = row(tokens[k]);
        run(memory, state, work, 0, u, u + blocks_[0].padded_width(), gaps != nullptr, gap);
      } else {
        encoder_.encode(tokens[k], encoded);
        run(memory, state, work, 0, encoded, nullptr, gaps != nullptr, gap);
      }
    }
  }

  void push_vectors(char* memory, const float* inputs, const float* gaps, int64_t count) const {
    const State state(memory);
    const Work work = work_in(memory);
    float *encoded = signal(memory, 0), *room = reinterpret_cast<float*>(memory + encoder_work_);
    for (int64_t k = 0; k < count; ++k) {
      encoder_.encode(inputs + k * encoder_.inputs(), room, encoded);
      run(memory, state, work, 0, encoded, nullptr, gaps != nullptr, gaps == nullptr ? 1.0f : gaps[k]);
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
        const float gap = close_window(memory, state, work, b);
        run(memory, state, work, b + 1, signal(memory, b + 1), nullptr, timed, gap);
      }
    }
    float *features = work.normalised, *outputs = reinterpret_cast<float*>(memory + answer_);
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
  static constexpr int64_t kAhead = 6;  // prefetch distance in events
  static constexpr int64_t kMostTableBytes = 64ll << 20;

  // Feeds one vector to block b and to the blocks above it, until a window is not full.
  void run(char* memory, State state, const Work& work, int64_t b, const float* u, const float* drive, bool timed,
           float gap) const {
    for (; b < depth_; ++b) {
      const Block& block = blocks_[b];
      const float* read = nullptr;
      if (drive == nullptr) {
        read = block.prepare(u, work.normalised);
        block.drive(read, work);
        drive = work.drive;
      }
      block.advance(drive, timed, gap, state.at<float>(places_[b].x));
      drive = nullptr;
      if (block.stride() > 1) {
        if (!add_to_window(state, b, u, timed ? gap : 1.0f)) return;
        gap = close_window(memory, state, work, b);
      } else {
        if (read == nullptr) read = block.prepare(u, work.normalised);
        block.output(state.at<float>(places_[b].x), read, u, work, signal(memory, b + 1));
      }
      u = signal(memory, b + 1);
    }
    absorb(state, u, timed ? gap : 1.0f);
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

  // Computes the block's output for the window in signal b + 1, starts the next window, and returns the window's gap.
  float close_window(char* memory, State state, const Work& work, int64_t b) const {
    const Block& block = blocks_[b];
    Window& window = *state.at<Window>(places_[b].window);
    const float* last = state.at<float>(places_[b].last);
    const float* skip = last;
    if (block.pooling() != Pooling::kLast) {
      float* sum = state.at<float>(places_[b].sum);
      const float divisor = window.weight > 0 ? window.weight : float(window.events);
      for (int64_t n = 0; n < block.padded_width(); ++n) {
        work.skip[n] = sum[n] / divisor;
        sum[n] = 0;
      }
      skip = work.skip;
    }
    const float gap = window.gap;
    window = Window{};
    block.output(state.at<float>(places_[b].x), block.prepare(last, work.normalised), skip, work,
                 signal(memory, b + 1));
    return gap;
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
    for (int64_t& place : signals_) place = memory.add<float>(sizes.width + kLane);
    encoder_work_ = memory.add<float>(encoder_.work_size() + kLane);
    answer_ = memory.add<float>(padded(outputs_));
    const int64_t wanted[] = {sizes.width, sizes.drive,   sizes.rows,  sizes.products,
                              sizes.width, sizes.factors, sizes.width, sizes.width};
    for (int n = 0; n < 8; ++n) works_[n] = memory.add<float>(wanted[n] + kLane);
    memory_size_ = memory.size();
    Buffer<char> sample(memory_size_);
    each_number(State(sample.data()), [&](auto*, int64_t n) { state_numbers_ += n; });
  }

  // Precomputes a table with one row per token: the encoded vector, then the drive of the first block.
  void tabulate() {
    const Block& block = blocks_[0];
    row_size_ = block.padded_width() + block.drive_size();
    if (encoder_.tokens() > kMostTableBytes / int64_t(sizeof(float)) / row_size_) return;
    Buffer<float> table(encoder_.tokens() * row_size_);
    Buffer<char> memory(memory_size_);
    start(memory.data());
    const Work work = work_in(memory.data());
    float* u = signal(memory.data(), 0);
    for (int64_t token = 0; token < encoder_.tokens(); ++token) {
      encoder_.encode(token, u);
      block.drive(block.prepare(u, work.normalised), work);
      float* to = &table[token * row_size_];
      std::memcpy(to, u, size_t(block.padded_width()) * sizeof(float));
      std::memcpy(to + block.padded_width(), work.drive, size_t(block.drive_size()) * sizeof(float));
    }
    table_ = std::move(table);
  }

  const float* row(int64_t token) const { return table_.data() + token * row_size_; }
  void prefetch(const float* from) const {
    for (int64_t n = 0; n < row_size_; n += 16) __builtin_prefetch(from + n);
  }

  Work work_in(char* memory) const {
    const auto at = [&](int n) { return reinterpret_cast<float*>(memory + works_[n]); };
    return {at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7)};
  }
  // Returns the input of block b, which is also the output of block b - 1.
  float* signal(char* memory, int64_t b) const { return reinterpret_cast<float*>(memory + signals_[b % 2]); }

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
  int64_t copy_ = 0, signals_[2] = {}, encoder_work_ = 0, answer_ = 0, works_[8] = {}, memory_size_ = 0;
};

}  // namespace s7::S7_ISA::stream
