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

#endif

// -- what both widths share ------------------------------------------------------------------------

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

static inline float half_to_float(u16 h) { return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(h))); }
static inline float read_half(const u8* p) {
  u16 h;
  __builtin_memcpy(&h, p, 2);
  return half_to_float(h);
}

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
