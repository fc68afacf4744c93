// The part of the C interface that reads files: models, and golden files with inputs and expected outputs.
//
// Both are safetensors files with a format, a version and a CRC-32 of the whole file in their metadata. The checksum
// counts its own eight digits as zeros.
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "checksum.h"
#include "safetensors.h"
#include "stream_handle.h"

namespace s7::files {

namespace {

constexpr int64_t kVersion = 1;
constexpr int64_t kMostBytes = int64_t(1) << 40;

struct Failure : Malformed {
  Failure(int code, int64_t at, const std::string& what) : Malformed(at, what), status(code) {}
  int status;
};

std::vector<uint8_t> read_bytes(const char* path) {
  const auto fail = [] { throw Failure(S7_NO_FILE, -1, std::strerror(errno)); };
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(
      std::fopen(path, "rb"), [](std::FILE* q) { return q == nullptr ? 0 : std::fclose(q); });
  if (file == nullptr || std::fseek(file.get(), 0, SEEK_END) != 0) fail();
  const int64_t size = std::ftell(file.get());
  if (size < 0 || size > kMostBytes || std::fseek(file.get(), 0, SEEK_SET) != 0) fail();
  std::vector<uint8_t> bytes(static_cast<size_t>(size));
  if (std::fread(bytes.data(), 1, bytes.size(), file.get()) != bytes.size()) fail();
  return bytes;
}

const Entry& entry(const Safetensors& file, const char* name) {
  const Entry* found = file.entry(name);
  if (found == nullptr) throw Malformed(8, std::string("the metadata have no ") + name);
  return *found;
}

const Array& array(const Safetensors& file, const char* name) {
  const Array* found = file.array(name);
  if (found == nullptr) throw Malformed(8, std::string("there is no array ") + name);
  return *found;
}

void check_sum(const Entry& sum, const uint8_t* bytes, size_t size) {
  const bool plain = sum.text.size() == 8 && sum.text.find_first_not_of("0123456789abcdef") == std::string::npos &&
                     std::memcmp(bytes + sum.begin, sum.text.data(), 8) == 0;
  if (!plain) throw Malformed(sum.begin, "a checksum that is not eight hexadecimal digits");
  uint32_t crc = crc32(bytes, size_t(sum.begin));
  crc = crc32("00000000", 8, crc);
  crc = crc32(bytes + sum.end, size - size_t(sum.end), crc);
  if (crc != std::strtoul(sum.text.c_str(), nullptr, 16))
    throw Malformed(sum.begin, "altered since it was written (the checksum differs)");
}

// A positive number in decimal notation, as Python prints it.
double positive(const Entry& entry) {
  char* end = nullptr;
  const double value = std::strtod(entry.text.c_str(), &end);
  if (end != entry.text.c_str() + entry.text.size() || !(value > 0) || !(value < 1e300))
    throw Malformed(entry.begin, entry.name + " is not a positive number");
  return value;
}

// Parses a file and checks that it is of this format, and intact.
Safetensors parse_format(const uint8_t* bytes, size_t size, const char* format) {
  Safetensors file = parse(bytes, size);
  const Entry &kind = entry(file, "format"), &version = entry(file, "version");
  if (kind.text != format) throw Malformed(kind.begin, "the format is not " + std::string(format));
  check_sum(entry(file, "crc32"), bytes, size);
  if (positive(version) > kVersion)
    throw Failure(S7_NEW_FILE, version.begin, "version " + version.text + ", this library reads versions up to 1");
  return file;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t first = 0; !text.empty();) {
    const size_t end = text.find('\n', first);
    lines.push_back(text.substr(first, end - first));
    if (end == std::string::npos) break;
    first = end + 1;
  }
  return lines;
}

s7_model* read_model(const uint8_t* bytes, size_t size) {
  const Safetensors file = parse_format(bytes, size, "s7-edge");
  const double microseconds = positive(entry(file, "gap_microseconds"));
  const Entry& classes = entry(file, "classes");
  const std::vector<int64_t> settings = integers64(array(file, "settings"));
  const std::vector<float> weights = floats(array(file, "weights"));
  // The table makes events cheaper. It is left out where it would take more memory than the weights themselves.
  const int64_t table_bytes = int64_t(weights.size() * sizeof(float)) + (512 << 10);
  stream::OpenError error;
  std::unique_ptr<s7_model, void (*)(s7_model*)> model(
      stream::open_model(settings.data(), int64_t(settings.size()), weights.data(), int64_t(weights.size()),
                         table_bytes, error),
      s7_model_close);
  if (error.status == S7_NO_MEMORY) throw std::bad_alloc();
  if (error.status != S7_OK) {
    const Array& described = array(file, "settings");
    const int64_t place = described.data - bytes + int64_t(sizeof(int64_t)) * error.setting;
    throw Failure(error.status, place, "settings[" + std::to_string(error.setting) + "] or its weights do not fit");
  }
  model->microseconds = microseconds;
  model->classes = split(classes.text);
  if (!model->classes.empty() && int64_t(model->classes.size()) != model->outputs)
    throw Malformed(classes.begin, "not one class for each output");
  return model.release();
}

// A stream in memory of its own.
class OwnStream {
 public:
  explicit OwnStream(const s7_model* model) : memory_(std::aligned_alloc(S7_ALIGNMENT, s7_stream_size(model))) {
    if (memory_ == nullptr) throw std::bad_alloc();
    s7_stream_start(model, memory_, s7_stream_size(model), &stream_);
  }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  ~OwnStream() { std::free(memory_); }
  s7_stream* get() { return stream_; }

