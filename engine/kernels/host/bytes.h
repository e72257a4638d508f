// Vectors of bytes as block formats need them, and the order in which codes and activations meet.
//
// A *super* is 256 values of a row, 16 halves of 16 values: blocks b = 0..7 of 32, halves 2 b and
// 2 b + 1. It is multiplied as a *tile* of four vectors: 32-bit lane 4 L + u holds values of one half
//   block u + 4 (L / 2), half L % 2       (lanes 0..15; a 256-bit variant has lanes 0..7, blocks 0..3,
//                                          in part 0 of a super and blocks 4..7 in part 1)
// and vector p four values of each half, so that four dot products with bytes leave the sums of the
// 16 halves side by side: scales, offsets and minima are vectors too, and nothing is summed across
// lanes before the row ends. Which four: values 4 p .. 4 p + 3 of a half, or 4 k + p, k = 0..3, for
// formats that lie in planes of 2 bits. Those come in this order by themselves; the others pay the
// eight shuffles of `transpose` for 256 weights.
#pragma once
#include "functions.h"

namespace STRATUM_ISA {

constexpr i64 kBlock = 32;       // values of an activation block
constexpr i64 kSuper = 8;        // blocks of a super
constexpr i64 kParts = 16 / W;   // vectors that hold one value for each half of a super


// Where a vector's bytes come from: those of blocks 0..3 and of blocks 4..7.
#if defined(STRATUM_WIDE)
struct Place {
  const u8 *near, *far;
  Place operator+(i64 n) const { return {near + n, far + n}; }
};
static inline Place either(const u8* near, const u8* far, i64) { return {near, far}; }
#else
struct Place {
  const u8* at;
  Place operator+(i64 n) const { return {at + n}; }
};
static inline Place either(const u8* near, const u8* far, i64 part) { return {part ? far : near}; }
#endif

#if defined(STRATUM_WIDE)

static inline Ints join(__m256i low, __m256i high) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}
static inline Ints load_ints(const void* p) { return _mm512_loadu_si512(p); }
static inline void store_ints(void* p, Ints v) { _mm512_storeu_si512(p, v); }
static inline Ints no_ints() { return _mm512_setzero_si512(); }
static inline Ints bytes1(int x) { return _mm512_set1_epi8((char)x); }
template <int n>
static inline Ints shr(Ints a) { return n ? _mm512_srli_epi16(a, n) : a; }
template <int n>
static inline Ints shl(Ints a) { return n ? _mm512_slli_epi16(a, n) : a; }
static inline Ints bxor(Ints a, Ints b) { return _mm512_xor_si512(a, b); }
static inline Ints add_bytes(Ints a, Ints b) { return _mm512_add_epi8(a, b); }
static inline Ints scaled_by_2(Ints a, int n) { return _mm512_sll_epi32(a, _mm_cvtsi32_si128(n)); }
static inline Ints look_up(__m128i table, Ints at) {
  return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), at);
}
static inline Ints load32(Place p) {
  return join(_mm256_loadu_si256((const __m256i*)p.near), _mm256_loadu_si256((const __m256i*)p.far));
}
// 16 bytes of each block, twice.
static inline Ints load16_twice(Place p) {
  const Ints near = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i*)p.near));
  return _mm512_mask_broadcast_i32x4(near, 0xff00, _mm_loadu_si128((const __m128i*)p.far));
}
// Low nibbles for the first halves of blocks, high ones for the second.
static inline Ints nibbles_of(Ints twice) {
  const Ints shift = _mm512_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4, 0, 0, 0, 0, 4, 4, 4, 4);
  return iand(_mm512_srlv_epi32(twice, shift), bytes1(15));
}
// 32 bits of each block.
typedef __mmask64 Bits;
static inline Bits bits_at(Place p) {
  u32 near, far;
  __builtin_memcpy(&near, p.near, 4);
  __builtin_memcpy(&far, p.far, 4);
  return (Bits)near | (Bits)far << 32;
}
static inline Ints or_where(Bits bits, Ints a, int value) {
  return _mm512_mask_add_epi8(a, bits, a, bytes1(value));  // the bit of `value` is clear in a
}
// Dword q of each 128 bits in all four dwords, each shifted right: by 0, step, 2 step, 3 step.
template <int q, int step>
static inline Ints spread_dword(Ints a) {
  const Ints shift = _mm512_broadcast_i32x4(_mm_setr_epi32(0, step, 2 * step, 3 * step));
  return _mm512_srlv_epi32(_mm512_shuffle_epi32(a, (_MM_PERM_ENUM)(q * 0x55)), shift);
}
static inline void transpose(Ints t[4]) {
  const Ints a = _mm512_unpacklo_epi32(t[0], t[1]), b = _mm512_unpackhi_epi32(t[0], t[1]);
  const Ints c = _mm512_unpacklo_epi32(t[2], t[3]), d = _mm512_unpackhi_epi32(t[2], t[3]);
  t[0] = _mm512_unpacklo_epi64(a, c);
  t[1] = _mm512_unpackhi_epi64(a, c);
  t[2] = _mm512_unpacklo_epi64(b, d);
  t[3] = _mm512_unpackhi_epi64(b, d);
}
// Dword h of a super in natural order of halves to the lane of half h.
static inline Ints halves_to_lanes(Ints a) {
  const Ints order = _mm512_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
  return _mm512_permutexvar_epi32(order, a);
}

