// Block formats as the integer micro-kernel sees them (layouts: spec/qwen4exp.md section 8).
//
// A *unit* is one vector of weights as signed bytes (1 block of 32 values for 256-bit variants, 2 for
// 512-bit ones) with the scales of its lanes; a lane of four weights has one scale. A *source* turns
// the bytes of one matrix row into units, eight blocks ("super") at a time:
//   super(s, blocks)   prepares blocks 8 s .. 8 s + blocks - 1
//   unit(u, blocks)    the u-th unit of it; a missing second block has weights and scales 0
//   kMins              whether values have a minimum added; then mins_first() and mins_second() are
//                      those of the first and second 16 values of the 8 blocks
// The plain twin is engine/gguf/blocks.py.
#pragma once
#include "functions.h"

namespace STRATUM_ISA {

constexpr i64 kBlock = 32;                // values of an activation block
constexpr i64 kSuper = 8;                 // blocks of a super
constexpr i64 kUnitBlocks = W / 8;        // blocks of a unit
constexpr i64 kUnitBytes = 4 * W;

// `aux` serves the dot product: see `unit_dot`.
struct Unit {
  Ints w;
  Ints aux;
  Vec s;
};

#if defined(STRATUM_WIDE)
static inline Ints join(__m256i low, __m256i high) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}
static inline Vec join(__m256 low, __m256 high) {
  return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
}
static inline Ints load_bytes(const void* p) { return _mm512_loadu_si512(p); }
static inline void store_bytes(void* p, Ints v) { _mm512_storeu_si512(p, v); }
static inline Ints dot_add(Ints sum, Ints u, Ints s) { return _mm512_dpbusd_epi32(sum, u, s); }
#else
static inline Ints load_bytes(const void* p) { return _mm256_loadu_si256((const __m256i*)p); }
static inline void store_bytes(void* p, Ints v) { _mm256_storeu_si256((__m256i*)p, v); }
#if defined(STRATUM_VNNI)
#if defined(STRATUM_VNNI_BY_AVX512)  // tests on machines without AVX-VNNI
static inline Ints dot_add(Ints sum, Ints u, Ints s) { return _mm256_dpbusd_epi32(sum, u, s); }
#else
static inline Ints dot_add(Ints sum, Ints u, Ints s) { return _mm256_dpbusd_avx_epi32(sum, u, s); }
#endif
#endif
#endif

#if defined(STRATUM_WIDE) || defined(STRATUM_VNNI)

// Activations are stored as q + 128 (unsigned); sum(w q) = sum(w (q + 128)) - 128 sum(w), and the
// last term is computed once per unit, whatever the number of rows.
constexpr u8 kActivationZero = 128;
static inline Unit make_unit(Ints w, Vec s) {
#if defined(STRATUM_WIDE)
  const Ints offset = _mm512_set1_epi8((char)0x80);
  return {w, isub(_mm512_setzero_si512(), dot_add(_mm512_setzero_si512(), offset, w)), s};
#else
  const Ints offset = _mm256_set1_epi8((char)0x80);
  return {w, isub(_mm256_setzero_si256(), dot_add(_mm256_setzero_si256(), offset, w)), s};
#endif
}
static inline Ints unit_dot(const Unit& k, Ints q) { return dot_add(k.aux, q, k.w); }

#else

// |w| times q with the sign of w: pairs stay within 2 * 128 * 127 = 32512, so that the saturating
// 16-bit addition of maddubs is exact. Activations must not contain -128.
constexpr u8 kActivationZero = 0;
static inline Unit make_unit(Ints w, Vec s) { return {w, _mm256_abs_epi8(w), s}; }
static inline Ints unit_dot(const Unit& k, Ints q) {
  const Ints pairs = _mm256_maddubs_epi16(k.aux, _mm256_sign_epi8(q, k.w));
  return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

#endif

// One float for the lanes of each block of a unit, from consecutive floats.
static inline Vec spread(const float* p) {
#if defined(STRATUM_WIDE)
  return _mm512_mask_blend_ps(0xff00, _mm512_set1_ps(p[0]), _mm512_set1_ps(p[1]));
#else
  return _mm256_broadcast_ss(p);
#endif
}

// The unit made of blocks by `block(i)`, which gives {bytes, scale} of block i of the super.
struct Block {
  __m256i w;
  __m256 s;
};
template <class F>
static inline Unit unit_of_blocks(i64 u, i64 blocks, const F& block) {
#if defined(STRATUM_WIDE)
  const Block low = block(2 * u);
  Block high = {_mm256_setzero_si256(), _mm256_setzero_ps()};
  if (2 * u + 1 < blocks) high = block(2 * u + 1);
  return make_unit(join(low.w, high.w), join(low.s, high.s));
#else
  (void)blocks;
  const Block one = block(u);
  return make_unit(one.w, one.s);
#endif
}

static inline __m256i low_and_high_nibbles(const u8* p) {
  const __m128i bytes = _mm_loadu_si128((const __m128i*)p);
  const __m256i both = _mm256_set_m128i(_mm_srli_epi16(bytes, 4), bytes);
  return _mm256_and_si256(both, _mm256_set1_epi8(15));
}

// Formats whose blocks stand alone. `block(from, b)` decodes 32 values: block b after `from`.

// d; int8 q[32]
struct LayoutQ8_0 {
  static constexpr i64 kSuperBytes = 8 * 34;
  static Block block(const u8* from, i64 b) {
    const u8* p = from + b * 34;
    return {_mm256_loadu_si256((const __m256i*)(p + 2)), _mm256_set1_ps(read_half(p))};
  }
};

// d; 16 bytes of nibbles that index a table of 16 values
struct LayoutIQ4_NL {
  static constexpr i64 kSuperBytes = 8 * 18;
  static Block block(const u8* from, i64 b) {
    const u8* p = from + b * 18;
    const __m256i table = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113));
    return {_mm256_shuffle_epi8(table, low_and_high_nibbles(p + 2)), _mm256_set1_ps(read_half(p))};
  }
};

