// Block formats of 32 and 64 values, and the K formats of 256, as tiles of codes (see bytes.h; layouts:
// spec/qwen4exp.md section 8; the IQ formats are in grids.h).
//
// A *source* turns the bytes of one matrix row into tiles:
//   super(s, blocks, tail)  prepares super s, of which `blocks` blocks exist; `tail`: kTailBytes
//   tile(part, codes)       four vectors of codes
//   scales(part)            of each lane; mins(part) is added to each value where kMins
//   kSigned, kOffset        value = code - 2^kOffset, no offset where kOffset is negative; signed
//                           formats: see `dot4`
//   kLargest                code, or |value| of a signed format
//   kPlanes                 vector p has values 4 k + p of each half, not 4 p + k
// The plain twin is engine/gguf/blocks.py.
#pragma once
#include "bytes.h"

namespace STRATUM_ISA {

constexpr i64 kTailBytes = 320;  // of memory for a super that the row does not fill
alignas(64) static const u8 kNoBlocks[192] = {0};

// Where the blocks of a super lie. What is missing of it is zero, and so is then its scale.
struct SuperPlace {
  const u8 *near, *far;
  Place at(i64 part) const { return either(near, far, part); }
};
static inline SuperPlace place_super(const u8* row, i64 s, i64 blocks, i64 block_bytes,
                                     i64 blocks_each, u8* tail) {
  const i64 half = 4 / blocks_each * block_bytes;
  const u8* here = row + s * 2 * half;
  if (__builtin_expect(blocks >= kSuper, 1)) return {here, here + half};
  if (blocks == 4) return {here, kNoBlocks};
  __builtin_memset(tail, 0, kTailBytes);
  __builtin_memcpy(tail, here, (size_t)(blocks / blocks_each * block_bytes));
  return {tail, tail + half};
}

// A super as it lies there, though the row may end inside of it: what follows is another row's.
static inline SuperPlace open_super(const u8* row, i64 s, i64 block_bytes, i64 blocks_each) {
  const i64 half = 4 / blocks_each * block_bytes;
  const u8* here = row + s * 2 * half;
  return {here, here + half};
}

// float16 numbers of four blocks, `stride` bytes apart. Joined in a general register: compilers would
// rather insert each into a vector, on the ports that the decoding needs.
static inline uint64_t four_halves(const u8* p, i64 stride) {
  u16 h[4];
  for (int i = 0; i < 4; ++i) __builtin_memcpy(h + i, p + i * stride, 2);
  uint64_t all = (uint64_t)h[0] | (uint64_t)h[1] << 16 | (uint64_t)h[2] << 32 | (uint64_t)h[3] << 48;
  __asm__("" : "+r"(all));
  return all;
}

// Their values in the lanes of the blocks.
static inline Vec halves_of_blocks(Place p, i64 stride) {
#if defined(STRATUM_WIDE)
  const __m128i eight = _mm_set_epi64x((long long)four_halves(p.far, stride),
                                       (long long)four_halves(p.near, stride));
  return blocks_to_lanes(_mm256_cvtph_ps(eight), 0);
#else
  const __m128 four = _mm_cvtph_ps(_mm_cvtsi64_si128((long long)four_halves(p.at, stride)));
  return _mm256_set_m128(four, four);
#endif
}

// A float for each block by f(address of four blocks).
template <class F>
static inline Vec scales_by(Place p, const F& f) {
#if defined(STRATUM_WIDE)
  return blocks_to_lanes(_mm256_set_m128(f(p.far), f(p.near)), 0);
#else
  const __m128 four = f(p.at);
  return _mm256_set_m128(four, four);
#endif
}

#define STRATUM_TRAITS(mins, is_signed, offset, largest, planes) \
  static constexpr bool kMins = mins, kSigned = is_signed, kPlanes = planes; \
  static constexpr int kOffset = is_signed ? kSignedShift : offset, kLargest = largest

// Blocks of 32 values: a float16 scale, maybe a minimum and fifth bits, then codes.
// d; 32 signed bytes
struct LayoutQ8_0 {
  STRATUM_TRAITS(false, true, 0, 128, false);
  static constexpr i64 kBytes = 34, kScale = 0, kMin = 0;
  static Ints codes(Place p) { return signed_codes(load32(p + 2)); }
};
// d; 16 bytes of nibbles minus 8
struct LayoutQ4_0 {
  STRATUM_TRAITS(false, false, 3, 15, false);
  static constexpr i64 kBytes = 18, kScale = 0, kMin = 0;
  static Ints codes(Place p) { return nibbles_of(load16_twice(p + 2)); }
};
// d; m; 16 bytes of nibbles
struct LayoutQ4_1 {
  STRATUM_TRAITS(true, false, -1, 15, false);
  static constexpr i64 kBytes = 20, kScale = 0, kMin = 2;
  static Ints codes(Place p) { return nibbles_of(load16_twice(p + 4)); }
};
// d; 32 fifth bits; 16 bytes of nibbles; minus 16
struct LayoutQ5_0 {
  STRATUM_TRAITS(false, false, 4, 31, false);
  static constexpr i64 kBytes = 22, kScale = 0, kMin = 0;
  static Ints codes(Place p) {
    return or_where(bits_at(p + 2), nibbles_of(load16_twice(p + 6)), 16);
  }
};
// d; m; 32 fifth bits; 16 bytes of nibbles
struct LayoutQ5_1 {
  STRATUM_TRAITS(true, false, -1, 31, false);
  static constexpr i64 kBytes = 24, kScale = 0, kMin = 2;
  static Ints codes(Place p) {
    return or_where(bits_at(p + 4), nibbles_of(load16_twice(p + 8)), 16);
  }
};
static inline __m128i iq4_values() {
  return _mm_setr_epi8(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);
}
static inline Ints iq4_codes(Place p) {
#if defined(STRATUM_WIDE) || defined(STRATUM_VNNI)
  const __m128i table = _mm_xor_si128(iq4_values(), _mm_set1_epi8((char)0x80));
#else
  const __m128i table = iq4_values();
#endif
  return look_up(table, nibbles_of(load16_twice(p)));
}
// d; 16 bytes of nibbles that index a table of 16 values
struct LayoutIQ4_NL {
  STRATUM_TRAITS(false, true, 0, 127, false);
  static constexpr i64 kBytes = 18, kScale = 0, kMin = 0;
  static Ints codes(Place p) { return iq4_codes(p + 2); }
};

template <class Layout>
struct SourceOfBlocks : Layout {
  const u8* row;
  SuperPlace here;
  void super(i64 s, i64 blocks, u8* tail) {
    here = place_super(row, s, blocks, Layout::kBytes, 1, tail);
  }
  void open(i64 s) { here = open_super(row, s, Layout::kBytes, 1); }
  STRATUM_INLINE void tile(i64 part, Ints codes[4]) const {
    const Place p = here.at(part);
    STRATUM_UNROLLED
    for (i64 u = 0; u < 4; ++u) codes[u] = Layout::codes(p + u * Layout::kBytes);
    transpose(codes);
  }
  Vec scales(i64 part) const {
    return halves_of_blocks(here.at(part) + Layout::kScale, Layout::kBytes);
  }
  Vec mins(i64 part) const {
    return halves_of_blocks(here.at(part) + Layout::kMin, Layout::kBytes);
  }
};
typedef SourceOfBlocks<LayoutQ8_0> SourceQ8_0;
typedef SourceOfBlocks<LayoutQ4_0> SourceQ4_0;
typedef SourceOfBlocks<LayoutQ4_1> SourceQ4_1;
typedef SourceOfBlocks<LayoutQ5_0> SourceQ5_0;
typedef SourceOfBlocks<LayoutQ5_1> SourceQ5_1;
typedef SourceOfBlocks<LayoutIQ4_NL> SourceIQ4_NL;

// e: the scale is 2^(e - 128); 16 bytes of nibbles: 4-bit floats, doubled to be whole, plus 16
struct SourceMXFP4 {
  STRATUM_TRAITS(false, false, 4, 28, false);
  const u8* row;
  SuperPlace here;
  void super(i64 s, i64 blocks, u8* tail) { here = place_super(row, s, blocks, 17, 1, tail); }
  void open(i64 s) { here = open_super(row, s, 17, 1); }
  STRATUM_INLINE void tile(i64 part, Ints codes[4]) const {
    const Place p = here.at(part) + 1;
    const __m128i table =
        _mm_setr_epi8(16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4);
    STRATUM_UNROLLED
    for (i64 u = 0; u < 4; ++u) codes[u] = look_up(table, nibbles_of(load16_twice(p + u * 17)));
    transpose(codes);
  }
  Vec scales(i64 part) const {
    return scales_by(here.at(part), [](const u8* p) {
      u32 bytes = (u32)p[0] | (u32)p[17] << 8 | (u32)p[34] << 16 | (u32)p[51] << 24;
      __asm__("" : "+r"(bytes));
      const __m128i e = _mm_cvtepu8_epi32(_mm_cvtsi32_si128((i32)bytes));
      const __m128i normal = _mm_slli_epi32(_mm_sub_epi32(e, _mm_set1_epi32(1)), 23);
      const __m128i small = _mm_sllv_epi32(_mm_set1_epi32(0x200000), e);
      const __m128i is_small = _mm_cmplt_epi32(e, _mm_set1_epi32(2));
      return _mm_castsi128_ps(_mm_blendv_epi8(normal, small, is_small));
    });
  }
  Vec mins(i64) const { return zero(); }
};

// d; 16 bytes of four 2-bit codes each, 64 values: levels -1, 0, 1, 2
struct SourceQ2_0 {
  STRATUM_TRAITS(false, false, 0, 3, true);
  const u8* row;
  SuperPlace here;
  void super(i64 s, i64 blocks, u8* tail) { here = place_super(row, s, blocks, 18, 2, tail); }
  void open(i64 s) { here = open_super(row, s, 18, 2); }
  static __m256i two_blocks(const u8* p) {
    return _mm256_set_m128i(_mm_loadu_si128((const __m128i*)(p + 18)),
                            _mm_loadu_si128((const __m128i*)p));
  }
  STRATUM_INLINE void tile(i64 part, Ints codes[4]) const {
    const Place p = here.at(part) + 2;
#if defined(STRATUM_WIDE)
    const Ints packed = halves_to_lanes(join(two_blocks(p.near), two_blocks(p.far)));
#else
    const Ints packed = halves_to_lanes(two_blocks(p.at));
#endif
    const Ints three = bytes1(3);
    codes[0] = iand(packed, three);
    codes[1] = iand(shr<2>(packed), three);
    codes[2] = iand(shr<4>(packed), three);
    codes[3] = iand(shr<6>(packed), three);
  }
  Vec scales(i64 part) const {
    return scales_by(here.at(part), [](const u8* p) {
      u16 a, b;
      __builtin_memcpy(&a, p, 2);
      __builtin_memcpy(&b, p + 18, 2);
      u32 both = (u32)a | (u32)b << 16;
      __asm__("" : "+r"(both));
      const __m128 two = _mm_cvtph_ps(_mm_cvtsi32_si128((i32)both));
      return _mm_unpacklo_ps(two, two);
    });
  }
  Vec mins(i64) const { return zero(); }
};

// Formats whose rows may end inside of a super, and that have `open`.
template <class Source>
constexpr bool kEndsAnywhere = false;
template <class Layout>
constexpr bool kEndsAnywhere<SourceOfBlocks<Layout>> = true;
template <>
constexpr bool kEndsAnywhere<SourceMXFP4> = true;
template <>
constexpr bool kEndsAnywhere<SourceQ2_0> = true;

// -- K formats -----------------------------------------------------------------------------------

// The 8 pairs (scale, minimum) of Q4_K and Q5_K: 6 bits each in 12 bytes.
struct SuperScales {
  __m256 scale, minimum;
  void read(const u8* block) {
    u32 a, b, c;
    __builtin_memcpy(&a, block + 4, 4);
    __builtin_memcpy(&b, block + 8, 4);
    __builtin_memcpy(&c, block + 12, 4);
    const u32 scale_high = (c & 0x0f0f0f0f) | ((a >> 6) & 0x03030303) << 4;
    const u32 min_high = ((c >> 4) & 0x0f0f0f0f) | ((b >> 6) & 0x03030303) << 4;
    const uint64_t sc = (uint64_t)scale_high << 32 | (a & 0x3f3f3f3f);
    const uint64_t mn = (uint64_t)min_high << 32 | (b & 0x3f3f3f3f);
    const __m256 d = _mm256_set1_ps(read_half(block));
    const __m256 dmin = _mm256_set1_ps(-read_half(block + 2));
    scale = _mm256_mul_ps(d, floats_of(sc));
    minimum = _mm256_mul_ps(dmin, floats_of(mn));
  }
  static __m256 floats_of(uint64_t bytes) {
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)bytes)));
  }
};

