// Draws a token from one row of logits: biases, penalties, temperature, top_k, top_p, min_p, in this
// order. A token is drawn for every row of a pass, so for small models this counts as an operation.
//
// Plain twin: `Sampler` of engine/decode/sampling.py, which says what is computed; the same additions
// in the same formats, but for the last bit of the exponential. Logits are changed where biases and
// penalties say, and put back before the call ends. A mask is read where the logits are: nothing is
// copied, and stretches without an allowed token are passed over. Needs no more than any x86-64.
#include <immintrin.h>

#include "arrays.h"

#if defined(_WIN32)
#define STRATUM_API extern "C" __declspec(dllexport)
#else
#define STRATUM_API extern "C" __attribute__((visibility("default")))
#endif

constexpr i64 kMostCandidates = 64;
constexpr float kLargest = 1e38f;          // changed logits end here
constexpr double kLowestTemperature = 1e-4;
constexpr i64 kBadLogits = -1, kUnfit = -2;

// `DrawRules` of engine/ops/host_draw.py. The arrays belong to the caller.
struct DrawRules {
  const i64* bias_ids;  // each once
  const double* biases;
  i64 num_biases;
  const i64* seen_ids;  // tokens that penalties count, each once
  const float* seen_counts;
  float* saved;  // room for a float for each bias and each seen token
  i64 object_head;  // bytes of a Python object before its own fields
  float repetition;
  float frequency;
  float presence;
  float unused;
  double temperature;  // 0: the largest logit wins
  double top_p;
  double min_p;
  i64 top_k;  // 1 .. kMostCandidates
  uint64_t seed;
};

struct Candidates {
  float values[kMostCandidates];
  i64 ids[kMostCandidates];
  i64 count;
  i64 most;
  float bound;  // what a further candidate must exceed
};

static void consider(Candidates* c, float value, i64 id) {
  if (!(value > c->bound)) return;
  i64 at = c->count < c->most ? c->count++ : c->most - 1;
  for (; at > 0 && c->values[at - 1] < value; --at) {
    c->values[at] = c->values[at - 1];
    c->ids[at] = c->ids[at - 1];
  }
  c->values[at] = value;
  c->ids[at] = id;
  if (c->count == c->most) c->bound = c->values[c->most - 1];
}

// All logits.
struct Unmasked {
  const float* x;
  bool none(i64) const { return false; }  // of the 16 from here on
  __m128 four(i64 i) const { return _mm_loadu_ps(x + i); }
  float at(i64 i) const { return x[i]; }
};

// The logits of the tokens whose bits are set; the others read as minus infinity.
struct Masked {
  const float* x;
  const u8* bits;
  bool none(i64 i) const { return bits[i >> 3] == 0 && bits[(i >> 3) + 1] == 0; }
  __m128 four(i64 i) const {
    const __m128i which = _mm_set1_epi32(bits[i >> 3] >> (i & 4));
    const __m128i lanes = _mm_setr_epi32(1, 2, 4, 8);
    const __m128 may = _mm_castsi128_ps(_mm_cmpeq_epi32(_mm_and_si128(which, lanes), lanes));
    return _mm_or_ps(_mm_and_ps(may, _mm_loadu_ps(x + i)),
                     _mm_andnot_ps(may, _mm_set1_ps(-__builtin_inff())));
  }
  float at(i64 i) const { return bits[i >> 3] >> (i & 7) & 1 ? x[i] : -__builtin_inff(); }
};

// The largest values in descending order, ties by lower id, without minus infinity.
template <class Logits>
static void find_candidates(const Logits x, i64 n, Candidates* c) {
  i64 i = 0;
  for (; i + 16 <= n; i += 16) {
    if (x.none(i)) continue;
    const __m128 top = _mm_max_ps(_mm_max_ps(x.four(i), x.four(i + 4)),
                                  _mm_max_ps(x.four(i + 8), x.four(i + 12)));
    if (_mm_movemask_ps(_mm_cmpgt_ps(top, _mm_set1_ps(c->bound))) == 0) continue;
    for (i64 j = i; j < i + 16; ++j) consider(c, x.at(j), j);
  }
  for (; i < n; ++i) consider(c, x.at(i), i);
}

// Whether the largest value is a finite number and none is NaN.
template <class Logits>
static bool usable(const Logits x, i64 n) {
  __m128 top = _mm_set1_ps(-__builtin_inff()), odd = _mm_setzero_ps();
  i64 i = 0;
  for (; i + 16 <= n; i += 16) {
    if (x.none(i)) continue;
    const __m128 a = x.four(i), b = x.four(i + 4), c = x.four(i + 8), d = x.four(i + 12);
    odd = _mm_or_ps(odd, _mm_or_ps(_mm_cmpunord_ps(a, b), _mm_cmpunord_ps(c, d)));
    top = _mm_max_ps(top, _mm_max_ps(_mm_max_ps(a, b), _mm_max_ps(c, d)));
  }
  float lanes[4], largest = -__builtin_inff();
  _mm_storeu_ps(lanes, top);
  bool is_odd = _mm_movemask_ps(odd) != 0;
  for (float lane : lanes) largest = lane > largest ? lane : largest;
  for (; i < n; ++i) {
    const float value = x.at(i);
    is_odd |= value != value;
    largest = value > largest ? value : largest;
  }
  return !is_odd && largest > -__builtin_inff() && largest < __builtin_inff();
}