// d; 16 bytes of nibbles minus 8
struct LayoutQ4_0 {
  static constexpr i64 kSuperBytes = 8 * 18;
  static Block block(const u8* from, i64 b) {
    const u8* p = from + b * 18;
    return {_mm256_sub_epi8(low_and_high_nibbles(p + 2), _mm256_set1_epi8(8)),
            _mm256_set1_ps(read_half(p))};
  }
};

// d; 16 bytes of four 2-bit codes each, 64 values: levels -1, 0, 1, 2
struct LayoutQ2_0 {
  static constexpr i64 kSuperBytes = 4 * 18;
  static Block block(const u8* from, i64 b) {
    const u8* p = from + (b / 2) * 18;
    const __m128i bytes = _mm_loadl_epi64((const __m128i*)(p + 2 + (b & 1) * 8));
    // The codes of a byte as two nibbles, each of them twice: c1c0 c1c0 c3c2 c3c2
    const __m128i low = _mm_and_si128(bytes, _mm_set1_epi8(15));
    const __m128i high = _mm_and_si128(_mm_srli_epi16(bytes, 4), _mm_set1_epi8(15));
    const __m128i nibbles = _mm_unpacklo_epi8(low, high);
    const __m256i twice = _mm256_set_m128i(_mm_unpackhi_epi8(nibbles, nibbles),
                                           _mm_unpacklo_epi8(nibbles, nibbles));
    // Even places keep the low code (0..3), odd ones the high code (0, 4, 8, 12).
    const __m256i codes = _mm256_and_si256(twice, _mm256_set1_epi16(0x0c03));
    const __m256i levels = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(-1, 0, 1, 2, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0));
    return {_mm256_shuffle_epi8(levels, codes), _mm256_set1_ps(read_half(p))};
  }
};

template <class Layout>
struct SourceOfBlocks {
  static constexpr bool kMins = false;
  const u8* row;
  const u8* here;
  void super(i64 s, i64) { here = row + s * Layout::kSuperBytes; }
  Unit unit(i64 u, i64 blocks) const {
    const u8* from = here;
    return unit_of_blocks(u, blocks, [from](i64 b) { return Layout::block(from, b); });
  }
};
typedef SourceOfBlocks<LayoutQ8_0> SourceQ8_0;
typedef SourceOfBlocks<LayoutIQ4_NL> SourceIQ4_NL;
typedef SourceOfBlocks<LayoutQ4_0> SourceQ4_0;
typedef SourceOfBlocks<LayoutQ2_0> SourceQ2_0;

// The 8 pairs (scale, minimum) of Q4_K and Q5_K: 6 bits each in 12 bytes.
struct SuperScales {
  alignas(32) float scale[8];
  __m256 mins;
  void read(const u8* block) {
    u32 a, b, c;
    __builtin_memcpy(&a, block + 4, 4);
    __builtin_memcpy(&b, block + 8, 4);
    __builtin_memcpy(&c, block + 12, 4);
    const u32 scale_high = (c & 0x0f0f0f0f) | ((a >> 6) & 0x03030303) << 4;
    const u32 min_high = ((c >> 4) & 0x0f0f0f0f) | ((b >> 6) & 0x03030303) << 4;
    const __m128i sc = _mm_set_epi32(0, 0, (i32)scale_high, (i32)(a & 0x3f3f3f3f));
    const __m128i mn = _mm_set_epi32(0, 0, (i32)min_high, (i32)(b & 0x3f3f3f3f));
    const __m256 d = _mm256_set1_ps(read_half(block));
    const __m256 dmin = _mm256_set1_ps(-read_half(block + 2));
    _mm256_store_ps(scale, _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(sc))));
    mins = _mm256_mul_ps(dmin, _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(mn)));
  }
};