// 32 bytes whose bits 4 h + u are one for each value of block u + 4 h: bit u (block u) of the result.
static inline Ints bits_of_blocks(const u8* p, i64 part) {
#if defined(STRATUM_WIDE)
  (void)part;
  const __m256i bits = _mm256_loadu_si256((const __m256i*)p);
  return join(bits, _mm256_srli_epi16(bits, 4));
#else
  const Ints bits = load_ints(p);
  return part ? shr<4>(bits) : bits;
#endif
}

// d; dmin; scales[12]; (qh[32] with the fifth bits;) qs[128]: per 32 bytes two blocks, low nibbles
// then high ones
template <bool kFive>
struct SourceQ45_K {
  STRATUM_TRAITS(true, false, -1, kFive ? 31 : 15, false);
  static constexpr i64 kBytes = kFive ? 176 : 144;
  const u8* row;
  const u8* here;
  SuperScales both;
  void super(i64 s, i64, u8*) {
    here = row + s * kBytes;
    both.read(here);
  }
  STRATUM_INLINE void tile(i64 part, Ints codes[4]) const {
    const u8* qs = here + (kFive ? 48 : 16);
    const Place p = either(qs, qs + 64, part);
    const Ints fifteen = bytes1(15), a = load32(p), b = load32(p + 32);
    codes[0] = iand(a, fifteen);
    codes[1] = iand(shr<4>(a), fifteen);
    codes[2] = iand(b, fifteen);
    codes[3] = iand(shr<4>(b), fifteen);
    if constexpr (kFive) {
      const Ints bits = bits_of_blocks(here + 16, part), sixteen = bytes1(16);
      codes[0] = ior(codes[0], iand(shl<4>(bits), sixteen));
      codes[1] = ior(codes[1], iand(shl<3>(bits), sixteen));
      codes[2] = ior(codes[2], iand(shl<2>(bits), sixteen));
      codes[3] = ior(codes[3], iand(shl<1>(bits), sixteen));
    }
    transpose(codes);
  }
  Vec scales(i64 part) const { return blocks_to_lanes(both.scale, part); }
  Vec mins(i64 part) const { return blocks_to_lanes(both.minimum, part); }
};
typedef SourceQ45_K<false> SourceQ4_K;
typedef SourceQ45_K<true> SourceQ5_K;