// One float for each block, or signed byte for each half, to all lanes.
static inline Vec blocks_to_lanes(__m256 blocks, i64) {
  const Vec v = _mm512_castps256_ps512(blocks);
  return _mm512_shuffle_f32x4(v, v, 0x50);
}
static inline Vec halves_to_lanes(__m128i halves, i64) {
  const __m128i order = _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
  return to_floats(_mm512_cvtepi8_epi32(_mm_shuffle_epi8(halves, order)));
}

#else

static inline Ints load_ints(const void* p) { return _mm256_loadu_si256((const __m256i*)p); }
static inline void store_ints(void* p, Ints v) { _mm256_storeu_si256((__m256i*)p, v); }
static inline Ints no_ints() { return _mm256_setzero_si256(); }
static inline Ints bytes1(int x) { return _mm256_set1_epi8((char)x); }
template <int n>
static inline Ints shr(Ints a) { return n ? _mm256_srli_epi16(a, n) : a; }
template <int n>
static inline Ints shl(Ints a) { return n ? _mm256_slli_epi16(a, n) : a; }
static inline Ints bxor(Ints a, Ints b) { return _mm256_xor_si256(a, b); }
static inline Ints add_bytes(Ints a, Ints b) { return _mm256_add_epi8(a, b); }
static inline Ints scaled_by_2(Ints a, int n) { return _mm256_sll_epi32(a, _mm_cvtsi32_si128(n)); }
static inline Ints look_up(__m128i table, Ints at) {
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), at);
}
static inline Ints load32(Place p) { return _mm256_loadu_si256((const __m256i*)p.at); }
static inline Ints load16_twice(Place p) {
  return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i*)p.at));
}
static inline Ints nibbles_of(Ints twice) {
  const Ints shift = _mm256_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4);
  return iand(_mm256_srlv_epi32(twice, shift), bytes1(15));
}
typedef __m256i Bits;  // all bits of a byte set or clear
static inline Bits bits_at(Place p) {
  i32 word;
  __builtin_memcpy(&word, p.at, 4);
  const __m256i byte = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2,
                                        2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
  const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201ull);
  const __m256i spread = _mm256_shuffle_epi8(_mm256_set1_epi32(word), byte);
  return _mm256_cmpeq_epi8(_mm256_and_si256(spread, bit), bit);
}
static inline Ints or_where(Bits bits, Ints a, int value) {
  return ior(a, iand(bits, bytes1(value)));
}
template <int q, int step>
static inline Ints spread_dword(Ints a) {
  const Ints shift = _mm256_setr_epi32(0, step, 2 * step, 3 * step, 0, step, 2 * step, 3 * step);
  return _mm256_srlv_epi32(_mm256_shuffle_epi32(a, q * 0x55), shift);
}
static inline void transpose(Ints t[4]) {
  const Ints a = _mm256_unpacklo_epi32(t[0], t[1]), b = _mm256_unpackhi_epi32(t[0], t[1]);
  const Ints c = _mm256_unpacklo_epi32(t[2], t[3]), d = _mm256_unpackhi_epi32(t[2], t[3]);
  t[0] = _mm256_unpacklo_epi64(a, c);
  t[1] = _mm256_unpackhi_epi64(a, c);
  t[2] = _mm256_unpacklo_epi64(b, d);
  t[3] = _mm256_unpackhi_epi64(b, d);
}
static inline Ints halves_to_lanes(Ints a) {
  return _mm256_permutevar8x32_epi32(a, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7));
}
static inline Vec blocks_to_lanes(__m256 blocks, i64 part) {
  return part ? _mm256_permute2f128_ps(blocks, blocks, 0x11)
              : _mm256_permute2f128_ps(blocks, blocks, 0x00);
}
static inline Vec halves_to_lanes(__m128i halves, i64 part) {
  const __m128i order = _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
  const __m128i lanes = _mm_shuffle_epi8(halves, order);
  return to_floats(_mm256_cvtepi8_epi32(part ? _mm_srli_si128(lanes, 8) : lanes));
}

