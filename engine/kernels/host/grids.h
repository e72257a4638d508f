// The IQ formats of 256 values, as sources (see formats.h): rows of a codebook with signs and scales.
// Layouts: spec/qwen4exp.md section 8; twin: engine/gguf/blocks_iq.py. The codebooks come from Python
// (engine/ops/host_codebooks.py), which reads them from engine/gguf/codebooks.npz.
#pragma once
#include "formats.h"

extern "C" Codebooks stratum_codebooks;  // set once, before the first operation

namespace STRATUM_ISA {

static inline u32 read_word(const u8* p) {
  u32 word;
  __builtin_memcpy(&word, p, 4);
  return word;
}
static inline u32 read_short(const u8* p) {
  u16 word;
  __builtin_memcpy(&word, p, 2);
  return word;
}

// Four rows of 8 values: a block of 32.
static inline __m128d two_rows(const uint64_t* a, const uint64_t* b) {
  return _mm_loadh_pd(_mm_load_sd((const double*)a), (const double*)b);
}
static inline __m256i rows_of_8(const uint64_t* grid, u32 a, u32 b, u32 c, u32 d) {
  return _mm256_castpd_si256(
      _mm256_set_m128d(two_rows(grid + c, grid + d), two_rows(grid + a, grid + b)));
}
// Bytes of 7 sign bits to 8: the last one makes their number even.
static inline __m256i with_eighth_sign(__m256i seven) {
  const __m256i nibble = _mm256_set1_epi8(15);
  const __m256i parity = _mm256_broadcastsi128_si256(_mm_setr_epi8(
      0, -128, -128, 0, -128, 0, 0, -128, -128, 0, 0, -128, 0, -128, -128, 0));
  const __m256i low = _mm256_shuffle_epi8(parity, _mm256_and_si256(seven, nibble));
  const __m256i high =
      _mm256_shuffle_epi8(parity, _mm256_and_si256(_mm256_srli_epi16(seven, 4), nibble));
  return _mm256_xor_si256(seven, _mm256_xor_si256(low, high));
}

// d * unit * (2 s + 1) for 8 bytes s of blocks, or for 16 of halves.
static inline Vec odd_scales_of_blocks(const u8* d, float unit, uint64_t s, i64 part) {
  const __m256i odd =
      _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)(s * 2 + 0x0101010101010101ull)));
  const __m256 scale = _mm256_set1_ps(read_half(d) * unit);
  return blocks_to_lanes(_mm256_mul_ps(scale, _mm256_cvtepi32_ps(odd)), part);
}
// The same with s in the top nibbles of words.
static inline Vec odd_scales_of_words(const u8* d, float unit, __m256i words, i64 part) {
  const __m256i s = _mm256_srli_epi32(words, 28);
  const __m256i odd = _mm256_add_epi32(_mm256_add_epi32(s, s), _mm256_set1_epi32(1));
  const __m256 scale = _mm256_set1_ps(read_half(d) * unit);
  return blocks_to_lanes(_mm256_mul_ps(scale, _mm256_cvtepi32_ps(odd)), part);
}
static inline Vec odd_scales_of_halves(float d, __m128i s, i64 part) {
  const __m128i odd = _mm_add_epi8(_mm_add_epi8(s, s), _mm_set1_epi8(1));
  return mul(set1(d), halves_to_lanes(odd, part));
}
// Nibbles of 4 bytes, the low one first.
static inline uint64_t nibbles_to_bytes(uint64_t packed) {
  uint64_t s = (packed | packed << 16) & 0x0000ffff0000ffffull;
  s = (s | s << 8) & 0x00ff00ff00ff00ffull;
  return (s | s << 4) & 0x0f0f0f0f0f0f0f0full;
}
// Nibbles of 8 bytes, the low one first.
static inline __m128i nibble_pairs(const u8* p) {
  const __m128i bytes = _mm_loadl_epi64((const __m128i*)p), nibble = _mm_set1_epi8(15);
  return _mm_unpacklo_epi8(_mm_and_si128(bytes, nibble),
                           _mm_and_si128(_mm_srli_epi16(bytes, 4), nibble));
}

#if defined(STRATUM_WIDE)

#include "grids_wide.h"

#else

// Eight rows of 4 values: a block of 32.
template <class F>
static inline __m256i rows_of_4(const u32* grid, const F& index) {
  return _mm256_setr_epi32((i32)grid[index(0)], (i32)grid[index(1)], (i32)grid[index(2)],
                           (i32)grid[index(3)], (i32)grid[index(4)], (i32)grid[index(5)],
                           (i32)grid[index(6)], (i32)grid[index(7)]);
}

