// Events in tiles, tiles in chunks, and sums over all of them that do not depend on the number of threads.
#pragma once

#include "parallel.h"
#include "products.h"

namespace s7::S7_ISA {

// A chunk is the tiles that share one set of sums: enough of them that adding the sets up costs little. The cut
// depends on the number of events alone, so results are the same bits for any number of threads.
struct Chunks {
  int64_t events, tiles, count;

  static Chunks of(int64_t events) {
    const int64_t tiles = (events + kTile - 1) / kTile, count = (tiles + 4) / 5;
    return {events, tiles, count < 32 ? count : 32};
  }

  // Where there are no sums: smaller, so that no thread waits long for the last.
  static Chunks small(int64_t events) {
    const int64_t tiles = (events + kTile - 1) / kTile, count = (tiles + 1) / 2;
    return {events, tiles, count < 64 ? count : 64};
  }

  // task(tile's first event, events in it) for the tiles of one chunk.
  template <class F>
  void for_tiles(int64_t chunk, F task) const {
    for (int64_t tile = chunk * tiles / count; tile < (chunk + 1) * tiles / count; ++tile) {
      const int64_t first = tile * kTile, left = events - first;
      task(first, left < kTile ? left : kTile);
    }
  }
};

// One set of sums for each chunk.
template <class T>
class Sums {
 public:
  Sums(const Chunks& chunks, int64_t size) : chunks_(chunks.count), size_(size), sums_(chunks.count * size) {}

  // The set of a chunk, to be cleared by whoever begins to fill it.
  T* of(int64_t chunk) { return sums_.data() + chunk * size_; }
  void clear(int64_t chunk) {
    if (size_ > 0) std::memset(of(chunk), 0, size_t(size_) * sizeof(T));
  }

  // All sets added up, always in the same order.
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

// rows[j][k] = source[k][j] for the events of a tile, zero after the last.
template <class T>
inline void load_tile(const T* source, int64_t events, int64_t columns, T* rows) {
  transpose(source, events, columns, columns, rows, kTile);
  if (events < kTile)
    for (int64_t j = 0; j < columns; ++j) std::memset(rows + j * kTile + events, 0, size_t(kTile - events) * sizeof(T));
}

template <class T>
inline void store_tile(const T* rows, int64_t events, int64_t columns, T* target) {
  transpose(rows, columns, events, kTile, target, columns);
}

// The rows of the input: u, and one.
template <class T>
inline void load_input(const T* u, int64_t events, int64_t width, T* rows) {
  load_tile(u, events, width, rows);
  for (int64_t k = 0; k < kTile; ++k) rows[width * kTile + k] = k < events ? T(1) : T(0);
}

// A tile as it lies, in the place of its events in an array of `columns` numbers each: for a later pass, that does not
// ask for them event by event.
template <class T>
inline void keep_tile(const T* rows, int64_t events, int64_t columns, T* target) {
  for (int64_t j = 0; j < columns; ++j) std::memcpy(target + j * events, rows + j * kTile, size_t(events) * sizeof(T));
}

template <class T>
inline void take_tile(const T* source, int64_t events, int64_t columns, T* rows) {
  for (int64_t j = 0; j < columns; ++j) std::memcpy(rows + j * kTile, source + j * events, size_t(events) * sizeof(T));
}

// Events one after another in rows of `padded` numbers, filled up with zeros: what Form::gather_weights reads. They may
// lie so already.
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
