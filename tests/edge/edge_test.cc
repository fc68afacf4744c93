// Tests the C interface of models from files: edge_test FOLDER, the folder tests/edge/models. Run with `make
// edge-test`.
#include <atomic>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <s7.hpp>
#include <thread>

#if defined(__SANITIZE_ADDRESS__)
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*)(const volatile void*, size_t),
                                                         void (*)(const volatile void*));
#endif

namespace {

int passed = 0, failed = 0;
std::atomic<long> allocations{0};

void check(bool holds, const std::string& what) {
  ++(holds ? passed : failed);
  if (!holds) std::printf("FAILED: %s\n", what.c_str());
}

// Checks that work() throws an error with this status and this part of a message.
template <class Work>
void refused(int status, const std::string& part, Work work) {
  try {
    work();
    check(false, "not refused: " + part);
  } catch (const s7::Error& error) {
    const bool says = std::string(error.what()).find(part) != std::string::npos;
    check(error.status == status && says, part + ", not: " + error.what());
  }
}

std::vector<char> bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Bytes in an allocation of exactly their size, so that AddressSanitizer detects reads past their end.
s7::Model load(const std::vector<char>& bytes) {
  const std::unique_ptr<char[]> exact(new char[bytes.size()]);
  std::copy(bytes.begin(), bytes.end(), exact.get());
  return s7::Model(exact.get(), bytes.size());
}

struct Events {
  std::vector<uint16_t> x, y;
  std::vector<int8_t> p;
  std::vector<int64_t> t;
  std::vector<int32_t> tokens;
  std::vector<float> gaps;

