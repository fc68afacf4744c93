#include "safetensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "safetensors files are little-endian, and so must be the processor"
#endif

namespace s7::files {

namespace {

constexpr int64_t kMostHeader = 1 << 20;  // bytes
constexpr size_t kMostEntries = 256;      // of metadata, or arrays
constexpr size_t kMostAxes = 8;

// Reads the part of JSON that headers are made of: objects, arrays of whole numbers, and strings.
class Header {
 public:
  Header(const uint8_t* bytes, int64_t begin, int64_t end) : bytes_(bytes), at_(begin), end_(end) {}

  int64_t place() const { return at_; }
  [[noreturn]] void fail(const std::string& what) const { throw Malformed(at_, what); }

  void expect(char wanted) {
    if (next() != wanted) fail(std::string("expected '") + wanted + "'");
    ++at_;
  }

  // Calls item() for each item between two brackets.
  template <class Item>
  void each(char open, char close, Item item) {
    expect(open);
    if (next() == close) {
      ++at_;
      return;
    }
    for (;;) {
      item();
      if (next() == close) break;
      expect(',');
    }
    ++at_;
  }

  // Calls value(name) for each entry of an object.
  template <class Value>
  void object(Value value) {
    each('{', '}', [&] {
      const std::string name = string();
      expect(':');
      value(name);
    });
  }

  std::string string() {
    expect('"');
    std::string text;
    for (;;) {
      if (at_ >= end_) fail("a string that does not end");
      const uint8_t byte = bytes_[at_];
      if (byte < 0x20) fail("a control character in a string");
      ++at_;
      if (byte == '"') return text;
      if (byte == '\\')
        escape(text);
      else
        text.push_back(char(byte));
    }
  }

  int64_t number() {
    next();
    const int64_t first = at_;
    int64_t value = 0;
    while (at_ < end_ && bytes_[at_] >= '0' && bytes_[at_] <= '9') {
      const int64_t digit = bytes_[at_] - '0';
      if (value > (std::numeric_limits<int64_t>::max() - digit) / 10) fail("a number that is too large");
      value = 10 * value + digit;
      ++at_;
    }
    if (at_ == first) fail("expected a whole number");
    if (bytes_[first] == '0' && at_ > first + 1) fail("a number that starts with 0");
    return value;
  }

  void finish() {
    skip();
    if (at_ != end_) fail("bytes after the end of the header");
  }

 private:
  void skip() {
    while (at_ < end_ && std::strchr(" \t\r\n", bytes_[at_]) != nullptr && bytes_[at_] != 0) ++at_;
  }

  // Skips white space and returns the next character.
  char next() {
    skip();
    if (at_ >= end_) fail("the header ends too early");
    return char(bytes_[at_]);
  }

  void escape(std::string& text) {
    if (at_ >= end_) fail("a string that does not end");
    static const char kNames[] = "\"\\/bfnrt", kMeant[] = "\"\\/\b\f\n\r\t";
    const char name = char(bytes_[at_++]);
    if (name == 'u') return append(text, code_point());
    const char* found = name == 0 ? nullptr : std::strchr(kNames, name);
    if (found == nullptr) fail("an unknown escape in a string");
    text.push_back(kMeant[found - kNames]);
  }

  uint32_t code_point() {
    const uint32_t first = four_digits();
    if (first < 0xd800 || first > 0xdfff) return first;
    if (first > 0xdbff || at_ + 2 > end_ || bytes_[at_] != '\\' || bytes_[at_ + 1] != 'u') fail("half a character");
    at_ += 2;
    const uint32_t second = four_digits();
    if (second < 0xdc00 || second > 0xdfff) fail("half a character");
    return 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
  }

  uint32_t four_digits() {
    if (at_ + 4 > end_) fail("a string that does not end");
    uint32_t value = 0;
    for (int n = 0; n < 4; ++n, ++at_) {
      const uint8_t byte = bytes_[at_];
      const bool decimal = byte >= '0' && byte <= '9';
      const uint8_t letter = byte | 0x20;
      if (!decimal && (letter < 'a' || letter > 'f')) fail("expected four hexadecimal digits");
      value = 16 * value + (decimal ? byte - '0' : letter - 'a' + 10);
    }
    return value;
  }

  // Appends a character as UTF-8.
  static void append(std::string& text, uint32_t code) {
    if (code < 0x80) return text.push_back(char(code));
    const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    text.push_back(char((0xf00 >> more & 0xff) | (code >> (6 * more))));
    for (int n = more - 1; n >= 0; --n) text.push_back(char(0x80 | (code >> (6 * n) & 0x3f)));
  }

