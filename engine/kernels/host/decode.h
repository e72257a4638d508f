// Rows of a matrix decoded into memory as tiles: for products with many rows of activations, which
// then only load, and for reading rows of tables.
#pragma once
#include "activations.h"

namespace STRATUM_ISA {

// A decoded row: for each super a record of four vectors of codes and one each of scales and minima.
struct DecodedRow {
  static constexpr i64 kRecord = 384;
  static constexpr i64 kScales = 256;
  static constexpr i64 kMins = 320;
  static i64 bytes(i64 columns) { return ceil_div(columns, 256) * kRecord; }
};

// What a product must know of the source that a decoded row came from. Where the processor has one
// instruction for the dot product, all sources without minima are alike.
template <bool kHasMins, bool kIsSigned, int kMost>
struct SourceDecoded {
  static constexpr bool kMins = kHasMins, kSigned = kIsSigned;
  static constexpr int kLargest = kMost;
  const u8* row;
  const u8* here;
  void super(i64 s, i64, u8*) { here = row + s * DecodedRow::kRecord; }
  void tile(i64 part, Ints codes[4]) const {
    STRATUM_UNROLLED
    for (i64 p = 0; p < 4; ++p) codes[p] = load_ints(here + p * 64 + part * 32);
  }
  Vec scales(i64 part) const {
    return load((const float*)(here + DecodedRow::kScales) + part * W, Full{});
  }
  Vec mins(i64 part) const {
    return load((const float*)(here + DecodedRow::kMins) + part * W, Full{});
  }
};
#if defined(STRATUM_WIDE) || defined(STRATUM_VNNI)
template <class Source>
using DecodedAs = SourceDecoded<Source::kMins, false, 0>;
#else
template <class Source>
using DecodedAs =
    SourceDecoded<Source::kMins, Source::kSigned,
                  Source::kLargest <= 31 ? 31 : (Source::kLargest <= 63 ? 63 : 128)>;
#endif

// Decodes a row of `columns` values. `tail`: kTailBytes.
template <class Source>
STRATUM_COLD void decode_row(const u8* p, i64 columns, u8* tail, u8* to) {
  const i64 blocks = columns / kBlock;
  Source source;
  source.row = p;
  for (i64 s = 0; s * kSuper < blocks; ++s, to += DecodedRow::kRecord) {
    source.super(s, blocks - s * kSuper, tail);
    STRATUM_UNROLLED
    for (i64 part = 0; part < kParts; ++part) {
      Ints codes[4];
      source.tile(part, codes);
      STRATUM_UNROLLED
      for (i64 v = 0; v < 4; ++v) store_ints(to + v * 64 + part * 32, codes[v]);
      store((float*)(to + DecodedRow::kScales) + part * W, source.scales(part), Full{});
      if constexpr (Source::kMins) {
        store((float*)(to + DecodedRow::kMins) + part * W, source.mins(part), Full{});
      }
    }
  }
}

template <class T>
struct Kind {
  typedef T Source;
};

// Calls f(Kind<the source of a quantised type>).
template <class F>
static inline void with_source(i64 type, const F& f) {
  switch (type) {
    case kQ4_0: return f(Kind<SourceQ4_0>{});
    case kQ4_1: return f(Kind<SourceQ4_1>{});
    case kQ5_0: return f(Kind<SourceQ5_0>{});
    case kQ5_1: return f(Kind<SourceQ5_1>{});
    case kQ8_0: return f(Kind<SourceQ8_0>{});
    case kQ2_K: return f(Kind<SourceQ2_K>{});
    case kQ3_K: return f(Kind<SourceQ3_K>{});
    case kQ4_K: return f(Kind<SourceQ4_K>{});
    case kQ5_K: return f(Kind<SourceQ5_K>{});
    case kQ6_K: return f(Kind<SourceQ6_K>{});
    case kIQ2_XXS: return f(Kind<SourceIQ2_XXS>{});
    case kIQ2_XS: return f(Kind<SourceIQ2_XS>{});
    case kIQ2_S: return f(Kind<SourceIQ2_S>{});
    case kIQ3_XXS: return f(Kind<SourceIQ3_XXS>{});
    case kIQ3_S: return f(Kind<SourceIQ3_S>{});
    case kIQ1_S: return f(Kind<SourceIQ1_S>{});
    case kIQ1_M: return f(Kind<SourceIQ1_M>{});
    case kIQ4_NL: return f(Kind<SourceIQ4_NL>{});
    case kIQ4_XS: return f(Kind<SourceIQ4_XS>{});
    case kMXFP4: return f(Kind<SourceMXFP4>{});
    default: return f(Kind<SourceQ2_0>{});
  }
}

// Eight codes as floats.
template <bool kBytesAreSigned>
static inline __m256 eight_codes(__m128i codes) {
  return _mm256_cvtepi32_ps(kBytesAreSigned ? _mm256_cvtepi8_epi32(codes)
                                            : _mm256_cvtepu8_epi32(codes));
}

// The values of a decoded row.
template <class Source>
static inline void decoded_to_floats(const u8* row, i64 columns, float* out) {
  constexpr int kMinus = Source::kOffset < 0 ? 0 : 1 << (Source::kOffset & 15);
  constexpr bool kBytesAreSigned = Source::kSigned && Source::kOffset < 0;
  const __m256 minus = _mm256_set1_ps((float)kMinus);
  STRATUM_ROLLED
  for (i64 half = 0; half < columns / 16; ++half) {
    const u8* record = row + half / 16 * DecodedRow::kRecord;
    const i64 lane = lane_of(half % 16);
    const __m256 scale = _mm256_set1_ps(((const float*)(record + DecodedRow::kScales))[lane]);
    i32 words[4];
    STRATUM_UNROLLED
    for (int v = 0; v < 4; ++v) __builtin_memcpy(words + v, record + v * 64 + lane * 4, 4);
    __m128i codes = _mm_setr_epi32(words[0], words[1], words[2], words[3]);
    if constexpr (Source::kPlanes) {
      const __m128i turned = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
      codes = _mm_shuffle_epi8(codes, turned);
    }
    STRATUM_UNROLLED
    for (int part = 0; part < 2; ++part) {
      const __m256 code = eight_codes<kBytesAreSigned>(part ? _mm_srli_si128(codes, 8) : codes);
      __m256 value = _mm256_mul_ps(scale, _mm256_sub_ps(code, minus));
      if constexpr (Source::kMins) {
        const float minimum = ((const float*)(record + DecodedRow::kMins))[lane];
        value = _mm256_add_ps(value, _mm256_set1_ps(minimum));
      }
      _mm256_storeu_ps(out + half * 16 + part * 8, value);
    }
  }
}

// Memory of a thread: decoded rows, and the tail of a source.
static inline i64 rows_to_decode(i64 columns) {
  return most(4, least(16, (128 << 10) / DecodedRow::bytes(columns) / 4 * 4));
}
static inline i64 decode_bytes_of(i64 columns) {
  return rows_to_decode(columns) * DecodedRow::bytes(columns) + 4 * kTailBytes;
}

// The row as floats. `memory` holds decode_bytes_of(columns); unused for float types.
STRATUM_COLD void row_to_floats(const u8* p, i64 type, i64 columns, u8* memory, float* out) {
  if (type == kF32) {
    __builtin_memcpy(out, p, (size_t)columns * 4);
    return;
  }
  if (type == kF16 || type == kBF16) {
    const u16* halves = (const u16*)p;
    each_vector(columns, [&](i64 i, auto lanes) {
      store(out + i, type == kF16 ? load(halves + i, lanes) : load_brain(halves + i, lanes), lanes);
    });
    return;
  }
  with_source(type, [&](auto kind) {
    typedef typename decltype(kind)::Source Source;
    u8* row = memory + 4 * kTailBytes;
    decode_row<Source>(p, columns, memory, row);
    decoded_to_floats<Source>(row, columns, out);
  });
}

}  // namespace STRATUM_ISA