// The sign bits of a super, 4 bytes for each block.
struct SuperSigns {
  alignas(32) u8 bytes[32];
  void set(__m256i words) { _mm256_store_si256((__m256i*)bytes, words); }
  Bits bits(i64 u, i64 part) const {
    return bits_at({bytes + 4 * u + 16 * part});
  }
};

// Words with four codes of 7 bits at the bottom.
static inline __m256i signs_of_words(__m256i words) {
  const __m256i a = _mm256_and_si256(words, _mm256_set1_epi32(0x7f));
  const __m256i b = _mm256_and_si256(_mm256_slli_epi32(words, 1), _mm256_set1_epi32(0x7f00));
  const __m256i c = _mm256_and_si256(_mm256_slli_epi32(words, 2), _mm256_set1_epi32(0x7f0000));
  const __m256i d = _mm256_and_si256(_mm256_slli_epi32(words, 3), _mm256_set1_epi32(0x7f000000));
  return with_eighth_sign(_mm256_or_si256(_mm256_or_si256(a, b), _mm256_or_si256(c, d)));
}

// Vectors of the codebook's values of four blocks, by f(block), with their signs.
template <class F>
STRATUM_INLINE static void signed_tile(i64 part, Ints codes[4], const SuperSigns& signs, const F& f) {
  STRATUM_UNROLLED
  for (i64 u = 0; u < 4; ++u) {
    codes[u] = with_signs(f(u + 4 * part), signs.bits(u, part));
  }
  transpose(codes);
}

// d; per block four codebook rows, then four sign codes and a scale in a word
struct SourceIQ2_XXS {
  STRATUM_TRAITS(false, true, 0, 63, false);
  const u8* row;
  const u8* here;
  __m256i words;  // of the blocks
  SuperSigns signs;
  void super(i64 s, i64, u8*) {
    here = row + s * 66;
    const __m256 a = _mm256_loadu_ps((const float*)(here + 2));
    const __m256 b = _mm256_loadu_ps((const float*)(here + 34));
    const __m256i odd = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xdd));
    words = _mm256_permute4x64_epi64(odd, 0xd8);
    signs.set(signs_of_words(words));
  }
  STRATUM_INLINE void tile(i64 part, Ints codes[4]) const {
    const uint64_t* grid = stratum_codebooks.iq2_xxs;
    signed_tile(part, codes, signs, [&](i64 b) {
      const u8* q = here + 2 + 8 * b;
      return rows_of_8(grid, q[0], q[1], q[2], q[3]);
    });
  }
  Vec scales(i64 part) const { return odd_scales_of_words(here, 0.125f, words, part); }
  Vec mins(i64) const { return zero(); }
};

// d; 32 shorts: a codebook row of 9 bits and a sign code; 16 scales of 4 bits
struct SourceIQ2_XS {
  STRATUM_TRAITS(false, true, 0, 63, false);
  const u8* row;
  const u8* here;
  SuperSigns signs;
  void super(i64 s, i64, u8*) {
    here = row + s * 74;
    const __m256i a = _mm256_loadu_si256((const __m256i*)(here + 2));
    const __m256i b = _mm256_loadu_si256((const __m256i*)(here + 34));
    const __m256i seven =
        _mm256_packus_epi16(_mm256_srli_epi16(a, 9), _mm256_srli_epi16(b, 9));
    signs.set(with_eighth_sign(_mm256_permute4x64_epi64(seven, 0xd8)));
  }
  STRATUM_INLINE void tile(i64 part, Ints codes[4]) const {
    const uint64_t* grid = stratum_codebooks.iq2_xs;
    signed_tile(part, codes, signs, [&](i64 b) {
      const u8* q = here + 2 + 8 * b;
      return rows_of_8(grid, read_short(q) & 511, read_short(q + 2) & 511,
                       read_short(q + 4) & 511, read_short(q + 6) & 511);
    });
  }
  Vec scales(i64 part) const {
    return odd_scales_of_halves(read_half(here) * 0.125f, nibble_pairs(here + 66), part);
  }
  Vec mins(i64) const { return zero(); }
};

