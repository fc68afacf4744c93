// C++17 on top of s7.h: handles that close themselves, and exceptions instead of status codes. Header only.
//
//     const s7::Model model("model.safetensors");
//     s7::Stream stream(model);
//     stream.push_events(x, y, p, t);  // or push(tokens, gaps)
//     std::cout << model.name(s7::best(stream.read()));
//
// Pushing valid events does not allocate, lock or throw. `stream.handle()` gives access to the functions of s7.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "s7.h"

namespace s7 {

// A failure. `status` is one of s7_status. `position` is the byte of a file or the index of an event, or -1.
class Error : public std::runtime_error {
 public:
  Error(int code, int64_t place, const std::string& text) : std::runtime_error(text), status(code), position(place) {}
  const int status;
  const int64_t position;
};

inline void require(int status, int64_t event = -1) {
  if (status == S7_OK) return;
  const std::string where = event < 0 ? "" : "event " + std::to_string(event) + ": ";
  throw Error(status, event, where + s7_status_text(status));
}

// A trained model. Copies share it, in any number of threads.
class Model {
 public:
  explicit Model(const std::string& path) {
    open([&](s7_model** model, s7_error* error) { return s7_model_load(path.c_str(), model, error); });
  }
  Model(const void* bytes, size_t size) {
    open([&](s7_model** model, s7_error* error) { return s7_model_load_bytes(bytes, size, model, error); });
  }

  int64_t outputs() const { return s7_model_outputs(handle()); }
  int64_t inputs() const { return s7_model_inputs(handle()); }
  int64_t tokens() const { return s7_model_tokens(handle()); }
  int64_t sensor_width() const { return s7_model_sensor_width(handle()); }
  int64_t sensor_height() const { return s7_model_sensor_height(handle()); }

  // The name of an output, or its number if the model has no names.
  std::string name(int64_t output) const {
    const char* name = s7_model_class(handle(), output);
    return name == nullptr ? std::to_string(output) : name;
  }

  // The largest relative difference from the expected outputs of a file golden.safetensors.
  double check(const std::string& golden) const {
    double difference = 0;
    s7_error error{};
    const int status = s7_model_check(handle(), golden.c_str(), &difference, &error);
    if (status != S7_OK) throw Error(status, error.position, error.text);
    return difference;
  }

  const s7_model* handle() const { return model_.get(); }

 private:
  template <class Load>
  void open(Load load) {
    if (s7_abi() < S7_ABI) throw Error(S7_NEW_FILE, -1, "libs7 is older than the header it is used with");
    s7_model* model = nullptr;
    s7_error error{};
    const int status = load(&model, &error);
    if (status != S7_OK) throw Error(status, error.position, error.text);
    model_.reset(model, s7_model_close);
  }

  std::shared_ptr<s7_model> model_;
};

// One sequence of events. A copy continues from the same state.
class Stream {
 public:
  explicit Stream(const Model& model) : model_(model), memory_(allocate(size())) { reset(); }
  Stream(const Stream& other) : model_(other.model_), memory_(allocate(size())) {
    std::memcpy(memory_.get(), other.memory_.get(), size());
  }
  Stream& operator=(const Stream& other) {
    Stream copy(other);
    std::swap(model_, copy.model_);
    std::swap(memory_, copy.memory_);
    return *this;
  }

  // Goes back to the state before the first event.
  void reset() {
    s7_stream* stream = nullptr;
    require(s7_stream_start(model_.handle(), memory_.get(), size(), &stream));
  }

  int64_t events() const { return s7_stream_events(handle()); }

  // `gaps` and `t` (microseconds) are null in regular time.
  void push(const int32_t* tokens, const float* gaps, int64_t count) {
    int64_t bad = -1;
    const int status = s7_push_tokens(handle(), tokens, gaps, count, &bad);
    require(status, bad);
  }
  void push(const float* inputs, const float* gaps, int64_t count) {
    int64_t bad = -1;
    const int status = s7_push_vectors(handle(), inputs, gaps, count, &bad);
    require(status, bad);
  }
  void push_events(const uint16_t* x, const uint16_t* y, const int8_t* p, const int64_t* t, int64_t count) {
    int64_t bad = -1;
    const int status = s7_push_events(handle(), x, y, p, t, count, &bad);
    require(status, bad);
  }
  void push_events(const std::vector<uint16_t>& x, const std::vector<uint16_t>& y, const std::vector<int8_t>& p,
                   const std::vector<int64_t>& t) {
    if (y.size() != x.size() || p.size() != x.size() || t.size() != x.size())
      throw Error(S7_BAD_ARGUMENT, -1, "x, y, p and t differ in size");
    push_events(x.data(), y.data(), p.data(), t.data(), int64_t(x.size()));
  }

  // The answer after all events so far.
  std::vector<float> read() {
    std::vector<float> answer(static_cast<size_t>(model_.outputs()));
    require(s7_read(handle(), answer.data()));
    return answer;
  }
  void read(float* answer) { require(s7_read(handle(), answer)); }

  std::vector<double> save() const {
    std::vector<double> state(static_cast<size_t>(s7_state_size(model_.handle())));
    require(s7_save(handle(), state.data()));
    return state;
  }
  void restore(const std::vector<double>& state) {
    const bool fits = state.size() == static_cast<size_t>(s7_state_size(model_.handle()));
    require(fits ? s7_restore(handle(), state.data()) : int(S7_BAD_STATE));
  }

  s7_stream* handle() { return reinterpret_cast<s7_stream*>(memory_.get()); }
  const s7_stream* handle() const { return reinterpret_cast<const s7_stream*>(memory_.get()); }

 private:
  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };
  using Memory = std::unique_ptr<char, Free>;

  static Memory allocate(size_t size) {
    Memory memory(static_cast<char*>(std::aligned_alloc(S7_ALIGNMENT, size)));
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
  }
  size_t size() const { return s7_stream_size(model_.handle()); }

  Model model_;
  Memory memory_;
};

// The index of the largest score.
inline int64_t best(const std::vector<float>& scores) {
  return std::max_element(scores.begin(), scores.end()) - scores.begin();
}

}  // namespace s7
