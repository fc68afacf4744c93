// Reads safetensors files: a JSON header with the names, types, shapes and places of arrays, then their data.
//
// Nothing in a file is trusted. Every size and offset is checked against the size of the file, and the arrays must
// cover the data without gaps or overlaps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace s7::files {

// A problem with a file, at an offset in bytes.
struct Malformed : std::runtime_error {
  Malformed(int64_t at, const std::string& what) : std::runtime_error(what), position(at) {}
  int64_t position;
};

struct Array {
  std::string name, type;  // type: as in the file, such as "F32"
  std::vector<int64_t> shape;
  const uint8_t* data;  // not aligned
  int64_t begin, end;   // offsets in bytes of the data
  int64_t place;        // offset in the file of its description
};

struct Entry {
  std::string name, text;
  int64_t begin, end;  // the place of the text between its quotes
};

struct Safetensors {
  std::vector<Entry> metadata;
  std::vector<Array> arrays;

  const Entry* entry(const std::string& name) const;
  const Array* array(const std::string& name) const;
};

// Parses a file. The arrays point into `bytes`. Throws Malformed or std::bad_alloc.
Safetensors parse(const uint8_t* bytes, size_t size);

// Copies an array of 32-bit floats, which must be finite, or of integers. Throws Malformed if it is of another type.
std::vector<float> floats(const Array& array);
std::vector<int32_t> integers32(const Array& array);
std::vector<int64_t> integers64(const Array& array);

}  // namespace s7::files