// ql[128]; qh[64]; int8 scales[16]; d: per half of 128 values four blocks, which share 64 bytes of
// nibbles and 32 bytes of bit pairs; minus 32
struct SourceQ6_K {
  STRATUM_TRAITS(false, false, 5, 63, false);
  const u8* row;
  const u8* here;
  void super(i64 s, i64, u8*) { here = row + s * 210; }
  STRATUM_INLINE void tile(i64 part, Ints codes[4]) const {
    const Place p = either(here, here + 64, part);
    const Ints a = load32(p), b = load32(p + 32);
    const Ints pairs = load32(either(here + 128, here + 160, part));
    const Ints fifteen = bytes1(15), top = bytes1(0x30);
    codes[0] = ior(iand(a, fifteen), iand(shl<4>(pairs), top));
    codes[1] = ior(iand(b, fifteen), iand(shl<2>(pairs), top));
    codes[2] = ior(iand(shr<4>(a), fifteen), iand(pairs, top));
    codes[3] = ior(iand(shr<4>(b), fifteen), iand(shr<2>(pairs), top));
    transpose(codes);
  }
  Vec scales(i64 part) const {
    const __m128i s = _mm_loadu_si128((const __m128i*)(here + 192));
    return mul(set1(read_half(here + 208)), halves_to_lanes(s, part));
  }
  Vec mins(i64) const { return zero(); }
};

