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

// Starts to load `count` numbers from memory into cache.
template <class T>
inline void prefetch(const T* from, int64_t count) {
  for (int64_t n = 0; n < count; n += 64 / int64_t(sizeof(T))) __builtin_prefetch(from + n, 0, 2);
}

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
