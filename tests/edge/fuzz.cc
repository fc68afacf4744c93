// Loads mutated model files, and runs those that are accepted: fuzz COUNT FILE...
//
// Run with `make fuzz-edge`, under AddressSanitizer and UndefinedBehaviorSanitizer. Half of the files get a valid
// checksum, without which almost all would be refused for that reason alone. With S7_LIBFUZZER defined, this is a
// target for libFuzzer instead.
#include <s7.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "checksum.h"

namespace {

using Bytes = std::vector<uint8_t>;

// Puts the checksum of the file in its place, if it has one.
void repair(Bytes& bytes) {
  static const char kName[] = "\"crc32\":\"";
  const auto place = std::search(bytes.begin(), bytes.end(), kName, kName + sizeof kName - 1);
  if (bytes.end() - place < long(sizeof kName + 8)) return;
  uint8_t* digits = &*place + sizeof kName - 1;
  std::memset(digits, '0', 8);
  char text[9];
  std::snprintf(text, sizeof text, "%08x", s7::crc32(bytes.data(), bytes.size()));
  std::memcpy(digits, text, 8);
}

// Loads a file and, if it is accepted, runs the model on a few events. Returns the status of loading.
int try_file(const uint8_t* bytes, size_t size) {
  constexpr int64_t kMost = 1 << 16;  // numbers in an event, to bound the time of one file
  s7_model* model = nullptr;
  s7_error error;
  const int status = s7_model_load_bytes(bytes, size, &model, &error);
  if (status != S7_OK) return status;
  const size_t stream_size = s7_stream_size(model);
  if (s7_model_inputs(model) <= kMost && stream_size <= size_t(64) << 20) {
    const std::unique_ptr<void, void (*)(void*)> memory(std::aligned_alloc(S7_ALIGNMENT, stream_size), std::free);
    s7_stream* stream = nullptr;
    s7_stream_start(model, memory.get(), stream_size, &stream);
    const std::vector<float> vector(size_t(s7_model_inputs(model)), 0.5f);
    const int64_t last = s7_model_tokens(model) - 1;
    for (int n = 0; n < 9; ++n) {
      if (last < 0)
        s7_push_vector_after(stream, vector.data(), 0.5f);
      else
        s7_push_token_after(stream, n % 2 == 0 ? 0 : last, 0.5f);
    }
    std::vector<float> answer(size_t(s7_model_outputs(model)));
    s7_read(stream, answer.data());
    std::vector<double> state(size_t(s7_state_size(model)));
    s7_save(stream, state.data());
    s7_restore(stream, state.data());
  }
  s7_model_close(model);
  return status;
}

}  // namespace

extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1:max_allocation_size_mb=4096"; }

#if defined(S7_LIBFUZZER)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  Bytes repaired(bytes, bytes + size);
  if (size > 0 && (bytes[size - 1] & 1) == 0) repair(repaired);
  try_file(repaired.data(), repaired.size());
  return 0;
}

#else

namespace {

std::mt19937 generator(1);

size_t below(size_t end) { return std::uniform_int_distribution<size_t>(0, end - 1)(generator); }

// The size of the header and of the settings, where most of what can go wrong is.
size_t place_in(const Bytes& bytes) {
  const size_t early = std::min<size_t>(bytes.size(), 1600);
  return below(4) == 0 ? below(bytes.size()) : below(early);
}

void mutate(Bytes& bytes, const Bytes& other) {
  static const int64_t kNumbers[] = {0, 1, -1, 2, 255, 256, 65535, 65536, 1ll << 31, 1ll << 32, INT64_MAX, INT64_MIN};
  for (size_t count = 1 + below(4); count > 0 && !bytes.empty(); --count) {
    const size_t at = place_in(bytes), left = bytes.size() - at;
    const auto place = bytes.begin() + long(at);
    switch (below(9)) {
      case 0:
        *place = uint8_t(*place ^ (1 << below(8)));
        break;
      case 1:
        *place = uint8_t(below(256));
        break;
      case 2:
        *place = uint8_t("0123456789\",:[]{}\\u"[below(19)]);
        break;
      case 3:
        bytes.insert(place, uint8_t(below(256)));
        break;
      case 4:
        bytes.erase(place, place + long(1 + below(std::min<size_t>(left, 16))));
        break;
      case 5:
        bytes.resize(at);
        break;
      case 6:
        std::copy_n(other.begin(), std::min(left, 1 + below(other.size())), place);
        break;
      case 7:
        std::swap(*place, bytes[place_in(bytes)]);
        break;
      default: {  // a whole number of the settings
        const int64_t number = below(2) == 0 ? kNumbers[below(12)] : int64_t(below(70));
        const size_t aligned = at / 8 * 8;
        if (bytes.size() - aligned >= 8) std::memcpy(&bytes[aligned], &number, 8);
      }
    }
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) return 2;
  std::vector<Bytes> files;
  for (int n = 2; n < count; ++n) {
    std::ifstream file(arguments[n], std::ios::binary);
    files.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    if (try_file(files.back().data(), files.back().size()) != S7_OK)
      return std::printf("%s is refused\n", arguments[n]), 1;
  }
  const int wanted = std::atoi(arguments[1]);
  int accepted = 0;
  for (int n = 0; n < wanted; ++n) {
    Bytes bytes = files[size_t(n) % files.size()];
    mutate(bytes, files[below(files.size())]);
    if (n / int(files.size()) % 2 == 0) repair(bytes);
    const std::unique_ptr<uint8_t[]> exact(new uint8_t[bytes.size()]);  // an allocation of exactly this size
    std::copy(bytes.begin(), bytes.end(), exact.get());
    accepted += try_file(exact.get(), bytes.size()) == S7_OK;
  }
  std::printf("%d mutated files: %d accepted and run, %d refused, no invalid access\n", wanted, accepted,
              wanted - accepted);
  return 0;
}

#endif