// d; dmin; scales[12]; (qh[32] with the fifth bits;) qs[128]: per 32 bytes two blocks, low nibbles
// then high ones
template <bool kFive>
struct SourceQ45_K {
  static constexpr bool kMins = true;
  static constexpr i64 kBytes = kFive ? 176 : 144;
  const u8* row;
  const u8* here;
  SuperScales scales;
  void super(i64 s, i64) {
    here = row + s * kBytes;
    scales.read(here);
  }
  __m256 mins_first() const { return scales.mins; }
  __m256 mins_second() const { return scales.mins; }
  __m256i block(i64 b) const {
    const u8* qs = here + (kFive ? 48 : 16) + b / 2 * 32;
    const __m256i bytes = _mm256_loadu_si256((const __m256i*)qs);
    const __m256i shifted = (b & 1) ? _mm256_srli_epi16(bytes, 4) : bytes;
    const __m256i low = _mm256_and_si256(shifted, _mm256_set1_epi8(15));
    if (!kFive) return low;
    const __m256i high = _mm256_loadu_si256((const __m256i*)(here + 16));
    const __m256i bit = _mm256_and_si256(_mm256_srl_epi16(high, _mm_cvtsi32_si128((i32)b)),
                                         _mm256_set1_epi8(1));
    return _mm256_or_si256(low, _mm256_slli_epi16(bit, 4));
  }
  Unit unit(i64 u, i64) const {
#if defined(STRATUM_WIDE)
    return make_unit(join(block(2 * u), block(2 * u + 1)), spread(scales.scale + 2 * u));
#else
    return make_unit(block(u), spread(scales.scale + u));
#endif
  }
};
typedef SourceQ45_K<false> SourceQ4_K;
typedef SourceQ45_K<true> SourceQ5_K;

// Two scales of 16 values each, for the lanes of a block.
static inline __m256 scale_pair(float first, float second) {
  return _mm256_set_m128(_mm_set1_ps(second), _mm_set1_ps(first));
}

// ql[128]; qh[64]; int8 scales[16]; d: per half of 128 values four blocks, which share 64 bytes of
// nibbles and 32 bytes of bit pairs
struct SourceQ6_K {
  static constexpr bool kMins = false;
  const u8* row;
  const u8* here;
  float d;
  void super(i64 s, i64) {
    here = row + s * 210;
    d = read_half(here + 208);
  }
  Block block(i64 b) const {
    const i64 half = b / 4, m = b % 4;
    const u8* low = here + 64 * half + (m & 1) * 32;
    const __m256i bytes = _mm256_loadu_si256((const __m256i*)low);
    const __m256i pairs = _mm256_loadu_si256((const __m256i*)(here + 128 + 32 * half));
    const __m256i nibbles =
        _mm256_and_si256(m & 2 ? _mm256_srli_epi16(bytes, 4) : bytes, _mm256_set1_epi8(15));
    const __m256i top = _mm256_and_si256(_mm256_srl_epi16(pairs, _mm_cvtsi32_si128((i32)(2 * m))),
                                         _mm256_set1_epi8(3));
    const __m256i code = _mm256_or_si256(nibbles, _mm256_slli_epi16(top, 4));
    const i8* scales = (const i8*)(here + 192 + 2 * b);
    return {_mm256_sub_epi8(code, _mm256_set1_epi8(32)),
            scale_pair(d * (float)scales[0], d * (float)scales[1])};
  }
  Unit unit(i64 u, i64 blocks) const {
    return unit_of_blocks(u, blocks, [this](i64 b) { return block(b); });
  }
};

// A row that a plain loop has decoded: for formats without a source of their own, and the same for
// all. `scale` has one float per 16 values; `mins` two per block: see DecodedRow in decode.h.
struct SourceDecoded {
  static constexpr bool kMins = true;
  const i8* weights;
  const float* scale;
  const float* minimum;
  const i8* here;
  const float* here_scale;
  const float* here_minimum;
  void super(i64 s, i64) {
    here = weights + s * kSuper * kBlock;
    here_scale = scale + s * kSuper * 2;
    here_minimum = minimum + s * kSuper * 2;
  }
  __m256 mins_first() const { return _mm256_loadu_ps(here_minimum); }
  __m256 mins_second() const { return _mm256_loadu_ps(here_minimum + kSuper); }
  static __m256 pair(const float* p) {
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_broadcast_ss(p)),
                                _mm_broadcast_ss(p + 1), 1);
  }
  Unit unit(i64 u, i64) const {
#if defined(STRATUM_WIDE)
    const float* p = here_scale + 4 * u;
    return make_unit(load_bytes(here + u * kUnitBytes), join(pair(p), pair(p + 2)));
#else
    return make_unit(load_bytes(here + u * kUnitBytes), pair(here_scale + 2 * u));
#endif
  }
};

}  // namespace STRATUM_ISA
