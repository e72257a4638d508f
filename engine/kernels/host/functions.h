// exp, log, sigmoid, silu and softplus of vectors, and norms and rotations of rows.
//
// Own code because libm's results differ between systems. Largest errors in units of the last place,
// measured against float64 between -80 and 80: exp 1.1, sigmoid and silu 2.4, softplus 3.6.
#pragma once
#include "isa.h"

namespace STRATUM_ISA {

// e^x; 0 below -87.3, at most 2.4e38; NaN stays NaN.
static inline Vec exp(Vec x) {
  const Vec lowest = set1(-87.3365402f);
  // The constant comes first: min and max then return x, not the constant, for NaN.
  const Vec y = larger(lowest, smaller(set1(88.3762589f), x));
  const Vec n = whole_part(mul(y, set1(1.44269504f)));
  // r = y - n ln 2, with ln 2 in two parts of which the first has few bits: n times it is exact.
  Vec r = fnma(n, set1(0.693359375f), y);
  r = fnma(n, set1(-2.12194440e-4f), r);
  // Taylor series: |r| <= 0.3466, the first term left out is below 6e-9.
  Vec p = set1(1.0f / 5040);
  p = fma(p, r, set1(1.0f / 720));
  p = fma(p, r, set1(1.0f / 120));
  p = fma(p, r, set1(1.0f / 24));
  p = fma(p, r, set1(1.0f / 6));
  p = fma(p, r, set1(0.5f));
  p = fma(mul(p, r), r, r);
  p = add(p, set1(1.0f));
  const Vec power = as_floats(shift_left_23(iadd(to_ints(n), iset1(127))));
  return where_less(x, lowest, zero(), mul(p, power));
}

// ln x for normal positive x.
static inline Vec log(Vec x) {
  // x = m 2^e with m in [sqrt(1/2), sqrt(2))
  const Ints shifted = isub(bits_of(x), iset1(0x3f3504f3));
  const Ints biased = iadd(shifted, iset1(0x3f800000));
  const Vec e = to_floats(isub(shift_right_23(biased), iset1(127)));
  const Vec m = as_floats(iadd(iand(shifted, iset1(0x007fffff)), iset1(0x3f3504f3)));
  // ln m = 2 (s + s^3/3 + s^5/5 + ...) with s = (m - 1) / (m + 1), |s| <= 0.1716
  const Vec f = sub(m, set1(1.0f));
  const Vec s = div(f, add(m, set1(1.0f)));
  const Vec s2 = mul(s, s);
  Vec p = set1(2.0f / 9);
  p = fma(p, s2, set1(2.0f / 7));
  p = fma(p, s2, set1(2.0f / 5));
  p = fma(p, s2, set1(2.0f / 3));
  const Vec tail = mul(mul(p, s2), s);
  const Vec low = fma(e, set1(-2.12194440e-4f), tail);
  return fma(e, set1(0.693359375f), fma(s, set1(2.0f), low));
}

static inline Vec sigmoid(Vec x) { return div(set1(1.0f), add(set1(1.0f), exp(sub(zero(), x)))); }

static inline Vec silu(Vec x) { return div(x, add(set1(1.0f), exp(sub(zero(), x)))); }

// ln(1 + e^x); x itself above 20 (spec section 1).
static inline Vec softplus(Vec x) {
  const Vec t = exp(x);
  // ln(1 + t) = t ln(u) / (u - 1) with u = 1 + t rounded: exact where u = 1, accurate elsewhere.
  const Vec u = add(set1(1.0f), t);
  const Vec small = where_equal(u, set1(1.0f), t, mul(log(u), div(t, sub(u, set1(1.0f)))));
  return where_less(set1(20.0f), x, x, small);
}

static inline float first_lane(Vec v) {
  float lanes[W];
  store(lanes, v, Full{});
  return lanes[0];
}
static inline float exp1(float x) { return first_lane(exp(set1(x))); }
static inline float sigmoid1(float x) { return first_lane(sigmoid(set1(x))); }

// 1 / sqrt(mean(x^2) + eps)
static inline float inverse_rms(const float* x, i64 n, float eps) {
  return 1.0f / root(dot(x, x, n) / (float)n + eps);
}

// out = x / rms(x) * weight; out may be x.
STRATUM_COLD void rms_row(const float* x, const float* weight, i64 n, float eps, float* out) {
  const Vec scale = set1(inverse_rms(x, n, eps));
  each_vector(n, [&](i64 i, auto lanes) {
    store(out + i, mul(mul(load(x + i, lanes), scale), load(weight + i, lanes)), lanes);
  });
}

// Rotates pairs (d, d + half) of the first 2 * half values (spec 4.5).
STRATUM_COLD void rotate_row(float* x, const float* cos, const float* sin, i64 half) {
  each_vector(half, [&](i64 d, auto lanes) {
    const Vec a = load(x + d, lanes), b = load(x + half + d, lanes);
    const Vec c = load(cos + d, lanes), s = load(sin + d, lanes);
    store(x + d, sub(mul(a, c), mul(b, s)), lanes);
    store(x + half + d, add(mul(b, c), mul(a, s)), lanes);
  });
}

}  // namespace STRATUM_ISA