 private:
  void* memory_;
  s7_stream* stream_ = nullptr;
};

struct Golden {
  std::vector<int32_t> tokens;
  std::vector<float> inputs, gaps;
  std::vector<int64_t> at;  // numbers of events after which the answer is known
};

Golden read_golden(const Safetensors& file, const s7_model& model) {
  Golden golden;
  int64_t count = 0;
  if (model.tokens > 0) {
    golden.tokens = integers32(array(file, "tokens"));
    count = int64_t(golden.tokens.size());
  } else {
    golden.inputs = floats(array(file, "inputs"));
    count = int64_t(golden.inputs.size()) / model.inputs;
  }
  golden.gaps = floats(array(file, "gaps"));
  golden.at = integers64(array(file, "at"));
  int64_t before = 0;
  for (int64_t at : golden.at) {
    if (at <= before || at > count) throw Malformed(array(file, "at").place, "numbers of events that do not rise");
    before = at;
  }
  if (int64_t(golden.gaps.size()) != count) throw Malformed(array(file, "gaps").place, "not one gap for each event");
  return golden;
}

// Returns the largest difference from the expected answers, relative to the largest of these.
double compare(const s7_model& model, const Golden& golden, const Array& expected, bool timed) {
  const std::vector<float> wanted = floats(expected);
  const size_t outputs = size_t(model.outputs);
  if (wanted.size() != golden.at.size() * outputs) throw Malformed(expected.place, "not one answer for each of `at`");
  OwnStream stream(&model);
  std::vector<float> answer(outputs);
  double largest = 0, difference = 0;
  int64_t done = 0;
  for (size_t n = 0; n < golden.at.size(); ++n) {
    const int64_t count = golden.at[n] - done;
    const float* gaps = timed ? golden.gaps.data() + done : nullptr;
    int64_t bad = 0;
    const int status =
        model.tokens > 0 ? s7_push_tokens(stream.get(), golden.tokens.data() + done, gaps, count, &bad)
                         : s7_push_vectors(stream.get(), golden.inputs.data() + done * model.inputs, gaps, count, &bad);
    if (status != S7_OK)
      throw Failure(status, -1, "event " + std::to_string(done + bad) + ": " + s7_status_text(status));
    done = golden.at[n];
    s7_read(stream.get(), answer.data());
    for (size_t k = 0; k < outputs; ++k) {
      const double want = wanted[n * outputs + k], off = std::fabs(double(answer[k]) - want);
      largest = std::fmax(largest, std::fabs(want));
      if (!(off <= difference)) difference = off;  // a NaN stays
    }
  }
  return largest > 0 ? difference / largest : difference;
}

double check_golden(const s7_model& model, const uint8_t* bytes, size_t size) {
  const Safetensors file = parse_format(bytes, size, "s7-golden");
  const Golden golden = read_golden(file, model);
  const double timed = compare(model, golden, array(file, "outputs"), true);
  const double regular = compare(model, golden, array(file, "outputs_without_gaps"), false);
  return timed > regular || std::isnan(timed) ? timed : regular;
}

// Fills in `error`, which may be null, with a message that names the file and the position, if there are any.
int report(s7_error* error, int status, const char* path, int64_t position, const char* text) {
  if (error == nullptr) return status;
  error->status = status;
  error->position = position;
  char place[32] = "";
  if (position >= 0) std::snprintf(place, sizeof place, "byte %lld: ", static_cast<long long>(position));
  const bool named = path != nullptr;
  std::snprintf(error->text, sizeof error->text, "%s%s%s%s", named ? path : "", named ? ": " : "", place, text);
  return status;
}

// Calls work() and turns what it throws into a status and a message.
template <class Work>
int guarded(const char* path, s7_error* error, Work work) {
  try {
    work();
    return report(error, S7_OK, nullptr, -1, "");
  } catch (const Failure& failure) {
    return report(error, failure.status, path, failure.position, failure.what());
  } catch (const Malformed& malformed) {
    return report(error, S7_BAD_FILE, path, malformed.position, malformed.what());
  } catch (const std::bad_alloc&) {
    return report(error, S7_NO_MEMORY, path, -1, s7_status_text(S7_NO_MEMORY));
  } catch (const std::length_error&) {  // of a vector
    return report(error, S7_NO_MEMORY, path, -1, s7_status_text(S7_NO_MEMORY));
  }
}

}  // namespace

}  // namespace s7::files

extern "C" {

int s7_model_load_bytes(const void* bytes, size_t size, s7_model** model, s7_error* error) {
  *model = nullptr;
  return s7::files::guarded(nullptr, error, [&] {
    if (bytes == nullptr) throw s7::files::Failure(S7_BAD_ARGUMENT, -1, s7_status_text(S7_BAD_ARGUMENT));
    *model = s7::files::read_model(static_cast<const uint8_t*>(bytes), size);
  });
}

int s7_model_load(const char* path, s7_model** model, s7_error* error) {
  *model = nullptr;
  return s7::files::guarded(path, error, [&] {
    const std::vector<uint8_t> bytes = s7::files::read_bytes(path);
    *model = s7::files::read_model(bytes.data(), bytes.size());
  });
}

int s7_model_check(const s7_model* model, const char* golden, double* difference, s7_error* error) {
  return s7::files::guarded(golden, error, [&] {
    const std::vector<uint8_t> bytes = s7::files::read_bytes(golden);
    *difference = s7::files::check_golden(*model, bytes.data(), bytes.size());
  });
}

}  // extern "C"
