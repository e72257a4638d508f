// Rows of activations as matrix products read them: floats, and 8-bit blocks made of them.
//
// A block of 32 values x has a scale d = max|x| / 127 and bytes q = round(x / d) in -127..127. Beside
// them lie d * sum(q) of the first and of the second 16 values, for formats with a minimum.
#pragma once
#include "decode.h"

namespace STRATUM_ISA {

// A quantised row, padded with zeros to whole supers of 256 values.
struct QuantisedRow {
  const u8* q;           // [supers, 256]
  const float* d;        // [supers, 8]
  const float* first;    // [supers, 8]
  const float* second;   // [supers, 8]
  static i64 bytes(i64 columns) { return ceil_div(columns, 256) * (256 + 3 * 32); }
  static QuantisedRow at(const u8* memory, i64 columns) {
    const i64 supers = ceil_div(columns, 256);
    const float* floats = (const float*)(memory + supers * 256);
    return {memory, floats, floats + supers * 8, floats + supers * 16};
  }
};

static inline i32 sum8(__m256i v) {
  __m128i x = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  x = _mm_add_epi32(x, _mm_shuffle_epi32(x, 0x4e));
  x = _mm_add_epi32(x, _mm_shuffle_epi32(x, 0xb1));
  return _mm_cvtsi128_si32(x);
}

// One block of 32; 256-bit code for all variants, so that their activations agree.
static inline void quantise_block(const float* x, u8* q, float* d, float* first, float* second) {
  const __m256 x0 = _mm256_loadu_ps(x), x1 = _mm256_loadu_ps(x + 8);
  const __m256 x2 = _mm256_loadu_ps(x + 16), x3 = _mm256_loadu_ps(x + 24);
  const __m256 sign = _mm256_set1_ps(-0.0f);
  const __m256 m = _mm256_max_ps(
      _mm256_max_ps(_mm256_andnot_ps(sign, x0), _mm256_andnot_ps(sign, x1)),
      _mm256_max_ps(_mm256_andnot_ps(sign, x2), _mm256_andnot_ps(sign, x3)));
  __m128 top = _mm_max_ps(_mm256_castps256_ps128(m), _mm256_extractf128_ps(m, 1));
  top = _mm_max_ps(top, _mm_movehl_ps(top, top));
  top = _mm_max_ss(top, _mm_movehdup_ps(top));
  const float largest = _mm_cvtss_f32(top);
  // Below 1e-30 the inverse would leave float32; such a block is zero beside all others.
  const float inverse = largest > 1e-30f ? 127.0f / largest : 0.0f;
  const float scale = largest > 1e-30f ? largest / 127.0f : 0.0f;
  const __m256 by = _mm256_set1_ps(inverse);
  const __m256i i0 = _mm256_cvtps_epi32(_mm256_mul_ps(x0, by));
  const __m256i i1 = _mm256_cvtps_epi32(_mm256_mul_ps(x1, by));
  const __m256i i2 = _mm256_cvtps_epi32(_mm256_mul_ps(x2, by));
  const __m256i i3 = _mm256_cvtps_epi32(_mm256_mul_ps(x3, by));
  // The clamp matters for infinities and NaN only: -128 would saturate the AVX2 dot product.
  const __m256i a = _mm256_packs_epi32(i0, i1), b = _mm256_packs_epi32(i2, i3);
  const __m256i packed = _mm256_max_epi8(_mm256_packs_epi16(a, b), _mm256_set1_epi8(-127));
  const __m256i ordered =
      _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  _mm256_storeu_si256((__m256i*)q,
                      _mm256_xor_si256(ordered, _mm256_set1_epi8((char)kActivationZero)));
  const i32 sum_first = sum8(_mm256_add_epi32(i0, i1));
  const i32 sum_second = sum8(_mm256_add_epi32(i2, i3));
  *d = scale;
  *first = scale * (float)sum_first;
  *second = scale * (float)sum_second;
}

STRATUM_COLD void quantise_row(const float* x, i64 columns, u8* memory) {
  const QuantisedRow row = QuantisedRow::at(memory, columns);
  const i64 blocks = columns / kBlock, padded = ceil_div(columns, 256) * kSuper;
  u8* q = (u8*)row.q;
  float *d = (float*)row.d, *first = (float*)row.first, *second = (float*)row.second;
  for (i64 b = 0; b < blocks; ++b) {
    quantise_block(x + b * kBlock, q + b * kBlock, d + b, first + b, second + b);
  }
  for (i64 b = blocks; b < padded; ++b) {
    __builtin_memset(q + b * kBlock, kActivationZero, kBlock);
    d[b] = first[b] = second[b] = 0.0f;
  }
}

static inline bool is_float(i64 type) { return type == kF32 || type == kF16 || type == kBF16; }

// The rows that a matrix product reads; `q` is null while no matrix of the call is quantised.
struct Activations {
  const float* x;
  i64 x_stride;
  u8* q;
  i64 q_stride;
  i64 columns;
  const float* floats(i64 row) const { return x + row * x_stride; }
  QuantisedRow quantised(i64 row) const { return QuantisedRow::at(q + row * q_stride, columns); }
};

static inline Activations activations(const float* x, i64 stride, i64 columns) {
  return {x, stride, nullptr, 0, columns};
}

// Takes the memory for the quantised rows; quantise_all or quantise_row fill it.
static inline void take_quantised(Scratch* scratch, Activations* rows, i64 count) {
  rows->q_stride = QuantisedRow::bytes(rows->columns);
  rows->q = scratch->take<u8>(count * rows->q_stride);
}

static inline void quantise_all(Context* c, const Activations& rows, i64 count) {
  parallel(c, count, count * rows.columns / 4, [&](i64 r, i64) {
    quantise_row(rows.floats(r), rows.columns, rows.q + r * rows.q_stride);
  });
}

}  // namespace STRATUM_ISA
