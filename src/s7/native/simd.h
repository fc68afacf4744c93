// Vectors of the width of the target instruction set, and the functions on them that the kernels need.
//
// A few functions have versions with intrinsics. The rest uses the vector extensions of GCC and Clang, so one source
// serves AVX-512, AVX2, SSE2 and NEON, depending on the compiler flags. `S7_ISA` names the namespace, so that several
// builds can be linked into one library.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#if defined(__AVX__)
#include <immintrin.h>
#endif

namespace s7::S7_ISA {

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
inline constexpr int kRegisters = 32;
#elif defined(__AVX__)
inline constexpr int kVectorBytes = 32;
inline constexpr int kRegisters = 16;
#else
inline constexpr int kVectorBytes = 16;
#if defined(__aarch64__)
inline constexpr int kRegisters = 32;
#else
inline constexpr int kRegisters = 16;
#endif
#endif

template <class T>
struct VectorOf;
template <>
struct VectorOf<float> {
  typedef float type __attribute__((vector_size(kVectorBytes)));
  typedef int32_t integers __attribute__((vector_size(kVectorBytes)));
};
template <>
struct VectorOf<double> {
  typedef double type __attribute__((vector_size(kVectorBytes)));
  typedef int64_t integers __attribute__((vector_size(kVectorBytes)));
};

template <class T>
using Vector = typename VectorOf<T>::type;
template <class T>
using Integers = typename VectorOf<T>::integers;
template <class T>
inline constexpr int kLanes = kVectorBytes / int(sizeof(T));

template <class T>
inline Vector<T> load(const T* from) {
  Vector<T> v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

template <class T>
inline void store(T* to, Vector<T> v) {
  std::memcpy(to, &v, sizeof v);
}

template <class T>
inline Vector<T> all(T value) {
  return value - Vector<T>{};
}

template <class T>
inline Vector<T> select(Integers<T> where, Vector<T> yes, Vector<T> no) {
  return where ? yes : no;
}

// Applies a scalar function to each lane, for rare cases and functions without a fast vector form.
template <class T, class F>
inline Vector<T> each(Vector<T> x, F f) {
  for (int n = 0; n < kLanes<T>; ++n) x[n] = f(x[n]);
  return x;
}

// Returns whether any lane of a comparison is true.
template <class T>
inline bool any(Integers<T> where) {
  bool found = false;
  for (int n = 0; n < kLanes<T>; ++n) found |= where[n] != 0;
  return found;
}

// Returns 1 / x for x from 1 to 1e36.
template <class T>
inline Vector<T> reciprocal(Vector<T> x) {
  return T(1) / x;
}

#if defined(__AVX512F__) && defined(__AVX512DQ__)
template <>
inline bool any<float>(Integers<float> where) {
  return _mm512_movepi32_mask(reinterpret_cast<__m512i>(where)) != 0;
}

// An approximation to 14 bits and one step of Newton's method. A division takes several times as long.
template <>
inline Vector<float> reciprocal<float>(Vector<float> x) {
  const Vector<float> r = _mm512_maskz_rcp14_ps(__mmask16(-1), x);
  return r + r * (1.0f - x * r);
}
#endif

// Returns the sum of the lanes.
template <class T>
inline T total(Vector<T> v) {
  T sum = 0;
  for (int n = 0; n < kLanes<T>; ++n) sum += v[n];
  return sum;
}

template <class T>
inline Vector<T> root(Vector<T> x) {
  return each<T>(x, [](T q) { return std::sqrt(q); });
}

template <class T>
struct Exponential {
  Vector<T> value;   // exp(x)
  Vector<T> beyond;  // exp(x) - 1, without cancellation
};

// Valid for x ≤ 88. exp(x) = 2^n exp(f) with n = round(x / ln 2) and f = x - n ln 2. Inlined, so that a part of the
// result that is not used is not computed.
__attribute__((always_inline)) inline Exponential<float> exponential(Vector<float> x) {
  using V = Vector<float>;
  using I = Integers<float>;
  const V lowest = all<float>(-87.0f);
  const I vanishes = x < lowest;
  const V bounded = select<float>(vanishes, lowest, x);
  const V magic = all<float>(12582912.0f);  // 1.5·2²³: adding it rounds to an integer and leaves that in the low bits
  const V shifted = bounded * 1.44269504f + magic;
  const V n = shifted - magic;
  const V f = (bounded - n * 0.693359375f) - n * -2.12194440e-4f;  // ln 2 in two parts; n times the first is exact
  // exp(f) - 1 by its Taylor series. |f| ≤ 0.35, so the first omitted term is below 1e-8.
  V series = all<float>(1.0f / 5040);
  series = series * f + 1.0f / 720;
  series = series * f + 1.0f / 120;
  series = series * f + 1.0f / 24;
  series = series * f + 1.0f / 6;
  series = series * f + 0.5f;
  series = series * f * f + f;
  typedef uint32_t Bits __attribute__((vector_size(kVectorBytes)));  // unsigned: the bits of NaN may wrap around
  Bits bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = (bits + 127u) << 23;
  V power;
  std::memcpy(&power, &bits, sizeof power);
  const V value = power * series + power;
  const V beyond = power * series + (power - 1.0f);
  return {select<float>(vanishes, V{}, value), select<float>(vanishes, all<float>(-1.0f), beyond)};
}

inline Exponential<double> exponential(Vector<double> x) {
  return {each<double>(x, [](double q) { return std::exp(q); }),
          each<double>(x, [](double q) { return std::expm1(q); })};
}

template <class T>
struct Turn {
  Vector<T> cosine, sine;
};

inline Turn<double> turn(Vector<double> angle) {
  return {each<double>(angle, [](double q) { return std::cos(q); }),
          each<double>(angle, [](double q) { return std::sin(q); })};
}

inline Turn<float> turn(Vector<float> angle) {
  using V = Vector<float>;
  using I = Integers<float>;
  // For larger angles the range reduction below loses precision, so the C library computes them.
  if (any<float>(~((angle < all<float>(8192.0f)) & (angle > all<float>(-8192.0f))))) {
    return {each<float>(angle, [](float q) { return std::cos(q); }),
            each<float>(angle, [](float q) { return std::sin(q); })};
  }
  const V magic = all<float>(12582912.0f);
  const V shifted = angle * 0.636619772f + magic;
  const V n = shifted - magic;
  // π/2 in three parts. The products of the first two with n < 2¹³ are exact.
  const V f = ((angle - n * 1.5703125f) - n * 4.837512969970703125e-4f) - n * 7.549789948768648e-8f;
  const V q = f * f;
  V sine = all<float>(2.7557319e-6f);
  sine = sine * q - 1.9841270e-4f;
  sine = sine * q + 8.3333333e-3f;
  sine = sine * q - 1.6666667e-1f;
  sine = sine * q * f + f;
  V cosine = all<float>(2.4801587e-5f);
  cosine = cosine * q - 1.3888889e-3f;
  cosine = cosine * q + 4.1666667e-2f;
  cosine = cosine * q - 0.5f;
  cosine = cosine * q + 1.0f;
  I quarter;
  std::memcpy(&quarter, &shifted, sizeof quarter);
  const I swapped = (quarter & 1) != 0;
  const V c = select<float>(swapped, sine, cosine), s = select<float>(swapped, cosine, sine);
  return {select<float>(((quarter + 1) & 2) != 0, -c, c), select<float>((quarter & 2) != 0, -s, s)};
}

#if defined(__clang__)
#define S7_SHUFFLE(x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)
#else
#define S7_SHUFFLE(x, y, ...) __builtin_shuffle(x, y, Order{__VA_ARGS__})
#endif

// Transposes the 4 × 4 block at `from`.
inline void transpose_4(const float* from, int64_t from_stride, float* to, int64_t to_stride) {
  typedef float Row __attribute__((vector_size(16)));
  typedef int32_t Order __attribute__((vector_size(16)));
  Row r[4], s[4];
  for (int n = 0; n < 4; ++n) std::memcpy(&r[n], from + n * from_stride, sizeof(Row));
  for (int n = 0; n < 4; n += 2) {
    s[n] = S7_SHUFFLE(r[n], r[n + 1], 0, 4, 1, 5);
    s[n + 1] = S7_SHUFFLE(r[n], r[n + 1], 2, 6, 3, 7);
  }
  for (int n = 0; n < 2; ++n) {
    r[2 * n] = S7_SHUFFLE(s[n], s[n + 2], 0, 1, 4, 5);
    r[2 * n + 1] = S7_SHUFFLE(s[n], s[n + 2], 2, 3, 6, 7);
  }
  for (int n = 0; n < 4; ++n) std::memcpy(to + n * to_stride, &r[n], sizeof(Row));
}

inline void transpose_4(const double* from, int64_t from_stride, double* to, int64_t to_stride) {
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) to[j * to_stride + i] = from[i * from_stride + j];
}

#undef S7_SHUFFLE

// Transposes the 8 × 8 block at `from`.
template <class T>
inline void transpose_8(const T* from, int64_t from_stride, T* to, int64_t to_stride) {
  for (int i = 0; i < 8; i += 4)
    for (int j = 0; j < 8; j += 4)
      transpose_4(from + i * from_stride + j, from_stride, to + j * to_stride + i, to_stride);
}

#if defined(__AVX__)
// Loads rows n and n + 4 into the two 128-bit halves of one vector, so that no shuffle crosses the halves.
inline void transpose_8(const float* from, int64_t from_stride, float* to, int64_t to_stride) {
  for (int half = 0; half < 8; half += 4, from += 4, to += 4 * to_stride) {
    __m256 r[4];
    for (int n = 0; n < 4; ++n)
      r[n] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(from + n * from_stride)),
                                  _mm_loadu_ps(from + (n + 4) * from_stride), 1);
    const __m256 a = _mm256_unpacklo_ps(r[0], r[1]), b = _mm256_unpacklo_ps(r[2], r[3]);
    const __m256 c = _mm256_unpackhi_ps(r[0], r[1]), d = _mm256_unpackhi_ps(r[2], r[3]);
    _mm256_storeu_ps(to, _mm256_shuffle_ps(a, b, 0x44));
    _mm256_storeu_ps(to + to_stride, _mm256_shuffle_ps(a, b, 0xEE));
    _mm256_storeu_ps(to + 2 * to_stride, _mm256_shuffle_ps(c, d, 0x44));
    _mm256_storeu_ps(to + 3 * to_stride, _mm256_shuffle_ps(c, d, 0xEE));
  }
}
#endif

