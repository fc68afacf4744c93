// Tiles of events, chunks of tiles, and sums over all events whose result does not depend on the number of threads.
#pragma once

#include "parallel.h"
#include "products.h"

namespace s7::S7_ISA {

inline constexpr int64_t kMostSums = 32;  // sets of sums

// A chunk is a range of tiles that share one set of sums. It has enough tiles that adding up the sets is cheap. The
// chunks depend only on the number of events, so results are bitwise identical for any number of threads.
struct Chunks {
  int64_t events, tiles, count;

  static Chunks of(int64_t events) { return divide(events, 5, kMostSums); }

  // Smaller chunks for passes without sums, which balance the load better.
  static Chunks small(int64_t events) { return divide(events, 2, 64); }

  // Chunks of at most `size` tiles, or `most` chunks. Their number is a multiple of 4 if there are enough tiles, so
  // that two or four threads have the same work.
  static Chunks divide(int64_t events, int64_t size, int64_t most) {
    const int64_t tiles = (events + kTile - 1) / kTile, count = ((tiles + size - 1) / size + 3) / 4 * 4;
    const int64_t fewest = tiles < count ? tiles : count;
    return {events, tiles, fewest < most ? fewest : most};
  }

  // The first tile of a chunk. The largest chunks come first: threads that take one chunk after another then end
  // together.
  int64_t begin(int64_t chunk) const {
    const int64_t larger = tiles % count;
    return chunk * (tiles / count) + (chunk < larger ? chunk : larger);
  }

  // Calls task(first event, number of events) for each tile of a chunk.
  template <class F>
  void for_tiles(int64_t chunk, F task) const {
    for (int64_t tile = begin(chunk); tile < begin(chunk + 1); ++tile) {
      const int64_t first = tile * kTile, left = events - first;
      task(first, left < kTile ? left : kTile);
    }
  }
};

// One set of sums per chunk.
template <class T>
class Sums {
 public:
  Sums(const Chunks& chunks, int64_t size) : Sums(chunks.count, size) {}
  Sums(int64_t chunks, int64_t size) : chunks_(chunks), size_(size), sums_(chunks * size) {}

  // Returns the sums of a chunk. They are uninitialised until `clear` is called.
  T* of(int64_t chunk) { return sums_.data() + chunk * size_; }
  void clear(int64_t chunk) {
    if (size_ > 0) std::memset(of(chunk), 0, size_t(size_) * sizeof(T));
  }

  // Returns the total over all chunks, always added in the same order.
  const T* total(Pool pool) {
    constexpr int64_t kBlock = 4096;
    parallel(pool, (size_ + kBlock - 1) / kBlock, [&](int64_t block) {
      const int64_t first = block * kBlock, last = first + kBlock < size_ ? first + kBlock : size_;
      for (int64_t chunk = 1; chunk < chunks_; ++chunk)
        for (int64_t n = first; n < last; ++n) sums_[n] += sums_[chunk * size_ + n];
    });
    return sums_.data();
  }

 private:
  int64_t chunks_, size_;
  Buffer<T> sums_;
};

// Sets what follows the last event of a tile to zero.
template <class T>
inline void clear_after(int64_t events, int64_t columns, T* rows) {
  if (events == kTile) return;
  for (int64_t j = 0; j < columns; ++j) std::memset(rows + j * kTile + events, 0, size_t(kTile - events) * sizeof(T));
}

// rows[j][k] = source[k][j] for the events k of a tile, and zero after the last event.
template <class T>
inline void load_tile(const T* source, int64_t events, int64_t columns, T* rows) {
  // Eight events at a time, so that memory is read in order.
  for (int64_t k = 0; k < events; k += 8) {
    if (k + 8 > events) k = events < 8 ? 0 : events - 8;
    transpose(source + k * columns, events < 8 ? events : 8, columns, columns, rows + k, kTile);
  }
  clear_after(events, columns, rows);
}

template <class T>
inline void store_tile(const T* rows, int64_t events, int64_t columns, T* target) {
  transpose(rows, columns, events, kTile, target, columns);
}

// Loads the rows of u and the row of ones.
template <class T>
inline void load_input(const T* u, int64_t events, int64_t width, T* rows) {
  load_tile(u, events, width, rows);
  for (int64_t k = 0; k < kTile; ++k) rows[width * kTile + k] = k < events ? T(1) : T(0);
}

// Stores a tile without transposing it, in the memory of its events in an array with `columns` numbers per event. A
// later pass reads it with `take_tile`.
template <class T>
inline void keep_tile(const T* rows, int64_t events, int64_t columns, T* target) {
  if (events == kTile) return void(std::memcpy(target, rows, size_t(columns * kTile) * sizeof(T)));
  for (int64_t j = 0; j < columns; ++j) std::memcpy(target + j * events, rows + j * kTile, size_t(events) * sizeof(T));
}

template <class T>
inline void take_tile(const T* source, int64_t events, int64_t columns, T* rows) {
  if (events == kTile) return void(std::memcpy(rows, source, size_t(columns * kTile) * sizeof(T)));
  for (int64_t j = 0; j < columns; ++j) std::memcpy(rows + j * kTile, source + j * events, size_t(events) * sizeof(T));
}

// Returns the events in rows of `padded` numbers, filled up with zeros, as Form::gather_weights reads them. Returns
// `source` itself if it needs no padding.
template <class T>
inline const T* in_padded(const T* source, int64_t events, int64_t columns, int64_t padded, T* target) {
  if (columns == padded) return source;
  for (int64_t k = 0; k < events; ++k) {
    std::memcpy(target + k * padded, source + k * columns, size_t(columns) * sizeof(T));
    std::memset(target + k * padded + columns, 0, size_t(padded - columns) * sizeof(T));
  }
  return target;
}

template <class T>
inline void pad_tile(const T* rows, int64_t columns, int64_t padded, T* target) {
  if (columns < padded)
    for (int64_t k = 0; k < kTile; ++k)
      std::memset(target + k * padded + columns, 0, size_t(padded - columns) * sizeof(T));
  transpose(rows, columns, kTile, kTile, target, padded);
}

}  // namespace s7::S7_ISA