// e^x for x <= 0; relative error below 4e-16.
static double exponential(double x) {
  static const double kInverse[15] = {0,       1.0,      1.0 / 2,  1.0 / 3,  1.0 / 4,
                                      1.0 / 5, 1.0 / 6,  1.0 / 7,  1.0 / 8,  1.0 / 9,
                                      1.0 / 10, 1.0 / 11, 1.0 / 12, 1.0 / 13, 1.0 / 14};
  if (!(x > -708.0)) return 0.0;
  const double n = (double)(i64)(x * 1.4426950408889634 - 0.5);
  const double r = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
  double p = 1.0;  // Taylor series: |r| <= 0.35, the first term left out is below 1e-17
  for (int i = 14; i > 0; --i) p = 1.0 + p * (r * kInverse[i]);
  const uint64_t bits = (uint64_t)(1023 + (i64)n) << 52;
  double power;
  __builtin_memcpy(&power, &bits, 8);
  return p * power;
}

static uint64_t mixed(uint64_t value) {
  value += 0x9E3779B97F4A7C15ull;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ull;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBull;
  return value ^ (value >> 31);
}

// In [0, 1): two rounds of SplitMix64.
static double uniform(uint64_t seed, i64 position) {
  const uint64_t step = (uint64_t)(position + 1) * 0x9E3779B97F4A7C15ull;
  return (double)(mixed(mixed(seed) + step) >> 11) * 0x1p-53;
}

static i64 draw_of(const Candidates& c, const DrawRules& rules, i64 position) {
  double weights[kMostCandidates], sum = 0.0;
  const double temperature =
      rules.temperature > kLowestTemperature ? rules.temperature : kLowestTemperature;
  for (i64 i = 0; i < c.count; ++i) {
    weights[i] = exponential(((double)c.values[i] - (double)c.values[0]) / temperature);
    sum += weights[i];
  }
  const double least_weight = rules.min_p < 1.0 ? rules.min_p : 1.0;  // the largest is 1
  const double mass = rules.top_p < 1.0 ? rules.top_p * (1 - 1e-9) * sum : __builtin_inf();
  double total = 0.0;
  i64 count = 0;
  while (count < c.count && !(weights[count] < least_weight) && !(total >= mass)) {
    total += weights[count++];
  }
  double target = uniform(rules.seed, position) * total;
  for (i64 i = 0; i < count; ++i) {
    target -= weights[i];
    if (target < 0 && weights[i] > 0) return c.ids[i];
  }
  while (count > 1 && !(weights[count - 1] > 0)) --count;  // rounded up: the last one
  return c.ids[count - 1];
}

static float limited(float x) { return x < -kLargest ? -kLargest : x > kLargest ? kLargest : x; }

static float biased(float x, double bias) {
  const double sum = (double)x + bias, most = 1e38;
  return (float)(sum < -most ? -most : sum > most ? most : sum);
}

static float penalised(float x, float count, const DrawRules& rules) {
  if (rules.repetition != 1.0f) x = x > 0 ? x / rules.repetition : x * rules.repetition;
  if (rules.frequency != 0.0f) x -= rules.frequency * count;
  return limited(x - rules.presence);
}

static bool all_below(const i64* ids, i64 count, i64 n) {
  for (i64 i = 0; i < count; ++i) {
    if (ids[i] < 0 || ids[i] >= n) return false;
  }
  return true;
}

// The token at `position` of an answer, from contiguous float32 logits [V]; kBadLogits, or kUnfit when
// something does not fit. `num_seen`: how many of the seen tokens count now, 0 for no penalties.
// `mask`: a bit for each of the first `mask_tokens` tokens, lowest first, that is set where a token may
// be drawn, in whole words of 32; null: all may.
STRATUM_API i64 stratum_draw(const DrawRules* rules, Object logits, i64 position, i64 num_seen,
                             const u8* mask, i64 mask_tokens) {
  const ArrayHeader* a = (const ArrayHeader*)((const u8*)logits + rules->object_head);
  if (a->dimensions != 1 || !contiguous(a, 0, sizeof(float))) return kUnfit;
  float* x = (float*)a->data;
  const i64 n = a->shape[0];
  if (rules->top_k < 1 || rules->top_k > kMostCandidates ||
      !all_below(rules->bias_ids, rules->num_biases, n) || !all_below(rules->seen_ids, num_seen, n)) {
    return kUnfit;
  }
  const i64 num_masked = n < mask_tokens ? n : mask_tokens;
  const bool is_usable = mask ? usable(Masked{x, mask}, num_masked) : usable(Unmasked{x}, n);
  if (!is_usable) return kBadLogits;
  float *before_biases = rules->saved, *before_penalties = rules->saved + rules->num_biases;
  for (i64 i = 0; i < rules->num_biases; ++i) {
    float* at = x + rules->bias_ids[i];
    before_biases[i] = *at;
    *at = biased(*at, rules->biases[i]);
  }
  for (i64 i = 0; i < num_seen; ++i) {
    float* at = x + rules->seen_ids[i];
    before_penalties[i] = *at;
    *at = penalised(*at, rules->seen_counts[i], *rules);
  }
  Candidates found;
  found.count = 0;
  found.most = rules->temperature == 0 ? 1 : rules->top_k;
  found.bound = -__builtin_inff();
  if (mask) {
    find_candidates(Masked{x, mask}, num_masked, &found);
  } else {
    find_candidates(Unmasked{x}, n, &found);
  }
  for (i64 i = 0; i < num_seen; ++i) x[rules->seen_ids[i]] = before_penalties[i];
  for (i64 i = 0; i < rules->num_biases; ++i) x[rules->bias_ids[i]] = before_biases[i];
  if (found.count == 0) return kBadLogits;
  return rules->temperature == 0 ? found.ids[0] : draw_of(found, *rules, position);
}
