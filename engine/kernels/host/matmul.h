// Matrix products: which kernel multiplies what, how the work is cut, and the operations themselves.
//
// Small matrices may lie a second time as row tiles (rowtiles.h). Else weights are decoded in registers
// on their way for up to four or eight rows of activations; for more, some matrix rows at a time are decoded into
// thread memory and multiplied with all rows of activations.
// The plain twin is the matrix product of engine/ops/reference.py.
#pragma once
#include "rowtiles.h"

namespace STRATUM_ISA {

// Rows `list[0 .. count-1]` of the activations (0 .. count-1 when list is null) go to rows
// 0 .. count-1 of out.
struct Product {
  const Matrix* matrix;
  i64 index;  // which of the stacked matrices
  const Activations* rows;
  const i32* list;
  i64 count;
  float* out;
  i64 stride;
  i64 activation_row(i64 i) const { return list == nullptr ? i : (i64)list[i]; }
  const u8* matrix_row(i64 m) const {
    return matrix->data + (index * matrix->rows + m) * matrix->row_bytes;
  }
};

// Rows of activations up to which weights are decoded on their way, once for every four: up to eight
// where decoding costs less than a way through memory. Those formats are also worth kernels for two
// matrix rows at a time.
constexpr i64 kFewRows = 4;
template <class Source>
constexpr bool kEasilyDecoded = false;
#if defined(STRATUM_WIDE)
#define STRATUM_EASILY_DECODED(source) \
  template <>                          \
  constexpr bool kEasilyDecoded<source> = true
STRATUM_EASILY_DECODED(SourceQ8_0);
STRATUM_EASILY_DECODED(SourceQ4_0);
STRATUM_EASILY_DECODED(SourceQ2_0);
STRATUM_EASILY_DECODED(SourceQ6_K);
STRATUM_EASILY_DECODED(SourceQ4_K);
STRATUM_EASILY_DECODED(SourceQ2_K);
STRATUM_EASILY_DECODED(SourceIQ4_NL);
#endif
template <class Source>
constexpr i64 kDirectRows = kEasilyDecoded<Source> ? 2 * kFewRows : kFewRows;

// Calls f(m, sums) for every M matrix rows from `from` on, and writes the sums across the lanes of the
// vectors that f leaves at sums[r * rows_at_once<M, R>() + i] for matrix row m + i.
template <int M, int R, class F>
STRATUM_INLINE static void summed_rows(const Product& p, i64 from, i64 to, i64 first, const F& f) {
  constexpr int rows = rows_at_once<M, R>();
  Vec sums[R * rows];
  STRATUM_UNROLLED
  for (int i = 0; i < R * rows; ++i) sums[i] = zero();
  const i64 num_r = least(R, p.count - first);
  for (i64 start = from; start < to; start += rows) {
    const i64 valid = least(rows, to - start);
    float* out = p.out + first * p.stride + start;
    if constexpr (rows == M) {
      f(start, sums);
      store_sums<rows, R>(sums, valid, num_r, out, p.stride);
    } else {
      STRATUM_ROLLED
      for (i64 m = 0; m < valid; m += M) f(start + m, sums + m);
      store_sums_of_memory<rows, R>(sums, valid, num_r, out, p.stride);
    }
  }
}

// Row of activations r of R from `first` on; of three of them the last one counts twice.
template <int R>
static inline i64 row_of(const Product& p, i64 first, i64 r) {
  return p.activation_row(R == 4 ? least(first + r, p.count - 1) : first + r);
}

template <class Source, int M, int R, bool kFetch>
static inline void tiles_rows(const Product& p, CodeOrder order, i64 from, i64 to, const u8* weights,
                              i64 row_bytes, u8* tails, Fetch* fetch, i64 first) {
  QuantisedRow x[R];
  STRATUM_UNROLLED
  for (int r = 0; r < R; ++r) x[r] = p.rows->quantised(row_of<R>(p, first, r));
  // Rows whose last super may be read whole, where they do not fill it: enough of the matrix follows.
  const i64 open_rows =
      p.matrix->columns % 256 == 0 ? 0 : p.matrix->rows - ceil_div(kTailBytes, row_bytes);
  summed_rows<M, R>(p, from, to, first, [&](i64 m, Vec* sums) {
    Source source[M];
    STRATUM_UNROLLED
    for (i64 i = 0; i < M; ++i) {  // at the end the last row again, so that no other kernel is needed
      source[i].row = weights + (least(m + i, to - 1) - from) * row_bytes;
    }
    if (!kFetch && fetch != nullptr) fetch->some();
    if constexpr (kEndsAnywhere<Source> && kEasilyDecoded<Source> && (M == 1 || R > 2)) {
      if (m + M <= open_rows) {
        return multiply_tiles<Source, M, R, kFetch, true>(source, p.matrix->columns / kBlock, order, x,
                                                          tails, fetch, sums, rows_at_once<M, R>());
      }
    }
    multiply_tiles<Source, M, R, kFetch>(source, p.matrix->columns / kBlock, order, x, tails, fetch,
                                         sums, rows_at_once<M, R>());
  });
}

template <class Source, int R, int kShared = 0>
static inline void floats_rows(const Product& p, i64 from, i64 to, i64 first) {
  // Sums in registers: even and odd ones of M * R vectors, 8 of 16 or (512-bit) up to 16 of 32. One or
  // two rows wait for memory, which is read faster as one stream.
  constexpr i64 M = kShared ? kShared : R <= 2 && W == 16 ? 1 : (R == 1 ? 1 : 2);
  const i64 ahead = M * p.matrix->row_bytes;
  const float* x[R];
  for (int r = 0; r < R; ++r) x[r] = p.rows->floats(row_of<R>(p, first, r));
  summed_rows<M, R>(p, from, to, first, [&](i64 m, Vec* sums) {
    Source source[M];
    for (i64 i = 0; i < M; ++i) {
      source[i].p = (decltype(source[i].p))p.matrix_row(least(m + i, to - 1));
    }
    multiply_floats<Source, M, R>(source, p.matrix->columns, x, ahead, sums, rows_at_once<M, R>());
  });
}

template <int N>
struct Number {
  static constexpr int value = N;
};

// Calls f(first, Number<R>) with R = most, and less at the end, until all rows have been covered; `three`:
// R for three rows.
template <int most, int three = 3, class F>
static inline void by_rows(i64 count, const F& f) {
  i64 first = 0;
  for (; first + most <= count; first += most) f(first, Number<most>{});
  if constexpr (most > 4) {
    if (count - first >= 4) {
      f(first, Number<4>{});
      first += 4;
    }
  }
  if constexpr (most == 4) {
    if (count - first == 3) return f(first, Number<three>{});
  }
  if constexpr (most > 2) {
    if (count - first >= 2) {
      f(first, Number<2>{});
      first += 2;
    }
  }
  if (count - first == 1) f(first, Number<1>{});
}

// Decoded rows from .. to-1, which lie at `weights`, times all rows of activations.
template <class Source>
STRATUM_COLD void decoded_product(const Product& p, CodeOrder order, i64 from, i64 to,
                                  const u8* weights, Fetch fetch) {
  by_rows<4, 4>(p.count, [&](i64 first, auto rows) {
    constexpr int R = decltype(rows)::value;
    tiles_rows<Source, W / 8, R, false>(p, order, from, to, weights,
                                        DecodedRow::bytes(p.matrix->columns), nullptr, &fetch, first);
  });
}

// Rows from .. to-1, M at a time, decoded on their way. kFetch: the next ones are fetched meanwhile.
template <class Source, int M, int R, bool kFetch>
static inline void direct_rows(const Product& p, i64 from, i64 to, u8* memory, i64 first) {
  const i64 bytes = p.matrix->row_bytes, each = M * bytes / ceil_div(p.matrix->columns, 256);
  Fetch fetch = {p.matrix_row(from + M), p.matrix_row(p.matrix->rows), (each + 63) & ~(i64)63};
  tiles_rows<Source, M, R, kFetch>(p, order_of<Source>(), from, to, p.matrix_row(from), bytes, memory,
                                   kFetch ? &fetch : nullptr, first);
}

// Longer rows of activations leave the first-level cache: then several matrix rows share their loads,
// though one stream is read faster (10,240 columns of BF16: 10.8 to 17.2 GB/s).
constexpr i64 kLongColumns = 4096;

// `memory`: decode_bytes_of(columns) of this thread.
template <class Source>
STRATUM_COLD void coded_product(const Product& p, i64 from, i64 to, u8* memory) {
  const CodeOrder order = order_of<Source>();
  if (p.count <= kDirectRows<Source>) {
    by_rows<4, 4>(p.count, [&](i64 first, auto rows) {
      constexpr int R = decltype(rows)::value;
      // Two matrix rows share the loads of activations that are many or long; that is no stream, and
      // neither are weights that are used slowly.
      if constexpr (kEasilyDecoded<Source>) {
        if (R > 2 || p.matrix->columns > kLongColumns) {
          return direct_rows<Source, 2, R, true>(p, from, to, memory, first);
        }
      }
      if constexpr (R <= 2 || !kEasilyDecoded<Source>) {
        direct_rows<Source, 1, R, (R > 2)>(p, from, to, memory, first);
      }
    });
    return;
  }
  const i64 columns = p.matrix->columns, bytes = DecodedRow::bytes(columns);
  const i64 each = rows_to_decode(columns);
  u8* rows = memory + 4 * kTailBytes;
  const i64 steps = ceil_div(each, W / 8) * ceil_div(p.count, 4);  // of a group of rows
  for (i64 m = from; m < to; m += each) {
    const i64 end = least(to, m + each);
    const Fetch next = {p.matrix_row(end), p.matrix_row(least(to, end + each)),
                        (each * p.matrix->row_bytes / steps + 64) & ~(i64)63};
    for (i64 i = m; i < end; ++i) {
      decode_row<Source>(p.matrix_row(i), columns, memory, rows + (i - m) * bytes);
    }
    decoded_product<DecodedAs<Source>>(p, order, m, end, rows, next);
  }
}

template <class Source>
static inline void floats_product(const Product& p, i64 from, i64 to) {
  by_rows<W == 16 ? 4 : 2, 4>(p.count, [&](i64 first, auto rows) {
    constexpr int R = decltype(rows)::value;
    if constexpr (R <= 2) {
      constexpr int kShared = R == 1 || W == 16 ? 4 : 2;
      if (p.matrix->columns > kLongColumns) {
        return floats_rows<Source, R, kShared>(p, from, to, first);
      }
    }
    floats_rows<Source, R>(p, from, to, first);
  });
}

#if defined(STRATUM_WIDE)
template <TileCodes kCodes, bool kMins>
static inline void tiled_product(const Product& p, i64 from, i64 to) {
  const Matrix* m = p.matrix;
  const i64 bytes = row_tile_bytes(m);
  const u8* tiles = m->tiles + p.index * RowTile::count(m->rows) * bytes;
  by_rows<8>(p.count, [&](i64 first, auto rows) {
    constexpr int R = decltype(rows)::value;
    QuantisedRow x[R];
    STRATUM_UNROLLED
    for (int r = 0; r < R; ++r) x[r] = p.rows->quantised(p.activation_row(first + r));
    STRATUM_ROLLED
    for (i64 row = from; row < to; row += RowTile::kRows) {
      multiply_row_tile<R, kCodes, kMins>(tiles + row / RowTile::kRows * bytes, m->columns / kBlock, x,
                                  p.out + first * p.stride + row, p.stride,
                                  least(RowTile::kRows, to - row));
    }
  });
}

// Matrix rows from .. to-1 of a matrix that has row tiles; `from` begins one.
STRATUM_COLD void rows_product(const Product& p, i64 from, i64 to) {
  switch (tile_codes(p.matrix->type)) {
    case TileCodes::kNibbles: return tiled_product<TileCodes::kNibbles, true>(p, from, to);
    case TileCodes::kNibbles8: return tiled_product<TileCodes::kNibbles8, false>(p, from, to);
    case TileCodes::kIQ4: return tiled_product<TileCodes::kIQ4, false>(p, from, to);
    default: break;
  }
  if (has_minimum(p.matrix->type)) return tiled_product<TileCodes::kBytes, true>(p, from, to);
  tiled_product<TileCodes::kBytes, false>(p, from, to);
}
#endif

// Computes matrix rows from .. to-1. `memory`: decode_bytes_of(columns) of this thread.
STRATUM_COLD void product(const Product& p, i64 from, i64 to, u8* memory) {
  switch (p.matrix->type) {
    case kF32: return floats_product<LoadF32>(p, from, to);
    case kF16: return floats_product<LoadF16>(p, from, to);
    case kBF16: return floats_product<LoadBF16>(p, from, to);
    default: break;
  }
#if defined(STRATUM_WIDE)
  if (p.matrix->tiles != nullptr) return rows_product(p, from, to);
#endif
  with_source(p.matrix->type, [&](auto kind) {
    coded_product<typename decltype(kind)::Source>(p, from, to, memory);
  });
}

// Estimated nanoseconds on one thread: codes and floats, at 3.7 GHz with 512-bit vectors.
static inline i64 product_ns(i64 matrix_rows, i64 columns, i64 rows, bool is_float) {
  return matrix_rows * columns * (is_float ? rows + 1 : rows + 2) / (is_float ? 40 : 100);
}
static inline i64 product_ns(const Matrix* m, i64 rows) {
  return product_ns(m->rows, m->columns, rows, is_float(m->type));
}

// Matrix rows that one item of work computes: about 4 microseconds, and whole cache lines of output;
// with many rows a few groups of those that are decoded together.
static inline i64 tile_rows(i64 columns, i64 rows) {
  const i64 wanted = 8000 * 20 / most(1, columns * rows);
  return most(rows <= kFewRows ? 16 : 64, wanted / 16 * 16);
}

static inline i64 decode_bytes(const Matrix* m) {
  return is_float(m->type) ? 0 : decode_bytes_of(m->columns);
}

// Thread memory for decoding the rows of some matrices.
struct DecodeMemory {
  u8* memory;
  i64 stride;
  u8* of(i64 thread) const { return memory + thread * stride; }
};
static inline DecodeMemory take_decode_memory(Context* c, Scratch* scratch, i64 bytes) {
  const i64 stride = (bytes + 63) & ~(i64)63;
  return {scratch->take<u8>(most(1, stride * pool_threads(c->pool))), stride};
}

constexpr i64 kMostMatrices = 6;

// All rows of several matrices that read the same activation rows.
STRATUM_COLD void products(Context* c, i64 count, const Product* list, const DecodeMemory& memory) {
  i64 tiles[kMostMatrices + 1], each[kMostMatrices], cost = 0;
  tiles[0] = 0;
  for (i64 i = 0; i < count; ++i) {
    const Matrix* m = list[i].matrix;
    each[i] = tile_rows(m->columns, list[i].count);
    tiles[i + 1] = tiles[i] + ceil_div(m->rows, each[i]);
    cost += product_ns(m, list[i].count);
  }
  parallel(c, tiles[count], cost, [&](i64 item, i64 thread) {
    i64 i = 0;
    while (item >= tiles[i + 1]) ++i;
    const i64 from = (item - tiles[i]) * each[i];
    product(list[i], from, least(from + each[i], list[i].matrix->rows), memory.of(thread));
  });
}

static inline Product product_of(const Matrix* matrix, const Activations* rows, i64 count,
                                 float* out, i64 stride) {
  return {matrix, 0, rows, nullptr, count, out, stride};
}

// -- operations --------------------------------------------------------------------------------------

// Up to six matrices that read the same rows; `count` pairs of a matrix and its output.
STRATUM_OPERATION i32 matmul(Context* c, Object x_object, i64 count, const Matrix* m0, Object o0,
                  const Matrix* m1, Object o1, const Matrix* m2, Object o2, const Matrix* m3,
                  Object o3, const Matrix* m4, Object o4, const Matrix* m5, Object o5) {
  const Matrix* const matrices[kMostMatrices] = {m0, m1, m2, m3, m4, m5};
  const Object outs[kMostMatrices] = {o0, o1, o2, o3, o4, o5};
  bool ok = count <= kMostMatrices;
  const RowsOf<float> x = rows_of<float>(c, x_object, &ok);
  if (!ok) return kWrongShape;
  Product list[kMostMatrices];
  Activations rows = activations(x.data, x.stride, x.width);
  bool any_quantised = false;
  i64 bytes = 0;
  for (i64 i = 0; i < count; ++i) {
    const Matrix* m = matrices[i];
    const RowsOf<float> out = rows_of<float>(c, outs[i], &ok);
    if (!ok || m->columns != x.width || m->rows != out.width || out.rows != x.rows) {
      return kWrongShape;
    }
    list[i] = product_of(m, &rows, x.rows, out.data, out.stride);
    any_quantised |= !is_float(m->type);
    bytes = most(bytes, decode_bytes(m));
  }
  Scratch scratch(c);
  const DecodeMemory memory = take_decode_memory(c, &scratch, bytes);
  if (any_quantised) take_quantised(&scratch, &rows, x.rows);
  if (!scratch.ok()) return kOutOfMemory;
  if (any_quantised) quantise_all(c, rows, x.rows);
  products(c, count, list, memory);
  return kOk;
}

// Lays the weights of a small matrix out as row tiles; refuses what has none. See rowtiles.h.
STRATUM_OPERATION i32 row_tiles(Context* c, const Matrix* m, Object out_object) {
  bool ok = true;
  const Whole out = whole(c, out_object, &ok);
  if (!ok || !has_row_tiles(m->type) || m->columns % kBlock) {
    return kWrongShape;
  }
  const i64 bytes = row_tile_bytes(m);
  const i64 tiles = RowTile::count(m->rows);
  if (out.elements * out.element_bytes != m->count * tiles * bytes) return kWrongShape;
#if defined(STRATUM_WIDE)
  Scratch scratch(c);
  const DecodeMemory memory = take_decode_memory(c, &scratch, decode_bytes(m));
  if (!scratch.ok()) return kOutOfMemory;
  with_source(m->type, [&](auto kind) {
    typedef typename decltype(kind)::Source Source;
    if constexpr (!kHasRowTiles<Source>) return;
    u8* row = memory.memory + 4 * kTailBytes;
    for (i64 i = 0; i < m->count * m->rows; ++i) {
      decode_row<Source>(m->data + i * m->row_bytes, m->columns, memory.memory, row);
      const i64 of = i / m->rows, r = i % m->rows;
      put_row<Source, kCodesOf<Source>>(row, m->columns / kBlock, r % RowTile::kRows,
                      out.data + (of * tiles + r / RowTile::kRows) * bytes);
    }
  });
#endif
  return kOk;
}

// Reads an array as fast as the threads can: the bandwidth that products are measured against.
STRATUM_OPERATION i32 read_memory(Context* c, Object object) {
  bool ok = true;
  const Whole all = whole(c, object, &ok);
  if (!ok) return kWrongShape;
  constexpr i64 kPiece = 1 << 18;
  const i64 bytes = all.elements * all.element_bytes / 256 * 256;
  parallel(c, ceil_div(bytes, kPiece), bytes / 10, [&](i64 item, i64) {
    const u8* p = all.data + item * kPiece;
    const u8* end = p + least(kPiece, bytes - item * kPiece);
    Ints sums[4];
    STRATUM_UNROLLED
    for (int i = 0; i < 4; ++i) sums[i] = no_ints();
    for (; p < end; p += 4 * sizeof(Ints)) {
      STRATUM_UNROLLED
      for (int i = 0; i < 4; ++i) sums[i] = bxor(sums[i], load_ints(p + i * (i64)sizeof(Ints)));
    }
    const Ints sum = bxor(bxor(sums[0], sums[1]), bxor(sums[2], sums[3]));
    __asm__ volatile("" : : "x"(sum));  // the loads must not vanish
  });
  return kOk;
}

STRATUM_OPERATION i32 gather_rows(Context* c, const Matrix* table, Object rows_object, Object out_object) {
  bool ok = true;
  const Whole rows = whole(c, rows_object, &ok);
  const Whole out = whole(c, out_object, &ok);
  const i64 count = rows.elements;
  if (!ok || (count && rows.element_bytes != 8) || out.elements != count * table->columns) {
    return kWrongShape;
  }
  const i64* numbers = (const i64*)rows.data;
  for (i64 i = 0; i < count; ++i) {
    if (numbers[i] < 0 || numbers[i] >= table->rows) return kWrongShape;
  }
  Scratch scratch(c);
  const DecodeMemory memory = take_decode_memory(c, &scratch, decode_bytes(table));
  if (!scratch.ok()) return kOutOfMemory;
  parallel(c, count, count * (200 + table->columns), [&](i64 i, i64 thread) {
    row_to_floats(table->data + numbers[i] * table->row_bytes, table->type, table->columns,
                  memory.of(thread), (float*)out.data + i * table->columns);
  });
  return kOk;
}

}  // namespace STRATUM_ISA
