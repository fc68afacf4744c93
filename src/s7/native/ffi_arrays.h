// The arrays of an XLA custom call. The type and shape of every array are checked.
#pragma once

#include "xla/ffi/api/ffi.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <cstring>
#include <initializer_list>
#include <new>
#include <string>
#include <vector>

#include "kernels.h"
#include "pool.h"

namespace s7 {
namespace {

namespace ffi = xla::ffi;

Pool pool_of(ffi::ThreadPool& threads) {
  return {&threads, [](void* handle, int64_t count, void (*task)(void*, int64_t), void* context) {
            auto& pool = *static_cast<ffi::ThreadPool*>(handle);
            for_each([&](auto function) { pool.Schedule(std::move(function)); }, pool.num_threads(), count, task,
                     context);
          }};
}

// Select a table or type by the type of a pointer.
template <class T>
const Kernels<T>& kernels_for(const T*) {
  return kernels<T>();
}

template <class... P>
void advance(int64_t by, P*&... pointers) {
  ((pointers = pointers == nullptr ? nullptr : pointers + by), ...);
}

// Large results are newly allocated in every call. The page faults of the first touch can take longer than the kernel,
// so huge pages are requested where the system supports them.
void ask_for_large_pages(void* data, size_t bytes) {
#if defined(__linux__)
  constexpr uintptr_t kLargePage = uintptr_t(2) << 20;
  const uintptr_t first = (reinterpret_cast<uintptr_t>(data) + kLargePage - 1) / kLargePage * kLargePage;
  const uintptr_t last = (reinterpret_cast<uintptr_t>(data) + bytes) / kLargePage * kLargePage;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);  // only a hint
#else
  (void)data, (void)bytes;
#endif
}

// The arrays of a call, in order. The type and shape of each array are checked when it is taken. The first mismatch is
// recorded, and then no kernel runs.
template <class T>
class Arrays {
 public:
  Arrays(const char* call, ffi::DataType type, const ffi::RemainingArgs& arguments, const ffi::RemainingRets& results)
      : call_(call), type_(type), arguments_(arguments), results_(results) {}

  using Shape = std::initializer_list<int64_t>;

  // A null pointer for functions that deduce T from a pointer.
  static const T* none() { return nullptr; }

  const T* take(const char* name, Shape shape) {
    const auto buffer = arguments_.get<ffi::AnyBuffer>(taken_++);
    if (!buffer.has_value()) return missing<const T*>(name);
    check(name, *buffer, shape);
    return pointer<const T*>(*buffer);
  }

  // An omitted argument or result is an array without elements and becomes null.
  const T* take_if(bool given, const char* name, Shape shape) {
    if (given) return take(name, shape);
    ++taken_;
    return nullptr;
  }

  T* give(const char* name, Shape shape) { return give_shaped(name, std::vector<int64_t>(shape)); }

  // A result with an additional leading dimension.
  T* give_group(int64_t groups, const char* name, Shape shape) {
    std::vector<int64_t> all(shape);
    all.insert(all.begin(), groups);
    return give_shaped(name, all);
  }

  T* give_if(bool wanted, const char* name, Shape shape) {
    if (wanted) return give(name, shape);
    ++given_;
    return nullptr;
  }

  size_t results() const { return results_.size(); }
  // The number of results given so far.
  size_t given() const { return given_; }

  // Returns the size of a dimension of an argument or result, or -1 if it does not exist.
  int64_t size(size_t argument, size_t dimension) const {
    return size_of(arguments_.get<ffi::AnyBuffer>(argument), dimension);
  }
  int64_t result_size(size_t result, size_t dimension) const {
    auto buffer = results_.get<ffi::AnyBuffer>(result);
    if (!buffer.has_value() || dimension >= (*buffer)->dimensions().size()) return -1;
    return (*buffer)->dimensions()[dimension];
  }
  bool has(size_t argument) const {
    const auto buffer = arguments_.get<ffi::AnyBuffer>(argument);
    return buffer.has_value() && buffer->element_count() > 0;
  }

  void require(bool holds, const char* what) {
    if (!holds && problem_.empty()) problem_ = std::string(call_) + ": " + what;
  }