// The four blocks of a half that share 32 bytes of 2-bit codes: dword q of each half's 16 bytes has
// the values 4 q .. 4 q + 3 of four halves, which are the four lanes of vector q.
static inline void pairs_of(Ints packed, Ints codes[4]) {
  const Ints three = bytes1(3);
  codes[0] = iand(spread_dword<0, 2>(packed), three);
  codes[1] = iand(spread_dword<1, 2>(packed), three);
  codes[2] = iand(spread_dword<2, 2>(packed), three);
  codes[3] = iand(spread_dword<3, 2>(packed), three);
}

// scales[16]: scale and minimum of 4 bits; qs[64]; d; dmin
struct SourceQ2_K {
  STRATUM_TRAITS(true, false, -1, 3, false);
  const u8* row;
  const u8* here;
  void super(i64 s, i64, u8*) { here = row + s * 84; }
  STRATUM_INLINE void tile(i64 part, Ints codes[4]) const {
    pairs_of(load32(either(here + 16, here + 48, part)), codes);
  }
  __m128i packed() const { return _mm_loadu_si128((const __m128i*)here); }
  Vec scales(i64 part) const {
    const __m128i s = _mm_and_si128(packed(), _mm_set1_epi8(15));
    return mul(set1(read_half(here + 80)), halves_to_lanes(s, part));
  }
  Vec mins(i64 part) const {
    const __m128i m = _mm_and_si128(_mm_srli_epi16(packed(), 4), _mm_set1_epi8(15));
    return mul(set1(-read_half(here + 82)), halves_to_lanes(m, part));
  }
};