#endif

// -- dot products --------------------------------------------------------------------------------
// Codes are unsigned bytes, a value is code - offset; `sums` comes in as - offset times the sums of
// the activations. Codes of *signed* formats are the values plus 128 where the processor multiplies
// unsigned by signed bytes in one step, and the values themselves for AVX2, whose 16-bit sums would
// saturate: there |value| meets activations with the value's sign.

#if defined(STRATUM_WIDE)
static inline Ints dot_add(Ints sum, Ints u, Ints s) { return _mm512_dpbusd_epi32(sum, u, s); }
#elif defined(STRATUM_VNNI_BY_AVX512)  // tests on machines without AVX-VNNI
static inline Ints dot_add(Ints sum, Ints u, Ints s) { return _mm256_dpbusd_epi32(sum, u, s); }
#elif defined(STRATUM_VNNI)
static inline Ints dot_add(Ints sum, Ints u, Ints s) { return _mm256_dpbusd_avx_epi32(sum, u, s); }
#endif

#if defined(STRATUM_WIDE) || defined(STRATUM_VNNI)

constexpr int kSignedShift = 7;  // codes of signed formats are values + 2^7
static inline Ints signed_codes(Ints a) { return bxor(a, bytes1(0x80)); }

template <bool kSigned, int kLargest>
static inline Ints dot4(Ints sum, const Ints codes[4], const u8* q) {
  sum = dot_add(sum, codes[0], load_ints(q));
  sum = dot_add(sum, codes[1], load_ints(q + 64));
  sum = dot_add(sum, codes[2], load_ints(q + 128));
  return dot_add(sum, codes[3], load_ints(q + 192));
}

#else

constexpr int kSignedShift = -1;  // no offset
static inline Ints signed_codes(Ints a) { return a; }

// Pairs are at most 2 * 127 * largest: 32512 for a value of -128, so that one never saturates; two
// may be added in 16 bits up to 63, four up to 31. Activations are never -128.
template <bool kSigned>
static inline Ints pairs(Ints codes, Ints q) {
  if constexpr (kSigned) {
    return _mm256_maddubs_epi16(_mm256_abs_epi8(codes), _mm256_sign_epi8(q, codes));
  }
  return _mm256_maddubs_epi16(codes, q);
}
template <bool kSigned, int kLargest>
static inline Ints dot4(Ints sum, const Ints codes[4], const u8* q) {
  const Ints one = _mm256_set1_epi16(1);
  const Ints a = pairs<kSigned>(codes[0], load_ints(q));
  const Ints b = pairs<kSigned>(codes[1], load_ints(q + 64));
  const Ints c = pairs<kSigned>(codes[2], load_ints(q + 128));
  const Ints d = pairs<kSigned>(codes[3], load_ints(q + 192));
  if constexpr (kLargest <= 31) {
    const Ints all = _mm256_add_epi16(_mm256_add_epi16(a, b), _mm256_add_epi16(c, d));
    return iadd(sum, _mm256_madd_epi16(all, one));
  } else if constexpr (kLargest <= 63) {
    const Ints ab = _mm256_madd_epi16(_mm256_add_epi16(a, b), one);
    return iadd(sum, iadd(ab, _mm256_madd_epi16(_mm256_add_epi16(c, d), one)));
  } else {
    const Ints ab = iadd(_mm256_madd_epi16(a, one), _mm256_madd_epi16(b, one));
    return iadd(sum, iadd(ab, iadd(_mm256_madd_epi16(c, one), _mm256_madd_epi16(d, one))));
  }
}

#endif

#if !defined(STRATUM_WIDE)
// Magnitudes below 128 with the signs of `minus`, as signed codes.
static inline Ints with_signs(Ints magnitudes, Bits minus) {
  return signed_codes(_mm256_sub_epi8(bxor(magnitudes, minus), minus));
}
#endif

}  // namespace STRATUM_ISA
