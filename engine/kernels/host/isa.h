// Vectors of one instruction set: W floats, their loads, arithmetic and sums.
//
// Compiled once per variant inside namespace STRATUM_ISA. `Full` and `Part` select whole vectors or
// the first few lanes, so that a loop body is written once: see `each_vector`. Every multiply-add is
// an explicit instruction and every sum has one order (the library is built with
// -ffp-contract=off), so a value depends on its inputs alone.
#pragma once
#include <immintrin.h>

#include "arrays.h"

namespace STRATUM_ISA {

struct Full {};

#if defined(STRATUM_WIDE)

constexpr i64 W = 16;
typedef __m512 Vec;
typedef __m512i Ints;
struct Part {
  __mmask16 mask;
};
static inline Part part(i64 lanes) { return {(__mmask16)((1u << lanes) - 1)}; }
static inline Vec load(const float* p, Full) { return _mm512_loadu_ps(p); }
static inline Vec load(const float* p, Part t) { return _mm512_maskz_loadu_ps(t.mask, p); }
static inline void store(float* p, Vec v, Full) { _mm512_storeu_ps(p, v); }
static inline void store(float* p, Vec v, Part t) { _mm512_mask_storeu_ps(p, t.mask, v); }
static inline Vec load(const u16* p, Full) {
  return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p));
}
static inline Vec load(const u16* p, Part t) {
  return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(t.mask, p));
}
static inline void store(u16* p, Vec v, Full) {
  _mm256_storeu_si256((__m256i*)p, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
static inline void store(u16* p, Vec v, Part t) {
  _mm256_mask_storeu_epi16(p, t.mask, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
static inline Vec load_brain(const u16* p, Full) {
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
static inline Vec load_brain(const u16* p, Part t) {
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(t.mask, p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
static inline Vec set1(float x) { return _mm512_set1_ps(x); }
static inline Vec zero() { return _mm512_setzero_ps(); }
static inline Vec add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
static inline Vec sub(Vec a, Vec b) { return _mm512_sub_ps(a, b); }
static inline Vec mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
static inline Vec div(Vec a, Vec b) { return _mm512_div_ps(a, b); }
static inline Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
static inline Vec fnma(Vec a, Vec b, Vec c) { return _mm512_fnmadd_ps(a, b, c); }
static inline Vec larger(Vec a, Vec b) { return _mm512_max_ps(a, b); }
static inline Vec smaller(Vec a, Vec b) { return _mm512_min_ps(a, b); }
static inline Vec whole_part(Vec a) {
  return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline Ints to_ints(Vec a) { return _mm512_cvtps_epi32(a); }
static inline Vec to_floats(Ints a) { return _mm512_cvtepi32_ps(a); }
static inline Ints bits_of(Vec a) { return _mm512_castps_si512(a); }
static inline Vec as_floats(Ints a) { return _mm512_castsi512_ps(a); }
static inline Ints iset1(i32 x) { return _mm512_set1_epi32(x); }
static inline Ints iadd(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
static inline Ints isub(Ints a, Ints b) { return _mm512_sub_epi32(a, b); }
static inline Ints iand(Ints a, Ints b) { return _mm512_and_si512(a, b); }
static inline Ints ior(Ints a, Ints b) { return _mm512_or_si512(a, b); }
static inline Ints shift_left_16(Ints a) { return _mm512_slli_epi32(a, 16); }
static inline Ints shift_left_23(Ints a) { return _mm512_slli_epi32(a, 23); }
static inline Ints shift_right_23(Ints a) { return _mm512_srli_epi32(a, 23); }
// a where x < limit, else b
static inline Vec where_less(Vec x, Vec limit, Vec a, Vec b) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, limit, _CMP_LT_OQ), b, a);
}
static inline Vec where_equal(Vec x, Vec y, Vec a, Vec b) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, y, _CMP_EQ_OQ), b, a);
}
static inline __m256 fold(Vec v) {
  return _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
}
static inline __m256 fold_max(Vec v) {
  return _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
}

// Steps of sums of several vectors at once, see `sums_of`: what is added lane by lane in each.
static inline Vec unpack_low(Vec a, Vec b) {
  return _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
}
static inline Vec unpack_high(Vec a, Vec b) {
  return _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
}
static inline Vec add_halves(Vec a, Vec b) {  // of 256 bits: [a | b]
  return add(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
}
static inline Vec add_quarters(Vec a, Vec b) {  // of 128 bits, even and odd ones
  return add(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
}
static inline Vec add_singles(Vec a, Vec b) {
  return add(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd));
}

#else

constexpr i64 W = 8;
typedef __m256 Vec;
typedef __m256i Ints;
struct Part {
  __m256i mask;
  i64 lanes;
};
alignas(32) static const i32 kLaneMasks[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
static inline Part part(i64 lanes) {
  return {_mm256_loadu_si256((const __m256i*)(kLaneMasks + 8 - lanes)), lanes};
}
static inline Vec load(const float* p, Full) { return _mm256_loadu_ps(p); }
static inline Vec load(const float* p, Part t) { return _mm256_maskload_ps(p, t.mask); }
static inline void store(float* p, Vec v, Full) { _mm256_storeu_ps(p, v); }
static inline void store(float* p, Vec v, Part t) { _mm256_maskstore_ps(p, t.mask, v); }
static inline __m128i load_few(const u16* p, i64 count) {
  alignas(16) u16 lanes[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  for (i64 i = 0; i < count; ++i) lanes[i] = p[i];
  return _mm_load_si128((const __m128i*)lanes);
}
static inline Vec load(const u16* p, Full) {
  return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p));
}
static inline Vec load(const u16* p, Part t) { return _mm256_cvtph_ps(load_few(p, t.lanes)); }
static inline void store(u16* p, Vec v, Full) {
  _mm_storeu_si128((__m128i*)p, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
static inline void store(u16* p, Vec v, Part t) {
  alignas(16) u16 lanes[8];
  _mm_store_si128((__m128i*)lanes, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  for (i64 i = 0; i < t.lanes; ++i) p[i] = lanes[i];
}
static inline Vec brain(__m128i x) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
}
static inline Vec load_brain(const u16* p, Full) {
  return brain(_mm_loadu_si128((const __m128i*)p));
}
static inline Vec load_brain(const u16* p, Part t) { return brain(load_few(p, t.lanes)); }
static inline Vec set1(float x) { return _mm256_set1_ps(x); }
static inline Vec zero() { return _mm256_setzero_ps(); }
static inline Vec add(Vec a, Vec b) { return _mm256_add_ps(a, b); }
static inline Vec sub(Vec a, Vec b) { return _mm256_sub_ps(a, b); }
static inline Vec mul(Vec a, Vec b) { return _mm256_mul_ps(a, b); }
static inline Vec div(Vec a, Vec b) { return _mm256_div_ps(a, b); }
static inline Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
static inline Vec fnma(Vec a, Vec b, Vec c) { return _mm256_fnmadd_ps(a, b, c); }
static inline Vec larger(Vec a, Vec b) { return _mm256_max_ps(a, b); }
static inline Vec smaller(Vec a, Vec b) { return _mm256_min_ps(a, b); }
static inline Vec whole_part(Vec a) {
  return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline Ints to_ints(Vec a) { return _mm256_cvtps_epi32(a); }
static inline Vec to_floats(Ints a) { return _mm256_cvtepi32_ps(a); }
static inline Ints bits_of(Vec a) { return _mm256_castps_si256(a); }
static inline Vec as_floats(Ints a) { return _mm256_castsi256_ps(a); }
static inline Ints iset1(i32 x) { return _mm256_set1_epi32(x); }
static inline Ints iadd(Ints a, Ints b) { return _mm256_add_epi32(a, b); }
static inline Ints isub(Ints a, Ints b) { return _mm256_sub_epi32(a, b); }
static inline Ints iand(Ints a, Ints b) { return _mm256_and_si256(a, b); }
static inline Ints ior(Ints a, Ints b) { return _mm256_or_si256(a, b); }
static inline Ints shift_left_16(Ints a) { return _mm256_slli_epi32(a, 16); }
static inline Ints shift_left_23(Ints a) { return _mm256_slli_epi32(a, 23); }
static inline Ints shift_right_23(Ints a) { return _mm256_srli_epi32(a, 23); }
static inline Vec where_less(Vec x, Vec limit, Vec a, Vec b) {
  return _mm256_blendv_ps(b, a, _mm256_cmp_ps(x, limit, _CMP_LT_OQ));
}
static inline Vec where_equal(Vec x, Vec y, Vec a, Vec b) {
  return _mm256_blendv_ps(b, a, _mm256_cmp_ps(x, y, _CMP_EQ_OQ));
}
static inline __m256 fold(Vec v) { return v; }
static inline __m256 fold_max(Vec v) { return v; }

static inline Vec unpack_low(Vec a, Vec b) {
  return _mm256_castpd_ps(_mm256_unpacklo_pd(_mm256_castps_pd(a), _mm256_castps_pd(b)));
}
static inline Vec unpack_high(Vec a, Vec b) {
  return _mm256_castpd_ps(_mm256_unpackhi_pd(_mm256_castps_pd(a), _mm256_castps_pd(b)));
}
static inline Vec add_quarters(Vec a, Vec b) {  // of 128 bits: [a | b]
  return add(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
}
static inline Vec add_singles(Vec a, Vec b) {
  return add(_mm256_shuffle_ps(a, b, 0x88), _mm256_shuffle_ps(a, b, 0xdd));
}

#endif

// -- what both widths share ------------------------------------------------------------------------

// clang unrolls loops of unknown length, which makes the library half as large again and no faster.
// Loops over the accumulators of a micro-kernel must vanish, or these would live in memory.
#if defined(__clang__)
#define STRATUM_ROLLED _Pragma("clang loop unroll(disable)")
#define STRATUM_UNROLLED _Pragma("clang loop unroll(full)")
#else
#define STRATUM_ROLLED
#define STRATUM_UNROLLED _Pragma("GCC unroll 8")
#endif

// What a micro-kernel is made of: a call would send its registers through memory.
#define STRATUM_INLINE __attribute__((always_inline)) inline

static inline float sum8(__m256 v) {
  __m128 x = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  x = _mm_add_ps(x, _mm_movehl_ps(x, x));
  x = _mm_add_ss(x, _mm_movehdup_ps(x));
  return _mm_cvtss_f32(x);
}
static inline float sum(Vec v) { return sum8(fold(v)); }

static inline float max_of(Vec v) {
  const __m256 y = fold_max(v);
  __m128 x = _mm_max_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
  x = _mm_max_ps(x, _mm_movehl_ps(x, x));
  x = _mm_max_ss(x, _mm_movehdup_ps(x));
  return _mm_cvtss_f32(x);
}

// The sums of four vectors, each as `sum` would give it up to the order of two additions.
static inline __m128 sum4(Vec a, Vec b, Vec c, Vec d) {
  const __m256 ab = _mm256_hadd_ps(fold(a), fold(b));
  const __m256 cd = _mm256_hadd_ps(fold(c), fold(d));
  const __m256 abcd = _mm256_hadd_ps(ab, cd);
  return _mm_add_ps(_mm256_castps256_ps128(abcd), _mm256_extractf128_ps(abcd, 1));
}

static inline Vec add_pairs(Vec a, Vec b) { return add(unpack_low(a, b), unpack_high(a, b)); }

// What `sum` gives for each of N vectors, bit for bit: the same additions, for several vectors in one
// instruction. Sums across lanes are a third of a product of few columns. Writes whole vectors: `to` has
// room for a multiple of 4, 8 or W floats.
template <int N>
static inline void sums_of(const Vec* v, float* to) {
  if constexpr (N < 4) {
    for (int i = 0; i < N; ++i) to[i] = sum(v[i]);
  } else if constexpr (N > W) {
    sums_of<W>(v, to);
    sums_of<N - W>(v + W, to + W);
  } else {
    const auto at = [&](int i) { return i < N ? v[i] : zero(); };
#if defined(STRATUM_WIDE)
    if constexpr (N > 8) {
      Vec q[4];  // lane L of 128 bits: of vector 4 L + j
      STRATUM_UNROLLED
      for (int j = 0; j < 4; ++j) {
        q[j] = add_quarters(add_halves(v[j], v[4 + j]), add_halves(at(8 + j), at(12 + j)));
      }
      const Vec all = add_singles(add_pairs(q[0], q[1]), add_pairs(q[2], q[3]));
      store(to, all, Full{});
    } else if constexpr (N > 4) {
      const Vec a = add_quarters(add_halves(v[0], at(4)), add_halves(v[2], at(6)));
      const Vec b = add_quarters(add_halves(v[1], at(5)), add_halves(v[3], at(7)));
      const Vec two = add_pairs(a, b), all = add_singles(two, two);
      const Ints order = _mm512_setr_epi32(0, 1, 8, 9, 4, 5, 12, 13, 0, 0, 0, 0, 0, 0, 0, 0);
      _mm256_storeu_ps(to, _mm512_castps512_ps256(_mm512_permutexvar_ps(order, all)));
    } else {
      const Vec q = add_quarters(add_halves(v[0], v[1]), add_halves(v[2], v[3]));
      const Vec two = add_pairs(q, q), all = add_singles(two, two);
      const Ints order = _mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
      _mm_storeu_ps(to, _mm512_castps512_ps128(_mm512_permutexvar_ps(order, all)));
    }
#else
    if constexpr (N > 4) {
      Vec q[4];
      STRATUM_UNROLLED
      for (int j = 0; j < 4; ++j) q[j] = add_quarters(v[j], at(4 + j));
      store(to, add_singles(add_pairs(q[0], q[1]), add_pairs(q[2], q[3])), Full{});
    } else {
      const Vec two = add_pairs(add_quarters(v[0], v[2]), add_quarters(v[1], v[3]));
      const Vec all = add_singles(two, two);
      _mm_storeu_ps(to, _mm_movelh_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1)));
    }
#endif
  }
}

static inline float half_to_float(u16 h) { return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(h))); }
static inline float read_half(const u8* p) {
  u16 h;
  __builtin_memcpy(&h, p, 2);
  return half_to_float(h);
}

// Calls f(i, Full or Part) so that all of 0..n-1 is covered, W at a time.
template <class F>
static inline void each_vector(i64 n, const F& f) {
  i64 i = 0;
  STRATUM_ROLLED
  for (; i + W <= n; i += W) f(i, Full{});
  if (i < n) f(i, part(n - i));
}

static inline void copy(const float* from, i64 n, float* to) {
  __builtin_memcpy(to, from, (size_t)n * sizeof(float));
}

STRATUM_COLD float dot(const float* a, const float* b, i64 n) {
  Vec s0 = zero(), s1 = zero(), s2 = zero(), s3 = zero();
  i64 i = 0;
  for (; i + 4 * W <= n; i += 4 * W) {
    s0 = fma(load(a + i, Full{}), load(b + i, Full{}), s0);
    s1 = fma(load(a + i + W, Full{}), load(b + i + W, Full{}), s1);
    s2 = fma(load(a + i + 2 * W, Full{}), load(b + i + 2 * W, Full{}), s2);
    s3 = fma(load(a + i + 3 * W, Full{}), load(b + i + 3 * W, Full{}), s3);
  }
  for (; i + W <= n; i += W) s0 = fma(load(a + i, Full{}), load(b + i, Full{}), s0);
  if (i < n) s1 = fma(load(a + i, part(n - i)), load(b + i, part(n - i)), s1);
  return sum(add(add(s0, s1), add(s2, s3)));
}

static inline float root(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }

}  // namespace STRATUM_ISA
