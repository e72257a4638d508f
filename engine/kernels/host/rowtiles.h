// Products with small matrices whose weights were laid out anew, 16 matrix rows side by side.
//
// A lane belongs to a matrix row, so nothing is summed across lanes and nothing is decoded: with 256
// columns these are two thirds of a product in the file's own layout. A record for 16 rows and a block of
// 32 columns: eight vectors of unsigned bytes (vector v, lane m: value + 128 of columns 4 v .. 4 v + 3 of
// row m), 16 scales and, for formats with a minimum, 16 of these. Formats of 4 bits have four vectors, of
// which v holds the codes of vectors v (low nibbles) and v + 4: experts are read from the third-level
// cache, whose bandwidth bounds them. int32 sums inside a block, float32 sums across blocks in ascending
// order, for any number of rows of activations. `row_tiles` lays the weights out. The plain twin is the
// matrix product of engine/ops/reference.py. For 512-bit vectors alone.
#pragma once
#include "microkernels.h"


namespace STRATUM_ISA {

// How a tile holds its weights.
enum class TileCodes {
  kBytes,     // value + 128
  kNibbles,   // value
  kNibbles8,  // value + 8
  kIQ4        // number in the table of values
};
static constexpr TileCodes tile_codes(i64 type) {
  return type == kQ4_1 || type == kQ4_K ? TileCodes::kNibbles
         : type == kQ4_0                ? TileCodes::kNibbles8
         : type == kIQ4_NL              ? TileCodes::kIQ4
                                        : TileCodes::kBytes;
}

struct RowTile {
  static constexpr i64 kRows = 16;
  static i64 count(i64 rows) { return ceil_div(rows, kRows); }  // the last one may be part empty
  // Bytes of the codes of a block of 32 columns, which the scales follow, and the minima; and of it all.
  static constexpr i64 codes(TileCodes kind) { return kind == TileCodes::kBytes ? 512 : 256; }
  static constexpr i64 record(TileCodes kind, bool has_mins) {
    return codes(kind) + (has_mins ? 128 : 64);
  }
};

// Formats whose blocks of 32 values have one scale, and a minimum in some; as tile_codes says.
template <class Source>
constexpr bool kHasRowTiles = false;
template <class Source>
constexpr TileCodes kCodesOf = TileCodes::kBytes;
#define STRATUM_ROW_TILES(source, codes)    \
  template <>                               \
  constexpr bool kHasRowTiles<source> = true; \
  template <>                               \
  constexpr TileCodes kCodesOf<source> = TileCodes::codes
STRATUM_ROW_TILES(SourceQ8_0, kBytes);
STRATUM_ROW_TILES(SourceQ4_0, kNibbles8);
STRATUM_ROW_TILES(SourceQ4_1, kNibbles);
STRATUM_ROW_TILES(SourceQ5_0, kBytes);
STRATUM_ROW_TILES(SourceQ5_1, kBytes);
STRATUM_ROW_TILES(SourceQ2_0, kBytes);
STRATUM_ROW_TILES(SourceIQ4_NL, kIQ4);
STRATUM_ROW_TILES(SourceQ4_K, kNibbles);

static inline bool has_row_tiles(i64 type) {
  bool has = false;
  with_source(type, [&](auto kind) { has = kHasRowTiles<typename decltype(kind)::Source>; });
  return has && !is_float(type);
}
static inline bool has_minimum(i64 type) { return type == kQ4_1 || type == kQ5_1 || type == kQ4_K; }
static inline i64 row_tile_bytes(const Matrix* m) {  // of 16 rows
  return m->columns / kBlock * RowTile::record(tile_codes(m->type), has_minimum(m->type));
}

#if defined(STRATUM_WIDE)

static inline Ints broadcast_ints(const u8* p) {
  i32 word;
  __builtin_memcpy(&word, p, 4);
  return _mm512_set1_epi32(word);
}

// The eight vectors of codes of a record.
template <TileCodes kCodes>
STRATUM_INLINE static void load_codes(const u8* tile, Ints weights[8]) {
  STRATUM_UNROLLED
  for (int v = 0; v < 4; ++v) {
    const Ints codes = load_ints(tile + v * 64);
    if constexpr (kCodes == TileCodes::kBytes) {
      weights[v] = codes;
      weights[4 + v] = load_ints(tile + 256 + v * 64);
    } else {
      weights[v] = iand(codes, bytes1(15));
      weights[4 + v] = iand(shr<4>(codes), bytes1(15));
    }
    if constexpr (kCodes == TileCodes::kIQ4) {
      const __m128i table = _mm_xor_si128(iq4_values(), _mm_set1_epi8((char)0x80));
      weights[v] = look_up(table, weights[v]);
      weights[4 + v] = look_up(table, weights[4 + v]);
    }
  }
}

// The first `valid` of 16 matrix rows times R rows of activations.
template <int R, TileCodes kCodes, bool kMins>
STRATUM_INLINE static void multiply_row_tile(const u8* tile, i64 blocks, const QuantisedRow* x,
                                             float* out, i64 stride, i64 valid) {
  constexpr i64 kScales = RowTile::codes(kCodes);
  Vec total[R];
  STRATUM_UNROLLED
  for (int r = 0; r < R; ++r) total[r] = zero();
  STRATUM_ROLLED
  for (i64 b = 0; b < blocks; ++b, tile += RowTile::record(kCodes, kMins)) {
    Ints weights[8];
    load_codes<kCodes>(tile, weights);
    const Vec scales = load((const float*)(tile + kScales), Full{});
    const i64 in_record = b / kSuper * QuantisedRow::kRecord + lane_of(b % kSuper * 2) * 4;
    STRATUM_UNROLLED
    for (int r = 0; r < R; ++r) {
      const u8* q = x[r].memory + in_record;  // the first half's lane; the second's is four further
      Ints first = no_ints(), second = no_ints();  // less the offset times the block's sum
      if constexpr (kCodes != TileCodes::kNibbles) first = broadcast_ints(q + QuantisedRow::kBlocks);
      if constexpr (kCodes == TileCodes::kNibbles8) first = _mm512_srai_epi32(first, 4);
      STRATUM_UNROLLED
      for (int p = 0; p < 4; ++p) {
        first = dot_add(first, weights[p], broadcast_ints(q + p * 64));
        second = dot_add(second, weights[4 + p], broadcast_ints(q + p * 64 + 16));
      }
      const Vec d = set1(*(const float*)(q + QuantisedRow::kScales));
      total[r] = fma(to_floats(iadd(first, second)), mul(scales, d), total[r]);
      if constexpr (kMins) {
        const float* halves = (const float*)(q + QuantisedRow::kTotals);
        const Vec mins = load((const float*)(tile + kScales + 64), Full{});
        total[r] = fma(mins, add(set1(halves[0]), set1(halves[4])), total[r]);
      }
    }
  }
  const Part lanes = part(valid);
  STRATUM_UNROLLED
  for (int r = 0; r < R; ++r) store(out + r * stride, total[r], lanes);
}

// What a tile of 4 bits holds for a decoded code.
template <TileCodes kCodes>
static inline u8 nibble_of(u8 code) {
  if (kCodes != TileCodes::kIQ4) return code;
  alignas(16) signed char values[16];
  _mm_store_si128((__m128i*)values, iq4_values());
  u8 n = 0;
  while (n < 15 && (u8)(values[n] + 128) != code) ++n;
  return n;
}

// Lays out row m of a matrix; `row`: as decode_row leaves it.
template <class Source, TileCodes kCodes>
static inline void put_row(const u8* row, i64 blocks, i64 m, u8* tile) {
  constexpr int kMinus = Source::kOffset < 0 ? 0 : 1 << (Source::kOffset & 15);
  constexpr i64 kScales = RowTile::codes(kCodes);
  for (i64 b = 0; b < blocks; ++b, tile += RowTile::record(kCodes, Source::kMins)) {
    const u8* record = row + b / kSuper * DecodedRow::kRecord;
    const i64 lane = lane_of(b % kSuper * 2);
    for (i64 j = 0; j < kBlock; ++j) {
      const i64 i = j % 16, half = (lane + j / 16 * 4) * 4;
      const u8 code = record[Source::kPlanes ? i % 4 * 64 + half + i / 4 : i / 4 * 64 + half + i % 4];
      const i64 at = m * 4 + j % 4;
      if constexpr (kCodes == TileCodes::kBytes) {
        tile[j / 4 * 64 + at] = (u8)(code - kMinus + 128);
      } else {
        u8* to = tile + j / 4 % 4 * 64 + at;
        const u8 nibble = nibble_of<kCodes>(code);
        *to = j < 16 ? nibble : (u8)(*to | nibble << 4);
      }
    }
    ((float*)(tile + kScales))[m] = ((const float*)(record + DecodedRow::kScales))[lane];
    if (Source::kMins) {
      ((float*)(tile + kScales + 64))[m] = ((const float*)(record + DecodedRow::kMins))[lane];
    }
  }
}

#endif

}  // namespace STRATUM_ISA
