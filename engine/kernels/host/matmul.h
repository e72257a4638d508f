// Matrix products: one micro-kernel for integer formats, one for float formats, and their driver.
//
// A block of weights is decoded once into registers and multiplied with up to four rows of
// activations; formats without a source are decoded once per matrix row into thread memory and
// multiplied with all rows. For a given pair (matrix row, activation row) the operations and their
// order are the same whatever else is computed: results do not depend on the number of rows.
//
// The plain twin is the matrix product of engine/ops/reference.py.
#pragma once
#include "activations.h"

namespace STRATUM_ISA {

// out[r * stride + m] for M consecutive matrix rows and R activation rows.
template <class Source, int M, int R>
static inline void multiply_units(Source* source, i64 blocks, const QuantisedRow* x, float** out) {
  Vec total[M][R];
  __m256 minimum[M][R];
  STRATUM_UNROLLED
  for (int m = 0; m < M; ++m) {
    STRATUM_UNROLLED
    for (int r = 0; r < R; ++r) {
      total[m][r] = zero();
      minimum[m][r] = _mm256_setzero_ps();
    }
  }
  for (i64 s = 0; s * kSuper < blocks; ++s) {
    const i64 here = least(kSuper, blocks - s * kSuper);
    STRATUM_UNROLLED
    for (int m = 0; m < M; ++m) source[m].super(s, here);
    for (i64 u = 0; u * kUnitBlocks < here; ++u) {
      Unit unit[M];
      STRATUM_UNROLLED
      for (int m = 0; m < M; ++m) unit[m] = source[m].unit(u, here);
      STRATUM_UNROLLED
      for (int r = 0; r < R; ++r) {
        const Ints q = load_bytes(x[r].q + s * 256 + u * kUnitBytes);
        const Vec d = spread(x[r].d + s * kSuper + u * kUnitBlocks);
        STRATUM_UNROLLED
        for (int m = 0; m < M; ++m) {
          total[m][r] = fma(to_floats(unit_dot(unit[m], q)), mul(unit[m].s, d), total[m][r]);
        }
      }
    }
    if constexpr (Source::kMins) {
      STRATUM_UNROLLED
      for (int r = 0; r < R; ++r) {
        const __m256 first = _mm256_loadu_ps(x[r].first + s * kSuper);
        const __m256 second = _mm256_loadu_ps(x[r].second + s * kSuper);
        STRATUM_UNROLLED
        for (int m = 0; m < M; ++m) {
          minimum[m][r] = _mm256_fmadd_ps(source[m].mins_first(), first, minimum[m][r]);
          minimum[m][r] = _mm256_fmadd_ps(source[m].mins_second(), second, minimum[m][r]);
        }
      }
    }
  }
  STRATUM_UNROLLED
  for (int r = 0; r < R; ++r) {
    STRATUM_UNROLLED
    for (int m = 0; m < M; ++m) {
      __m256 all = fold(total[m][r]);
      if constexpr (Source::kMins) all = _mm256_add_ps(all, minimum[m][r]);
      out[r][m] = sum8(all);
    }
  }
}

struct LoadF32 {
  const float* p;
  template <class Lanes>
  Vec at(i64 i, Lanes lanes) const {
    return load(p + i, lanes);
  }
};
struct LoadF16 {
  const u16* p;
  template <class Lanes>
  Vec at(i64 i, Lanes lanes) const {
    return load(p + i, lanes);
  }
};
struct LoadBF16 {
  const u16* p;
  template <class Lanes>
  Vec at(i64 i, Lanes lanes) const {
    return load_brain(p + i, lanes);
  }
};

template <class Source, int M, int R>
static inline void multiply_floats(const Source* w, i64 columns, const float* const* x,
                                   float** out) {
  Vec even[M][R], odd[M][R];
  STRATUM_UNROLLED
  for (int m = 0; m < M; ++m) {
    STRATUM_UNROLLED
    for (int r = 0; r < R; ++r) even[m][r] = odd[m][r] = zero();
  }
  const auto step = [&](i64 i, auto lanes, Vec(*sums)[R]) {
    Vec k[M];
    STRATUM_UNROLLED
    for (int m = 0; m < M; ++m) k[m] = w[m].at(i, lanes);
    STRATUM_UNROLLED
    for (int r = 0; r < R; ++r) {
      const Vec v = load(x[r] + i, lanes);
      STRATUM_UNROLLED
      for (int m = 0; m < M; ++m) sums[m][r] = fma(k[m], v, sums[m][r]);
    }
  };
  i64 i = 0;
  for (; i + 2 * W <= columns; i += 2 * W) {
    step(i, Full{}, even);
    step(i + W, Full{}, odd);
  }
  if (i + W <= columns) {
    step(i, Full{}, even);
    i += W;
  }
  if (i < columns) step(i, part(columns - i), odd);
  STRATUM_UNROLLED
  for (int r = 0; r < R; ++r) {
    STRATUM_UNROLLED
    for (int m = 0; m < M; ++m) out[r][m] = sum(add(even[m][r], odd[m][r]));
  }
}

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

template <class Source, int M, int R>
static inline void units_tile(const Product& p, i64 m, const QuantisedRow* x, float* const* to) {
  Source source[M];
  float* out[R];
  for (int i = 0; i < M; ++i) source[i].row = p.matrix_row(m + i);
  STRATUM_UNROLLED
  for (int r = 0; r < R; ++r) out[r] = to[r] + m;
  multiply_units<Source, M, R>(source, p.matrix->columns / kBlock, x, out);
}

template <class Source, int R>
static inline void units_rows(const Product& p, i64 from, i64 to, i64 first) {
  QuantisedRow x[R];
  float* out[R];
  STRATUM_UNROLLED
  for (int r = 0; r < R; ++r) {
    x[r] = p.rows->quantised(p.activation_row(first + r));
    out[r] = p.out + (first + r) * p.stride;
  }
  i64 m = from;
  if constexpr (R <= 2) {
    for (; m + 2 <= to; m += 2) units_tile<Source, 2, R>(p, m, x, out);
  }
  for (; m < to; ++m) units_tile<Source, 1, R>(p, m, x, out);
}

template <class Source, int M, int R>
static inline void floats_tile(const Product& p, i64 m, const float* const* x, float* const* to) {
  Source source[M];
  float* out[R];
  for (int i = 0; i < M; ++i) source[i].p = (decltype(source[i].p))p.matrix_row(m + i);
  STRATUM_UNROLLED
  for (int r = 0; r < R; ++r) out[r] = to[r] + m;
  multiply_floats<Source, M, R>(source, p.matrix->columns, x, out);
}

template <class Source, int R>
static inline void floats_rows(const Product& p, i64 from, i64 to, i64 first) {
  const float* x[R];
  float* out[R];
  STRATUM_UNROLLED
  for (int r = 0; r < R; ++r) {
    x[r] = p.rows->floats(p.activation_row(first + r));
    out[r] = p.out + (first + r) * p.stride;
  }
  // Sums in registers: even and odd ones of M * R vectors, 8 of 16 or (512-bit) 16 of 32.
  constexpr i64 M = R == 1 ? 4 : 2;
  i64 m = from;
  for (; m + M <= to; m += M) floats_tile<Source, M, R>(p, m, x, out);
  for (; m < to; ++m) floats_tile<Source, 1, R>(p, m, x, out);
}

template <int N>
struct Number {
  static constexpr int value = N;
};

// Calls f(first, Number<R>) with R = most, and less at the end, until all rows have been covered.
template <int most, class F>
static inline void by_rows(i64 count, const F& f) {
  i64 first = 0;
  for (; first + most <= count; first += most) f(first, Number<most>{});
  if constexpr (most > 3) {
    if (count - first == 3) f(first, Number<3>{});
  }
  if constexpr (most > 2) {
    if (count - first == 2) f(first, Number<2>{});
  }
  if (count - first == 1) f(first, Number<1>{});
}

template <class Source>
static inline void units_product(const Product& p, i64 from, i64 to) {
  by_rows<4>(p.count, [&](i64 first, auto rows) {
    units_rows<Source, decltype(rows)::value>(p, from, to, first);
  });
}

template <class Source>
static inline void floats_product(const Product& p, i64 from, i64 to) {
  by_rows<W == 16 ? 4 : 2>(p.count, [&](i64 first, auto rows) {
    floats_rows<Source, decltype(rows)::value>(p, from, to, first);
  });
}

STRATUM_COLD void decoded_product(const Product& p, i64 from, i64 to, u8* memory) {
  const i64 columns = p.matrix->columns;
  const DecodedRow row = DecodedRow::at(memory, columns);
  for (i64 m = from; m < to; ++m) {
    decode_row(p.matrix_row(m), p.matrix->type, columns, row);
    by_rows<4>(p.count, [&](i64 first, auto rows) {
      constexpr int R = decltype(rows)::value;
      QuantisedRow x[R];
      float* out[R];
      STRATUM_UNROLLED
      for (int r = 0; r < R; ++r) {
        x[r] = p.rows->quantised(p.activation_row(first + r));
        out[r] = p.out + (first + r) * p.stride + m;
      }
      SourceDecoded source;
      source.weights = row.weights;
      source.scale = row.scale;
      source.minimum = row.minimum;
      multiply_units<SourceDecoded, 1, R>(&source, columns / kBlock, x, out);
    });
  }
}

// Computes matrix rows from .. to-1. `memory`: DecodedRow::bytes(columns) of this thread.
STRATUM_COLD void product(const Product& p, i64 from, i64 to, u8* memory) {
  switch (p.matrix->type) {
    case kF32: return floats_product<LoadF32>(p, from, to);
    case kF16: return floats_product<LoadF16>(p, from, to);
    case kBF16: return floats_product<LoadBF16>(p, from, to);
    case kQ8_0: return units_product<SourceQ8_0>(p, from, to);
    case kQ4_K: return units_product<SourceQ4_K>(p, from, to);
    case kQ5_K: return units_product<SourceQ5_K>(p, from, to);
    case kQ6_K: return units_product<SourceQ6_K>(p, from, to);
    case kQ2_0: return units_product<SourceQ2_0>(p, from, to);
    case kIQ4_NL: return units_product<SourceIQ4_NL>(p, from, to);
    case kQ4_0: return units_product<SourceQ4_0>(p, from, to);
    default: return decoded_product(p, from, to, memory);
  }
}

// Estimated nanoseconds of multiply-adds on one thread.
static inline i64 product_ns(i64 matrix_rows, i64 columns, i64 rows) {
  return matrix_rows * columns * rows / 20;
}

// Matrix rows that one item of work computes: about 8 microseconds, and whole cache lines of output.
static inline i64 tile_rows(i64 columns, i64 rows) {
  const i64 wanted = 8000 * 20 / most(1, columns * rows);
  return most(16, wanted / 16 * 16);
}

static inline i64 decode_bytes(const Matrix* m) {
  return is_float(m->type) ? 0 : DecodedRow::bytes(m->columns);
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
    cost += product_ns(m->rows, m->columns, list[i].count);
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
static i32 matmul(Context* c, Object x_object, i64 count, const Matrix* m0, Object o0,
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

static i32 gather_rows(Context* c, const Matrix* table, Object rows_object, Object out_object) {
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