// Blocks at the edges overlap their neighbours and write the same numbers again.
template <int kSize, class T, class F>
inline void transpose_blocks(const T* from, int64_t rows, int64_t columns, int64_t from_stride, T* to,
                             int64_t to_stride, F block) {
  for (int64_t j = 0; j < columns; j += kSize) {
    if (j > columns - kSize) j = columns - kSize;
    for (int64_t i = 0; i < rows; i += kSize) {
      if (i > rows - kSize) i = rows - kSize;
      block(from + i * from_stride + j, from_stride, to + j * to_stride + i, to_stride);
    }
  }
}

// to[j][i] = from[i][j] for i < rows, j < columns.
template <class T>
inline void transpose(const T* from, int64_t rows, int64_t columns, int64_t from_stride, T* to, int64_t to_stride) {
  const int64_t least = rows < columns ? rows : columns;
  if (least >= 8)
    return transpose_blocks<8>(from, rows, columns, from_stride, to, to_stride,
                               [](auto... block) { transpose_8(block...); });
  if (least >= 4)
    return transpose_blocks<4>(from, rows, columns, from_stride, to, to_stride,
                               [](auto... block) { transpose_4(block...); });
  for (int64_t j = 0; j < columns; ++j)
    for (int64_t i = 0; i < rows; ++i) to[j * to_stride + i] = from[i * from_stride + j];
}

}  // namespace s7::S7_ISA
