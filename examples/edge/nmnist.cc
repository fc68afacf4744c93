// Classifies recordings of N-MNIST: nmnist MODEL FILE.bin...
//
// An event takes five bytes: x, y, then one bit of polarity and 23 bits of time in microseconds.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <s7.hpp>

struct Events {
  std::vector<uint16_t> x, y;
  std::vector<int8_t> p;
  std::vector<int64_t> t;
};

Events read(const char* path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(std::string(path) + ": cannot be read");
  const std::vector<char> chars{std::istreambuf_iterator<char>(file), {}};
  if (chars.size() % 5 != 0) throw std::runtime_error(std::string(path) + ": not a whole number of events");
  const std::vector<uint8_t> bytes(chars.begin(), chars.end());
  Events events;
  for (size_t n = 0; n < bytes.size(); n += 5) {
    events.x.push_back(bytes[n]);
    events.y.push_back(bytes[n + 1]);
    events.p.push_back(int8_t(bytes[n + 2] >> 7));
    events.t.push_back((bytes[n + 2] & 127) << 16 | bytes[n + 3] << 8 | bytes[n + 4]);
  }
  return events;
}

int main(int count, char** arguments) try {
  if (count < 3) throw std::runtime_error("usage: nmnist MODEL FILE.bin...");
  const s7::Model model(arguments[1]);
  for (int n = 2; n < count; ++n) {
    const Events events = read(arguments[n]);
    s7::Stream stream(model);
    stream.push_events(events.x, events.y, events.p, events.t);
    const std::vector<float> scores = stream.read();
    const int64_t best = s7::best(scores);
    std::printf("%s: %zu events, class %s (score %.4f)\n", arguments[n], events.t.size(), model.name(best).c_str(),
                double(scores[size_t(best)]));
  }
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