  explicit Events(const s7::Model& model, int64_t count) {
    uint32_t random = 1;
    int64_t time = 1'700'000'000'000'000;  // today, in microseconds
    for (int64_t k = 0; k < count; ++k) {
      random = random * 1664525 + 1013904223;
      const int64_t step = k == 0 ? 0 : random >> 20;
      time += step;
      t.push_back(time);
      gaps.push_back(float(double(step) / 1000));
      x.push_back(uint16_t((random >> 8) % uint32_t(model.sensor_width())));
      y.push_back(uint16_t((random >> 16) % uint32_t(model.sensor_height())));
      p.push_back(random >> 31 ? 1 : -1);
      tokens.push_back(int32_t(2 * (x.back() * model.sensor_height() + y.back()) + (p.back() > 0)));
    }
  }
};

void test_golden(const std::string& folder) {
  for (const char* name : {"camera", "tokens", "series", "images"}) {
    const std::string path = folder + "/" + name;
    const s7::Model model(path + "/model.safetensors");
    const double difference = model.check(path + "/golden.safetensors");
    std::printf("%s differs from JAX by %.1e\n", name, difference);
    check(difference <= 1e-5, std::string(name) + " differs from JAX");
  }
}

void test_camera(const s7::Model& model) {
  check(model.sensor_width() == 6 && model.sensor_height() == 5 && model.tokens() == 60, "the sensor");
  check(model.outputs() == 3 && model.inputs() == 0, "the sizes");
  check(model.name(0) == "left" && model.name(2) == "h\xc3\xb6her\\" && model.name(7) == "7", "the classes");
  const Events events(model, 1000);
  s7::Stream pixels(model), tokens(model), parts(model);
  const long before = allocations;
  pixels.push_events(events.x, events.y, events.p, events.t);
  const bool none = allocations == before;  // before the message is allocated
  check(none, "pushing allocates nothing");
  for (int64_t k = 0; k < 1000; k += 100) {
    const size_t n = size_t(k);
    tokens.push(&events.tokens[n], &events.gaps[n], 100);
    parts.push_events(&events.x[n], &events.y[n], &events.p[n], &events.t[n], 100);
  }
  check(parts.read() == tokens.read(), "pixels give the answer of their tokens and gaps");
  for (size_t n = 0; n < 3; ++n)
    check(std::fabs(parts.read()[n] - pixels.read()[n]) < 1e-5f, "parts give the answer of the whole");

  s7::Stream copy(pixels), restored(model);
  restored.restore(pixels.save());
  Events more(model, 10);
  const int64_t later = events.t.back() - more.t.front() + 5;
  for (int64_t& time : more.t) time += later;
  for (s7::Stream* stream : {&pixels, &copy, &restored}) stream->push_events(more.x, more.y, more.p, more.t);
  check(copy.read() == pixels.read() && restored.read() == pixels.read(), "copied and restored streams continue");
  check(restored.events() == 1010, "the number of events is restored");

  const std::vector<double> state = pixels.save();
  more.t[3] = more.t[2] - 1;
  refused(S7_BAD_GAP, "event 3: a gap that is negative",
          [&] { s7::Stream(model).push_events(more.x, more.y, more.p, more.t); });
  more = Events(model, 10);
  refused(S7_BAD_GAP, "event 0: ", [&] { pixels.push_events(more.x, more.y, more.p, more.t); });  // before the last
  more.t[2] = -5;
  refused(S7_BAD_GAP, "event 2: ", [&] { s7::Stream(model).push_events(more.x, more.y, more.p, more.t); });
  more = Events(model, 10);
  for (int64_t& time : more.t) time += 2 * later;
  more.x[4] = 6;
  refused(S7_BAD_EVENT, "event 4: ", [&] { pixels.push_events(more.x, more.y, more.p, more.t); });
  refused(S7_MISSING_GAP, "no gap", [&] { pixels.push(more.tokens.data(), nullptr, 2); });
  refused(S7_WRONG_KIND, "a kind", [&] { pixels.push(more.gaps.data(), nullptr, 1); });
  refused(S7_BAD_ARGUMENT, "null", [&] { pixels.push(more.tokens.data(), nullptr, -1); });
  refused(S7_BAD_ARGUMENT, "null", [&] { pixels.push_events(nullptr, nullptr, nullptr, nullptr, 1); });
  check(pixels.save() == state, "what is refused changes nothing");
  pixels.push(static_cast<const int32_t*>(nullptr), more.gaps.data(), 0);
}

void test_states(const s7::Model& camera, const s7::Model& other) {
  s7::Stream stream(camera);
  std::vector<double> state = stream.save();
  for (size_t n = 0; n < state.size(); ++n)
    for (double wrong : {double(NAN), 1e300, -2.5e9}) {
      std::vector<double> bad = state;
      bad[n] = wrong;
      try {
        stream.restore(bad);
        check(n >= 4 && wrong == -2.5e9, "state[" + std::to_string(n) + "] is refused");
      } catch (const s7::Error&) {
        stream.reset();
      }
    }
  state[3] += 1;
  refused(S7_BAD_STATE, "this model", [&] { stream.restore(state); });
  refused(S7_BAD_STATE, "this model", [&] { stream.restore(s7::Stream(other).save()); });
}

void test_threads(const s7::Model& model) {
  const Events events(model, 2000);
  std::vector<std::vector<float>> answers(4);
  std::vector<std::thread> threads;
  for (std::vector<float>& answer : answers)
    threads.emplace_back([&, model] {
      s7::Stream stream(model);
      stream.push_events(events.x, events.y, events.p, events.t);
      answer = stream.read();
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<float>& answer : answers) check(answer == answers[0], "threads give the same answer");
}

void test_files(const std::string& folder) {
  const std::string path = folder + "/camera/model.safetensors";
  const std::vector<char> good = bytes_of(path);
  load(good);
  for (size_t size = 0; size < good.size(); size += size < 1500 ? 1 : 97)
    refused(S7_BAD_FILE, "byte", [&] { load({good.begin(), good.begin() + long(size)}); });
  std::vector<char> longer = good;
  longer.push_back(0);
  refused(S7_BAD_FILE, "byte", [&] { load(longer); });
  for (size_t n = 0; n < good.size(); n += 7) {  // a single wrong bit anywhere
    std::vector<char> wrong = good;
    wrong[n] = char(wrong[n] ^ (1 << (n % 8)));
    refused(S7_BAD_FILE, "byte", [&] { load(wrong); });
  }
  refused(S7_BAD_FILE, "golden.safetensors: byte", [&] { s7::Model(folder + "/camera/golden.safetensors"); });
  refused(S7_NO_FILE, "/nowhere: No such file", [&] { s7::Model("/nowhere"); });
  refused(S7_NO_FILE, folder, [&] { s7::Model{folder}; });
  refused(S7_BAD_ARGUMENT, "null", [&] { s7::Model(nullptr, 9); });
  const s7::Model model(path);
  refused(S7_BAD_FILE, "there is no array tokens", [&] { model.check(folder + "/series/golden.safetensors"); });
}

}  // namespace

int main(int count, char** arguments) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_install_malloc_and_free_hooks([](const volatile void*, size_t) { ++allocations; },
                                            [](const volatile void*) {});
#endif
  if (count != 2) return 2;
  const std::string folder = arguments[1];
  check(s7_abi() == S7_ABI, "the version of the interface");
  for (int status = S7_OK; status <= S7_NEW_FILE + 1; ++status)
    check(s7_status_text(status) != nullptr, "every status has a text");
  test_golden(folder);
  const s7::Model camera(folder + "/camera/model.safetensors"), tokens(folder + "/tokens/model.safetensors");
  test_camera(camera);
  test_states(camera, tokens);
  test_threads(camera);
  test_files(folder);
  std::printf("edge: %d checks, %d failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}