// d; qs[32]; signs[32]; qh[8] with bits 8 and 9 of the codebook rows; 16 scales of 4 bits
struct SourceIQ2_S {
  STRATUM_TRAITS(false, true, 0, 63, false);
  const u8* row;
  const u8* here;
  SuperSigns signs;
  void super(i64 s, i64, u8*) {
    here = row + s * 82;
    signs.set(_mm256_loadu_si256((const __m256i*)(here + 34)));
  }
  STRATUM_INLINE void tile(i64 part, Ints codes[4]) const {
    const uint64_t* grid = stratum_codebooks.iq2_s;
    signed_tile(part, codes, signs, [&](i64 b) {
      const u8* q = here + 2 + 4 * b;
      const u32 high = here[66 + b];
      return rows_of_8(grid, q[0] | (high << 8 & 0x300), q[1] | (high << 6 & 0x300),
                       q[2] | (high << 4 & 0x300), q[3] | (high << 2 & 0x300));
    });
  }
  Vec scales(i64 part) const {
    return odd_scales_of_halves(read_half(here) * 0.125f, nibble_pairs(here + 74), part);
  }
  Vec mins(i64) const { return zero(); }
};

// d; 64 rows of 4 values; per block a word of four sign codes and a scale
struct SourceIQ3_XXS {
  STRATUM_TRAITS(false, true, 0, 63, false);
  const u8* row;
  const u8* here;
  __m256i words;
  SuperSigns signs;
  void super(i64 s, i64, u8*) {
    here = row + s * 98;
    words = _mm256_loadu_si256((const __m256i*)(here + 66));
    signs.set(signs_of_words(words));
  }
  STRATUM_INLINE void tile(i64 part, Ints codes[4]) const {
    const u32* grid = stratum_codebooks.iq3_xxs;
    signed_tile(part, codes, signs, [&](i64 b) {
      const u8* q = here + 2 + 8 * b;
      return rows_of_4(grid, [&](int i) { return (u32)q[i]; });
    });
  }
  Vec scales(i64 part) const { return odd_scales_of_words(here, 0.25f, words, part); }
  Vec mins(i64) const { return zero(); }
};

// d; qs[64]; qh[8] with bit 8 of the rows; signs[32]; 8 scales of 4 bits
struct SourceIQ3_S {
  STRATUM_TRAITS(false, true, 0, 31, false);
  const u8* row;
  const u8* here;
  SuperSigns signs;
  void super(i64 s, i64, u8*) {
    here = row + s * 110;
    signs.set(_mm256_loadu_si256((const __m256i*)(here + 74)));
  }
  STRATUM_INLINE void tile(i64 part, Ints codes[4]) const {
    const u32* grid = stratum_codebooks.iq3_s;
    signed_tile(part, codes, signs, [&](i64 b) {
      const u8* q = here + 2 + 8 * b;
      const u32 high = here[66 + b];
      return rows_of_4(grid, [&](int i) { return q[i] | (high << (8 - i) & 0x100); });
    });
  }
  Vec scales(i64 part) const {
    return odd_scales_of_blocks(here, 1.0f, nibbles_to_bytes(read_word(here + 106)), part);
  }
  Vec mins(i64) const { return zero(); }
};

#endif

// The rows of IQ1 are -8, 0 and 8: a value is an eighth of a row's plus or minus 1.
template <class F>
STRATUM_INLINE static void tile_of_rows(i64 part, Ints codes[4], const F& f) {
  STRATUM_UNROLLED
  for (i64 u = 0; u < 4; ++u) {
#if defined(STRATUM_WIDE)
    (void)part;
    codes[u] = signed_codes(join(f(u), f(u + 4)));
#else
    codes[u] = signed_codes(f(u + 4 * part));
#endif
  }
  transpose(codes);
}

// Two shorts with four numbers of 3 bits each at the bottom, to 8 bytes.
static inline uint64_t three_bits_to_bytes(u32 shorts) {
  const uint64_t x = (uint64_t)(shorts & 0xffff) | (uint64_t)(shorts >> 16) << 32;
  uint64_t bytes = (x & 0x0000000700000007ull) | (x & 0x0000003800000038ull) << 5 |
                   (x & 0x000001c0000001c0ull) << 10 | (x & 0x00000e0000000e00ull) << 15;
  __asm__("" : "+r"(bytes));
  return bytes;
}

// d; qs[32]; per block a short: bits 8..10 of four rows, a scale of 3 bits, the sign of the shift
struct SourceIQ1_S {
  STRATUM_TRAITS(false, true, 0, 31, false);
  const u8* row;
  const u8* here;
  void super(i64 s, i64, u8*) { here = row + s * 50; }
  STRATUM_INLINE void tile(i64 part, Ints codes[4]) const {
    const uint64_t* grid = stratum_codebooks.iq1;
    tile_of_rows(part, codes, [&](i64 b) {
      const u8* q = here + 2 + 4 * b;
      const u32 high = read_short(here + 34 + 2 * b);
      const __m256i rows =
          rows_of_8(grid, q[0] | (high << 8 & 0x700), q[1] | (high << 5 & 0x700),
                    q[2] | (high << 2 & 0x700), q[3] | (high >> 1 & 0x700));
      return _mm256_add_epi8(rows, _mm256_set1_epi8(high & 0x8000 ? -1 : 1));
    });
  }
  Vec scales(i64 part) const {
    const __m128i qh = _mm_loadu_si128((const __m128i*)(here + 34));
    const __m128i s = _mm_and_si128(_mm_srli_epi16(qh, 12), _mm_set1_epi16(7));
    const uint64_t bytes = (uint64_t)_mm_cvtsi128_si64(_mm_packus_epi16(s, s));
    return odd_scales_of_blocks(here, 0.125f, bytes, part);
  }
  Vec mins(i64) const { return zero(); }
};

