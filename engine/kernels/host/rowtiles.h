// Products with small matrices whose weights were laid out anew, 16 matrix rows side by side.
//
// A lane belongs to a matrix row, so nothing is summed across lanes and nothing is decoded: with 256
// columns these are two thirds of a product in the file's own layout. A record for 16 rows and a block of
// 32 columns: eight vectors of unsigned bytes (vector v, lane m: code + 128 of columns 4 v .. 4 v + 3 of
// row m), 16 scales and, for formats with a minimum, 16 of these. int32 sums inside a block, float32 sums
// across blocks in ascending order, for any number of rows of activations. `row_tiles` lays the weights
// out. The plain twin is the matrix product of engine/ops/reference.py. For 512-bit vectors alone.
#pragma once
#include "microkernels.h"


namespace STRATUM_ISA {

struct RowTile {
  static constexpr i64 kRows = 16;
  static constexpr i64 kScales = 512;
  static constexpr i64 kMins = 576;
  static i64 count(i64 rows) { return ceil_div(rows, kRows); }  // the last one may be part empty
  // Bytes of a block of 32 columns.
  static constexpr i64 record(bool has_mins) { return has_mins ? 640 : 576; }
};

// Formats whose blocks of 32 values have one scale, and a minimum in some.
template <class Source>
constexpr bool kHasRowTiles = false;
#define STRATUM_ROW_TILES(source) \
  template <>                     \
  constexpr bool kHasRowTiles<source> = true
STRATUM_ROW_TILES(SourceQ8_0);
STRATUM_ROW_TILES(SourceQ4_0);
STRATUM_ROW_TILES(SourceQ4_1);
STRATUM_ROW_TILES(SourceQ5_0);
STRATUM_ROW_TILES(SourceQ5_1);
STRATUM_ROW_TILES(SourceQ2_0);
STRATUM_ROW_TILES(SourceIQ4_NL);
STRATUM_ROW_TILES(SourceQ4_K);

static inline bool has_row_tiles(i64 type) {
  bool has = false;
  with_source(type, [&](auto kind) { has = kHasRowTiles<typename decltype(kind)::Source>; });
  return has && !is_float(type);
}
static inline bool has_minimum(i64 type) { return type == kQ4_1 || type == kQ5_1 || type == kQ4_K; }

#if defined(STRATUM_WIDE)

static inline Ints broadcast_ints(const u8* p) {
  i32 word;
  __builtin_memcpy(&word, p, 4);
  return _mm512_set1_epi32(word);
}

// The first `valid` of 16 matrix rows times R rows of activations.
template <int R, bool kMins>
STRATUM_INLINE static void multiply_row_tile(const u8* tile, i64 blocks, const QuantisedRow* x,
                                             float* out, i64 stride, i64 valid) {
  Vec total[R];
  STRATUM_UNROLLED
  for (int r = 0; r < R; ++r) total[r] = zero();
  STRATUM_ROLLED
  for (i64 b = 0; b < blocks; ++b, tile += RowTile::record(kMins)) {
    Ints weights[8];
    STRATUM_UNROLLED
    for (int v = 0; v < 8; ++v) weights[v] = load_ints(tile + v * 64);
    const Vec scales = load((const float*)(tile + RowTile::kScales), Full{});
    const i64 in_record = b / kSuper * QuantisedRow::kRecord + lane_of(b % kSuper * 2) * 4;
    STRATUM_UNROLLED
    for (int r = 0; r < R; ++r) {
      const u8* q = x[r].memory + in_record;  // the first half's lane; the second's is four further
      Ints first = broadcast_ints(q + QuantisedRow::kBlocks), second = no_ints();
      STRATUM_UNROLLED
      for (int p = 0; p < 4; ++p) {
        first = dot_add(first, weights[p], broadcast_ints(q + p * 64));
        second = dot_add(second, weights[4 + p], broadcast_ints(q + p * 64 + 16));
      }
      const Vec d = set1(*(const float*)(q + QuantisedRow::kScales));
      total[r] = fma(to_floats(iadd(first, second)), mul(scales, d), total[r]);
      if constexpr (kMins) {
        const float* halves = (const float*)(q + QuantisedRow::kTotals);
        const Vec mins = load((const float*)(tile + RowTile::kMins), Full{});
        total[r] = fma(mins, add(set1(halves[0]), set1(halves[4])), total[r]);
      }
    }
  }
  const Part lanes = part(valid);
  STRATUM_UNROLLED
  for (int r = 0; r < R; ++r) store(out + r * stride, total[r], lanes);
}

// Lays out row m of a matrix; `row`: as decode_row leaves it.
template <class Source>
static inline void put_row(const u8* row, i64 blocks, i64 m, u8* tile) {
  constexpr int kMinus = Source::kOffset < 0 ? 0 : 1 << (Source::kOffset & 15);
  for (i64 b = 0; b < blocks; ++b, tile += RowTile::record(Source::kMins)) {
    const u8* record = row + b / kSuper * DecodedRow::kRecord;
    const i64 lane = lane_of(b % kSuper * 2);
    for (i64 j = 0; j < kBlock; ++j) {
      const i64 i = j % 16, half = (lane + j / 16 * 4) * 4;
      const i64 at = Source::kPlanes ? i % 4 * 64 + half + i / 4 : i / 4 * 64 + half + i % 4;
      tile[j / 4 * 64 + m * 4 + j % 4] = (u8)(record[at] - kMinus + 128);
    }
    ((float*)(tile + RowTile::kScales))[m] = ((const float*)(record + DecodedRow::kScales))[lane];
    if (Source::kMins) {
      ((float*)(tile + RowTile::kMins))[m] = ((const float*)(record + DecodedRow::kMins))[lane];
    }
  }
}

#endif

}  // namespace STRATUM_ISA
