// A buffer aligned to cache lines that is freed at the end of its scope.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace s7::S7_ISA {

inline constexpr int64_t kLine = 64;  // bytes of a cache line

// Memory that the next tile will access. The products of the current tile prefetch it, one cache line at a time:
// processors drop most of the prefetches of a burst.
class Lookahead {
 public:
  // Consecutive lines.
  struct Lines {
    const char* first;
    int64_t step;  // in bytes; 0 if nothing is left, so that the first line is prefetched again and again
  };

  void clear() { count_ = at_ = 0; }

  // Adds `count` numbers. A null pointer is ignored, and so is what exceeds the capacity.
  template <class T>
  void add(const T* from, int64_t count) {
    if (from == nullptr || count_ == kMost) return;
    const char* bytes = reinterpret_cast<const char*>(from);
    ranges_[count_++] = {bytes, bytes + count * int64_t(sizeof(T))};
  }

  // Returns the next lines, at most `most`, or a step of 0 from `otherwise`.
  Lines take(int64_t most, const void* otherwise) {
    while (at_ < count_ && ranges_[at_].from >= ranges_[at_].end) ++at_;
    if (at_ == count_) return {static_cast<const char*>(otherwise), 0};
    const Lines lines = {ranges_[at_].from, kLine};
    ranges_[at_].from += most * kLine;
    return lines;
  }

 private:
  struct Range {
    const char *from, *end;
  };
  static constexpr int kMost = 16;
  Range ranges_[kMost];
  int count_ = 0, at_ = 0;
};

inline constexpr size_t kLargePage = size_t(2) << 20;

template <class T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(int64_t size) : size_(size) {
    if (size == 0) return;
    const size_t wanted = size_t(size) * sizeof(T), unit = wanted < kLargePage ? 64 : kLargePage;
    const size_t bytes = (wanted + unit - 1) / unit * unit;
    data_ = static_cast<T*>(std::aligned_alloc(unit, bytes));
    if (data_ == nullptr) throw std::bad_alloc();
#if defined(__linux__)
    // Page faults of the first touch can take longer than the computation. This is only a hint.
    if (unit == kLargePage) madvise(data_, bytes, MADV_HUGEPAGE);
#endif
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  Buffer(Buffer&& other) noexcept : data_(other.data_), size_(other.size_) { other.data_ = nullptr; }
  Buffer& operator=(Buffer&& other) noexcept {
    std::free(data_);
    data_ = other.data_;
    size_ = other.size_;
    other.data_ = nullptr;
    return *this;
  }
  ~Buffer() { std::free(data_); }

  void clear() { std::memset(static_cast<void*>(data_), 0, size_t(size_) * sizeof(T)); }
  T* data() { return data_; }
  const T* data() const { return data_; }
  T& operator[](int64_t n) { return data_[n]; }
  const T& operator[](int64_t n) const { return data_[n]; }
  int64_t size() const { return size_; }

 private:
  T* data_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace s7::S7_ISA