// qs[32]; qh[16]: per half two nibbles of bits 8..10 of a row and the sign of its shift; four shorts:
// each four scales of 3 bits, and a nibble of the float16 scale d
struct SourceIQ1_M {
  STRATUM_TRAITS(false, true, 0, 31, false);
  const u8* row;
  const u8* here;
  void super(i64 s, i64, u8*) { here = row + s * 56; }
  STRATUM_INLINE void tile(i64 part, Ints codes[4]) const {
    const uint64_t* grid = stratum_codebooks.iq1;
    tile_of_rows(part, codes, [&](i64 b) {
      const u8* q = here + 4 * b;
      const u32 high = read_short(here + 32 + 2 * b);
      const __m256i rows =
          rows_of_8(grid, q[0] | (high << 8 & 0x700), q[1] | (high << 4 & 0x700),
                    q[2] | (high & 0x700), q[3] | (high >> 4 & 0x700));
      const __m256i bit = _mm256_setr_epi64x(8, 0x80, 0x800, 0x8000);
      const __m256i clear = _mm256_cmpeq_epi64(
          _mm256_and_si256(_mm256_set1_epi64x((long long)high), bit), _mm256_setzero_si256());
      // plus 1 where the bit is clear, minus 1 elsewhere
      const __m256i shift = _mm256_sub_epi8(_mm256_set1_epi8(-1), _mm256_add_epi8(clear, clear));
      return _mm256_add_epi8(rows, shift);
    });
  }
  Vec scales(i64 part) const {
    uint64_t packed;
    __builtin_memcpy(&packed, here + 48, 8);
    const u32 d = (u32)(packed >> 12 & 0xf) | (u32)(packed >> 24 & 0xf0) |
                  (u32)(packed >> 36 & 0xf00) | (u32)(packed >> 48 & 0xf000);
    const __m128i s = _mm_set_epi64x((long long)three_bits_to_bytes((u32)(packed >> 32)),
                                     (long long)three_bits_to_bytes((u32)packed));
    return odd_scales_of_halves(half_to_float((u16)d) * 0.125f, s, part);
  }
  Vec mins(i64) const { return zero(); }
};

// d; scales: bit pairs in a short, nibbles in 4 bytes; minus 32; per block 16 bytes of nibbles that
// index a table
struct SourceIQ4_XS {
  STRATUM_TRAITS(false, true, 0, 127, false);
  const u8* row;
  const u8* here;
  void super(i64 s, i64, u8*) { here = row + s * 136; }
  STRATUM_INLINE void tile(i64 part, Ints codes[4]) const {
    const Place p = either(here + 8, here + 72, part);
    STRATUM_UNROLLED
    for (i64 u = 0; u < 4; ++u) codes[u] = iq4_codes(p + 16 * u);
    transpose(codes);
  }
  Vec scales(i64 part) const {
    const __m128i bytes = _mm_cvtsi32_si128((i32)read_word(here + 4));
    const __m128i nibble = _mm_set1_epi8(15);
    const __m128i low = _mm_unpacklo_epi8(_mm_and_si128(bytes, nibble),
                                          _mm_and_si128(_mm_srli_epi16(bytes, 4), nibble));
    const __m256i pairs =
        _mm256_and_si256(_mm256_srlv_epi32(_mm256_set1_epi32((i32)read_short(here + 2)),
                                           _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14)),
                         _mm256_set1_epi32(3));
    const __m256i s = _mm256_or_si256(_mm256_cvtepu8_epi32(low), _mm256_slli_epi32(pairs, 4));
    const __m256 scale = _mm256_cvtepi32_ps(_mm256_sub_epi32(s, _mm256_set1_epi32(32)));
    return blocks_to_lanes(_mm256_mul_ps(_mm256_set1_ps(read_half(here)), scale), part);
  }
  Vec mins(i64) const { return zero(); }
};

}  // namespace STRATUM_ISA
