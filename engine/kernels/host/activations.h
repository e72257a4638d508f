// Rows of activations as matrix products read them: floats, and 8-bit blocks made of them.
//
// A block of 32 values x has a scale d = max|x| / 127 and bytes q = round(x / d) in -127..127. They are
// laid out for tiles (bytes.h): a record for each super of 256 values, with the bytes in both orders
// and a vector each of what belongs to the 16 halves.
#pragma once
#include "grids.h"

namespace STRATUM_ISA {

// A quantised row, padded with zeros to whole supers.
struct QuantisedRow {
  static constexpr i64 kRecord = 768;  // bytes of a super
  static constexpr i64 kRuns = 0;      // q, values 4 p .. 4 p + 3 in vector p
  static constexpr i64 kPlanes = 256;  // q, values 4 k + p
  static constexpr i64 kScales = 512;  // float d of each half
  static constexpr i64 kSums = 576;    // i32: minus the sum of q
  static constexpr i64 kTotals = 640;  // float: d times the sum of q
  static constexpr i64 kBlocks = 704;  // i32: -128 times the sum of q of the half's block
  const u8* memory;
  static i64 bytes(i64 columns) { return ceil_div(columns, 256) * kRecord; }
};

// Lane of half h in a vector of 16.
static inline i64 lane_of(i64 half) { return (half / 8) * 8 + (half % 2) * 4 + half % 8 / 2; }

static inline __m256i quantised(__m256 a, __m256 b, __m256 c, __m256 d, __m256 by) {
  const __m256i i0 = _mm256_cvtps_epi32(_mm256_mul_ps(a, by));
  const __m256i i1 = _mm256_cvtps_epi32(_mm256_mul_ps(b, by));
  const __m256i i2 = _mm256_cvtps_epi32(_mm256_mul_ps(c, by));
  const __m256i i3 = _mm256_cvtps_epi32(_mm256_mul_ps(d, by));
  // The clamp matters for infinities and NaN only: -128 would saturate the AVX2 dot product.
  const __m256i packed = _mm256_max_epi8(
      _mm256_packs_epi16(_mm256_packs_epi32(i0, i1), _mm256_packs_epi32(i2, i3)),
      _mm256_set1_epi8(-127));
  return _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

// One block of 32; 256-bit code for all variants, so that their activations agree.
static inline __m256i quantise_block(const float* x, float* scale) {
  const __m256 x0 = _mm256_loadu_ps(x), x1 = _mm256_loadu_ps(x + 8);
  const __m256 x2 = _mm256_loadu_ps(x + 16), x3 = _mm256_loadu_ps(x + 24);
  // A maximum drops NaN: rows of a damaged file would become ordinary numbers, and wrong ones.
  const __m256 unordered = _mm256_or_ps(_mm256_cmp_ps(x0, x1, _CMP_UNORD_Q),
                                        _mm256_cmp_ps(x2, x3, _CMP_UNORD_Q));
  if (_mm256_movemask_ps(unordered) != 0) {
    *scale = __builtin_nanf("");
    return _mm256_setzero_si256();
  }
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
  *scale = largest > 1e-30f ? largest / 127.0f : 0.0f;
  return quantised(x0, x1, x2, x3, _mm256_set1_ps(inverse));
}

static inline void transpose4(const __m256i from[4], u8* to) {
  const __m256i a = _mm256_unpacklo_epi32(from[0], from[1]);
  const __m256i b = _mm256_unpackhi_epi32(from[0], from[1]);
  const __m256i c = _mm256_unpacklo_epi32(from[2], from[3]);
  const __m256i d = _mm256_unpackhi_epi32(from[2], from[3]);
  _mm256_storeu_si256((__m256i*)to, _mm256_unpacklo_epi64(a, c));
  _mm256_storeu_si256((__m256i*)(to + 64), _mm256_unpackhi_epi64(a, c));
  _mm256_storeu_si256((__m256i*)(to + 128), _mm256_unpacklo_epi64(b, d));
  _mm256_storeu_si256((__m256i*)(to + 192), _mm256_unpackhi_epi64(b, d));
}

// Four blocks (`count` of them exist): the halves `part` (0 or 1) of the vectors of a record.
static inline void quantise_four(const float* x, i64 count, u8* record, i64 part) {
  const __m256i byte_planes = _mm256_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15, 0,
                                               4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  __m256i runs[4], planes[4];
  alignas(16) float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  __m256i sums = _mm256_setzero_si256();  // lane 4 L + u: minus the sum of half L of block u
  for (i64 u = 0; u < 4; ++u) {
    runs[u] = u < count ? quantise_block(x + u * kBlock, d + u) : _mm256_setzero_si256();
    planes[u] = _mm256_shuffle_epi8(runs[u], byte_planes);
    // Sums of the bytes of both halves: four at a time, then across each half.
    const __m256i fours =
        _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), runs[u]), _mm256_set1_epi16(-1));
    const __m256i twos = _mm256_add_epi32(fours, _mm256_shuffle_epi32(fours, 0x4e));
    const __m256i all = _mm256_add_epi32(twos, _mm256_shuffle_epi32(twos, 0xb1));
    alignas(32) i32 mask[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    mask[u] = mask[4 + u] = -1;
    sums = _mm256_or_si256(sums, _mm256_and_si256(all, _mm256_load_si256((const __m256i*)mask)));
  }
  transpose4(runs, record + QuantisedRow::kRuns + part * 32);
  transpose4(planes, record + QuantisedRow::kPlanes + part * 32);
  const __m128 four = _mm_load_ps(d);
  const __m256 scales = _mm256_set_m128(four, four);
  const __m256 totals =
      _mm256_sub_ps(_mm256_setzero_ps(), _mm256_mul_ps(scales, _mm256_cvtepi32_ps(sums)));
  _mm256_storeu_ps((float*)(record + QuantisedRow::kScales + part * 32), scales);
  _mm256_storeu_si256((__m256i*)(record + QuantisedRow::kSums + part * 32), sums);
  _mm256_storeu_ps((float*)(record + QuantisedRow::kTotals + part * 32), totals);
  const __m256i blocks = _mm256_add_epi32(sums, _mm256_permute2x128_si256(sums, sums, 0x01));
  _mm256_storeu_si256((__m256i*)(record + QuantisedRow::kBlocks + part * 32),
                      _mm256_slli_epi32(blocks, 7));
}

STRATUM_COLD void quantise_row(const float* x, i64 columns, u8* memory) {
  const i64 blocks = columns / kBlock;
  for (i64 b = 0; b < blocks; b += kSuper) {
    u8* record = memory + b / kSuper * QuantisedRow::kRecord;
    quantise_four(x + b * kBlock, least(4, blocks - b), record, 0);
    quantise_four(x + (b + 4) * kBlock, most(0, least(4, blocks - b - 4)), record, 1);
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
  QuantisedRow quantised(i64 row) const { return {q + row * q_stride}; }
  // Those from a row on.
  Activations from(i64 row) const {
    return {x + row * x_stride, x_stride, q == nullptr ? q : q + row * q_stride, q_stride, columns};
  }
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