// hmask[32]; qs[64]; scales[12]; d; minus 4
struct SourceQ3_K {
  STRATUM_TRAITS(false, false, 2, 7, false);
  const u8* row;
  const u8* here;
  void super(i64 s, i64, u8*) { here = row + s * 110; }
  STRATUM_INLINE void tile(i64 part, Ints codes[4]) const {
    const Ints pairs = load32(either(here + 32, here + 64, part)), three = bytes1(3);
    const Ints bits = bits_of_blocks(here, part), four = bytes1(4);
    codes[0] = ior(iand(pairs, three), iand(shl<2>(bits), four));
    codes[1] = ior(iand(shr<2>(pairs), three), iand(shl<1>(bits), four));
    codes[2] = ior(iand(shr<4>(pairs), three), iand(bits, four));
    codes[3] = ior(iand(shr<6>(pairs), three), iand(shr<1>(bits), four));
    transpose(codes);
  }
  // 16 numbers of 6 bits: nibbles in 8 bytes, then bit pairs in 4.
  Vec scales(i64 part) const {
    const __m128i nibble = _mm_set1_epi8(15);
    const __m128i packed = _mm_loadl_epi64((const __m128i*)(here + 96));
    i32 word;
    __builtin_memcpy(&word, here + 104, 4);
    const __m128i low = _mm_unpacklo_epi64(_mm_and_si128(packed, nibble),
                                           _mm_and_si128(_mm_srli_epi16(packed, 4), nibble));
    const __m128i pairs = _mm_srlv_epi32(_mm_set1_epi32(word), _mm_setr_epi32(0, 2, 4, 6));
    const __m128i high = _mm_slli_epi16(_mm_and_si128(pairs, _mm_set1_epi8(3)), 4);
    const __m128i s = _mm_sub_epi8(_mm_or_si128(low, high), _mm_set1_epi8(32));
    return mul(set1(read_half(here + 108)), halves_to_lanes(s, part));
  }
  Vec mins(i64) const { return zero(); }
};

}  // namespace STRATUM_ISA