  const uint8_t* bytes_;
  int64_t at_, end_;
};

int64_t type_size(const std::string& type) {
  if (type == "I64" || type == "F64") return 8;
  if (type == "I32" || type == "F32") return 4;
  return 0;
}

void read_metadata(Header& header, std::vector<Entry>& metadata) {
  header.object([&](const std::string& name) {
    for (const Entry& other : metadata)
      if (other.name == name) header.fail("an entry of the metadata that occurs twice");
    if (metadata.size() == kMostEntries) header.fail("too many entries of the metadata");
    Entry entry{name, "", 0, 0};
    entry.text = header.string();
    entry.end = header.place() - 1;
    entry.begin = entry.end - int64_t(entry.text.size());  // if nothing in it is escaped
    metadata.push_back(std::move(entry));
  });
}

Array read_array(Header& header, const std::string& name) {
  Array array{name, "", {}, nullptr, -1, -1, header.place()};
  bool shaped = false;
  header.object([&](const std::string& key) {
    if (key == "dtype" && array.type.empty()) {
      array.type = header.string();
    } else if (key == "shape" && !shaped) {
      shaped = true;
      header.each('[', ']', [&] {
        if (array.shape.size() == kMostAxes) header.fail("too many axes");
        array.shape.push_back(header.number());
      });
    } else if (key == "data_offsets" && array.end < 0) {
      header.expect('[');
      array.begin = header.number();
      header.expect(',');
      array.end = header.number();
      header.expect(']');
    } else {
      header.fail("an unexpected entry of an array");
    }
  });
  if (array.type.empty() || !shaped || array.end < 0) header.fail("an array without type, shape or place");
  return array;
}

// Checks the size of an array of the file's data.
void check_size(const Array& array, int64_t data_size) {
  const int64_t size = type_size(array.type);
  if (size == 0) throw Malformed(array.place, "an array of an unknown type");
  if (array.begin > array.end || array.end > data_size) throw Malformed(array.place, "an array beyond the end");
  int64_t bytes = size;
  for (int64_t axis : array.shape) {
    if (axis == 0) bytes = 0;
    if (axis > 0 && bytes > data_size / axis) throw Malformed(array.place, "an array that is larger than the file");
    bytes *= axis;
  }
  if (bytes != array.end - array.begin) throw Malformed(array.place, "an array whose size does not fit its shape");
}

template <class T>
std::vector<T> copy(const Array& array, const char* type) {
  if (array.type != type) throw Malformed(array.place, array.name + " is " + array.type + ", expected " + type);
  std::vector<T> values(size_t(array.end - array.begin) / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), array.data, values.size() * sizeof(T));
  return values;
}

template <class T>
const T* find(const std::vector<T>& among, const std::string& name) {
  for (const T& one : among)
    if (one.name == name) return &one;
  return nullptr;
}

}  // namespace

const Entry* Safetensors::entry(const std::string& name) const { return find(metadata, name); }
const Array* Safetensors::array(const std::string& name) const { return find(arrays, name); }

Safetensors parse(const uint8_t* bytes, size_t size) {
  if (size < 8) throw Malformed(0, "shorter than a header");
  uint64_t length = 0;
  std::memcpy(&length, bytes, sizeof length);
  if (length > uint64_t(kMostHeader) || length > size - 8) throw Malformed(0, "not a safetensors file, or cut off");
  const int64_t start = 8 + int64_t(length), data_size = int64_t(size) - start;

  Safetensors file;
  bool described = false;
  Header header(bytes, 8, start);
  header.object([&](const std::string& name) {
    if (name == "__metadata__") {
      if (described) header.fail("metadata that occur twice");
      described = true;
      return read_metadata(header, file.metadata);
    }
    if (file.array(name) != nullptr) header.fail("an array that occurs twice");
    if (file.arrays.size() == kMostEntries) header.fail("too many arrays");
    file.arrays.push_back(read_array(header, name));
    check_size(file.arrays.back(), data_size);
    file.arrays.back().data = bytes + start + file.arrays.back().begin;
  });
  header.finish();

  std::vector<const Array*> order;
  for (const Array& array : file.arrays) order.push_back(&array);
  std::sort(order.begin(), order.end(), [](const Array* one, const Array* other) {
    return one->begin != other->begin ? one->begin < other->begin : one->end < other->end;
  });
  int64_t covered = 0;
  for (const Array* array : order) {
    if (array->begin != covered) throw Malformed(start + covered, "arrays that overlap or leave a gap");
    covered = array->end;
  }
  if (covered != data_size) throw Malformed(start + covered, "bytes after the last array");
  return file;
}

std::vector<float> floats(const Array& array) {
  std::vector<float> values = copy<float>(array, "F32");
  for (size_t n = 0; n < values.size(); ++n)
    if (!std::isfinite(values[n]))
      throw Malformed(array.place, array.name + "[" + std::to_string(n) + "] is not finite");
  return values;
}
std::vector<int32_t> integers32(const Array& array) { return copy<int32_t>(array, "I32"); }
std::vector<int64_t> integers64(const Array& array) { return copy<int64_t>(array, "I64"); }

}  // namespace s7::files