  // Whether all checks passed so far, so that the arrays may be read.
  bool fit() const { return problem_.empty(); }

  // Runs the kernel if all checks passed.
  template <class F>
  ffi::Error run(F kernel) {
    require(taken_ == arguments_.size() && given_ == results_.size(), "wrong number of arrays");
    if (!problem_.empty()) return ffi::Error(ffi::ErrorCode::kInvalidArgument, problem_);
    try {
      kernel();
      return ffi::Error::Success();
    } catch (const std::bad_alloc&) {
      return ffi::Error(ffi::ErrorCode::kResourceExhausted, std::string(call_) + ": not enough memory");
    }
  }

 private:
  T* give_shaped(const char* name, const std::vector<int64_t>& shape) {
    auto buffer = results_.get<ffi::AnyBuffer>(given_++);
    if (!buffer.has_value()) return missing<T*>(name);
    check(name, **buffer, shape);
    ask_for_large_pages((*buffer)->untyped_data(), (*buffer)->size_bytes());
    return pointer<T*>(**buffer);
  }

  template <class B>
  static int64_t size_of(const B& buffer, size_t dimension) {
    if (!buffer.has_value() || dimension >= buffer->dimensions().size()) return -1;
    return buffer->dimensions()[dimension];
  }

  template <class P>
  static P pointer(const ffi::AnyBuffer& buffer) {
    return buffer.element_count() == 0 ? nullptr : reinterpret_cast<P>(buffer.untyped_data());
  }

  template <class P>
  P missing(const char* name) {
    require(false, (std::string(name) + " is missing").c_str());
    return nullptr;
  }

  void check(const char* name, const ffi::AnyBuffer& buffer, const std::vector<int64_t>& shape) {
    const auto dimensions = buffer.dimensions();
    bool same = dimensions.size() == shape.size();
    size_t n = 0;
    for (int64_t size : shape) same = same && size > 0 && dimensions[n++] == size;
    if (!same) {
      std::string what = std::string(name) + " has shape (";
      for (n = 0; n < dimensions.size(); ++n) what += (n ? ", " : "") + std::to_string(dimensions[n]);
      what += "), expected (";
      n = 0;
      for (int64_t size : shape) what += (n++ ? ", " : "") + std::to_string(size);
      require(false, (what + ")").c_str());
    }
    require(buffer.element_type() == type_, (std::string(name) + " is of another type than the first array").c_str());
  }

  const char* call_;
  const ffi::DataType type_;
  const ffi::RemainingArgs& arguments_;
  const ffi::RemainingRets& results_;
  size_t taken_ = 0, given_ = 0;
  std::string problem_;
};

// Calls body(arrays, is_complex), where `arrays` has the type of the first argument.
template <class F>
ffi::Error with_arrays(const char* call, const ffi::RemainingArgs& arguments, const ffi::RemainingRets& results,
                       F body) {
  const auto first = arguments.get<ffi::AnyBuffer>(0);
  const ffi::DataType type = first.has_value() ? first->element_type() : ffi::DataType::INVALID;
  const bool is_complex = type == ffi::C64 || type == ffi::C128;
  if (type == ffi::F32 || type == ffi::C64) {
    Arrays<float> arrays(call, type, arguments, results);
    return body(arrays, is_complex);
  }
  if (type == ffi::F64 || type == ffi::C128) {
    Arrays<double> arrays(call, type, arguments, results);
    return body(arrays, is_complex);
  }
  return ffi::Error(ffi::ErrorCode::kInvalidArgument, std::string(call) + ": numbers of a type that has no kernel");
}

// Whether all numbers are at least 0 and below `end`.
template <class T>
bool all_below(const T* numbers, int64_t count, T end) {
  bool holds = true;
  for (int64_t n = 0; n < count; ++n) holds &= numbers[n] >= 0 && numbers[n] < end;
  return holds;
}

template <class T>
void check_threshold(Arrays<T>& arrays, int64_t threshold) {
  arrays.require(threshold >= 0 && threshold < 65536, "the dropout threshold must be from 0 to 65535");
}

inline auto bind() { return ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().RemainingArgs().RemainingRets(); }

}  // namespace
}  // namespace s7
