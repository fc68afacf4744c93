// CRC-32, the checksum of zip and PNG files.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace s7 {

// Continues the checksum `crc` of earlier bytes, which is 0 before the first.
inline uint32_t crc32(const void* bytes, size_t size, uint32_t crc = 0) {
  static constexpr std::array<uint32_t, 256> kTable = [] {
    std::array<uint32_t, 256> table{};
    for (uint32_t n = 0; n < 256; ++n) {
      uint32_t value = n;
      for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ (value & 1 ? 0xedb88320u : 0);
      table[n] = value;
    }
    return table;
  }();
  crc = ~crc;
  for (size_t n = 0; n < size; ++n) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<const uint8_t*>(bytes)[n]) & 255];
  return ~crc;
}

}  // namespace s7
