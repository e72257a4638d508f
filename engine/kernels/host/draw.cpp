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
constexpr i64 kBadLogits = -1, kUnfit = -2, kDepends = -3;
constexpr i64 kAnyMask = -1;  // in place of a mask's size

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

// The largest values in descending order, ties by lower id, without minus infinity. False when one of
// all is NaN.
template <class Logits>
static bool find_candidates(const Logits x, i64 n, Candidates* c) {
  i64 i = 0;
  __m128 odd = _mm_setzero_ps();
  for (; i + 16 <= n; i += 16) {
    if (x.none(i)) continue;
    const __m128 p = x.four(i), q = x.four(i + 4), r = x.four(i + 8), s = x.four(i + 12);
    odd = _mm_or_ps(odd, _mm_or_ps(_mm_cmpunord_ps(p, q), _mm_cmpunord_ps(r, s)));
    const __m128 top = _mm_max_ps(_mm_max_ps(p, q), _mm_max_ps(r, s));
    if (_mm_movemask_ps(_mm_cmpgt_ps(top, _mm_set1_ps(c->bound))) == 0) continue;
    for (i64 j = i; j < i + 16; ++j) consider(c, x.at(j), j);
  }
  bool is_odd = _mm_movemask_ps(odd) != 0;
  for (; i < n; ++i) {
    is_odd |= x.at(i) != x.at(i);
    consider(c, x.at(i), i);
  }
  return !is_odd;
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

// Whether the best candidate is drawn from every set of tokens that it belongs to. Other sets have
// smaller weights, place by place; so their sum is not larger, nor is what top_p and min_p keep of it.
static bool is_best_sure(const Candidates& c, const DrawRules& rules, i64 position) {
  const double temperature =
      rules.temperature > kLowestTemperature ? rules.temperature : kLowestTemperature;
  const double least_weight = rules.min_p < 1.0 ? rules.min_p : 1.0;
  double sum = 0.0, kept = 0.0, second = 0.0;
  for (i64 i = 0; i < c.count; ++i) {
    const double weight = exponential(((double)c.values[i] - (double)c.values[0]) / temperature);
    sum += weight;
    if (!(weight < least_weight)) kept += weight;
    if (i == 1) second = weight;
  }
  double most = kept;
  if (rules.top_p < 1.0) {
    const double mass = rules.top_p * (1 - 1e-9) * sum;
    // The kept ones end with the one that reaches the mass: the best, whose weight is 1, or a smaller.
    const double reached = mass <= 1.0 ? 1.0 : mass + second;
    if (reached < most) most = reached;
  }
  return uniform(rules.seed, position) * most < 1.0 - 1e-12;  // sums are rounded
}

static bool all_finite(const float* x, const i64* ids, i64 count) {
  for (i64 i = 0; i < count; ++i) {
    if (!(x[ids[i]] - x[ids[i]] == 0.0f)) return false;
  }
  return true;
}

static i64 draw_row(const DrawRules* rules, float* x, i64 n, i64 position, i64 num_seen,
                    const u8* mask, i64 mask_tokens) {
  const i64 num_masked = n < mask_tokens ? n : mask_tokens;
  // Moved logits hide what the model computed, if that was no usable number.
  if (!all_finite(x, rules->bias_ids, rules->num_biases) ||
      !all_finite(x, rules->seen_ids, num_seen)) {
    const bool is_usable = mask ? usable(Masked{x, mask}, num_masked) : usable(Unmasked{x}, n);
    if (!is_usable) return kBadLogits;
  }
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
  const bool is_sound = mask ? find_candidates(Masked{x, mask}, num_masked, &found)
                             : find_candidates(Unmasked{x}, n, &found);
  for (i64 i = 0; i < num_seen; ++i) x[rules->seen_ids[i]] = before_penalties[i];
  for (i64 i = 0; i < rules->num_biases; ++i) x[rules->bias_ids[i]] = before_biases[i];
  if (!is_sound || found.count == 0 || !(found.values[0] < __builtin_inff())) return kBadLogits;
  if (rules->temperature == 0) return found.ids[0];
  if (!mask && mask_tokens == kAnyMask) {
    return is_best_sure(found, *rules, position) ? found.ids[0] : kDepends;
  }
  return draw_of(found, *rules, position);
}

// Whether rows of `n` logits have all ids that the rules name.
static bool fits(const DrawRules* rules, i64 num_seen, i64 n) {
  return rules->top_k >= 1 && rules->top_k <= kMostCandidates &&
         all_below(rules->bias_ids, rules->num_biases, n) && all_below(rules->seen_ids, num_seen, n);
}

// The token at `position` of an answer, from contiguous float32 logits [V]; kBadLogits, or kUnfit when
// something does not fit. `num_seen`: how many of the seen tokens count now, 0 for no penalties.
// `mask`: a bit for each of the first `mask_tokens` tokens, lowest first, that is set where a token may
// be drawn, in whole words of 32; null: all may. Null and kAnyMask: the best token, if it is the one
// that is drawn with every mask that allows it, else kDepends.
STRATUM_API i64 stratum_draw(const DrawRules* rules, Object logits, i64 position, i64 num_seen,
                             const u8* mask, i64 mask_tokens) {
  const ArrayHeader* a = (const ArrayHeader*)((const u8*)logits + rules->object_head);
  if (a->dimensions != 1 || !contiguous(a, 0, sizeof(float)) || !fits(rules, num_seen, a->shape[0])) {
    return kUnfit;
  }
  return draw_row(rules, (float*)a->data, a->shape[0], position, num_seen, mask, mask_tokens);
}

// Tokens of a window without penalties and masks: from each row of contiguous logits
// [num_drafts + 1, V] one, the first at `position`, until one is not what was drafted there. Returns how
// many were drawn into `out`; none from a row of no usable numbers on; or kUnfit.
STRATUM_API i64 stratum_draw_window(const DrawRules* rules, Object logits, i64 position,
                                    const i64* drafts, i64 num_drafts, i64* out) {
  const ArrayHeader* a = (const ArrayHeader*)((const u8*)logits + rules->object_head);
  if (a->dimensions != 2 || a->shape[0] != num_drafts + 1 || !contiguous(a, 0, sizeof(float)) ||
      !fits(rules, 0, a->shape[1])) {
    return kUnfit;
  }
  const i64 n = a->shape[1];
  for (i64 i = 0; i <= num_drafts; ++i) {
    const i64 token = draw_row(rules, (float*)a->data + i * n, n, position + i, 0, nullptr, 0);
    if (token < 0) return i;
    out[i] = token;
    if (i == num_drafts || token != drafts[i]) return i + 1;
  }
  return 0;  // no window
}
