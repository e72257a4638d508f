// Sparse attention (spec 4.5): scoring and choosing blocks, attending.
//
// Every row works through its chosen tokens in ascending order, in parts of a fixed number of tokens that
// are summed in order, so that its bits depend neither on other rows nor on threads. All query heads of a
// key-value head take a part while it lies in the cache, up to four of them share each load. The pages
// are those of attention_pages.h. Plain twin: `attention` of engine/ops/reference.py.
#pragma once
#include "attention_pages.h"
#include "select.h"

namespace STRATUM_ISA {

constexpr i64 kHeadGroup = 4;         // query heads that share loads
constexpr i64 kScoreChunk = 512;      // blocks that one item of work scores
constexpr i64 kPartTokens = 256;      // tokens of a part: 128 KB of keys and as many of values
constexpr i64 kGroupFloats = 4 * (kPartTokens + W);  // weights of a group of heads
constexpr i64 kKeptFloats = 1 << 22;  // what is kept at once: rows are taken in groups that fit

// One attention call, and the scratch of a group of its rows.
struct Attend {
  const Attention* w;
  Pages pages;
  Angles angles;
  RowsOf<float> q, index_q, out;
  RowsOf<i32> selected;  // data null when not wanted
  float* index_rows;     // [group, index_heads, index_dim] normed and rotated
  float* scores;         // [group, most_blocks]
  i64 most_blocks;
  i64 most_tokens;       // top_blocks * ratio + ratio - 1
  i64 most_parts;        // of a row
  float* queries;        // [group, heads, head_dim] normed and rotated
  float* sums;           // [group, most_parts, heads, head_dim] weighted sums of values
  float* tops;           // [group, most_parts, heads] largest scores
  float* totals;         // [group, most_parts, heads] sums of the weights
  i64* places;           // [group, most_tokens]
  i32* counts;           // [group]
  i32* chosen;           // [threads, top_blocks]
  u32* keys;             // [threads, most_blocks]
  float* thread_memory;  // [threads, thread_floats]
  i64 thread_floats;
  i64 blocks(i64 r) const { return (pages.positions[r] + 1) / w->ratio; }
  bool sparse(i64 r) const { return blocks(r) > w->top_blocks; }
};

static inline void index_query(const Attend& a, i64 r, float* to) {
  const i64 dim = a.w->index_dim;
  for (i64 h = 0; h < a.w->index_heads; ++h) {
    rms_row(a.index_q.row(r) + h * dim, a.w->index_q_norm, dim, (float)a.w->eps, to + h * dim);
    rotate_row(to + h * dim, a.angles.cos.row(r), a.angles.sin.row(r), a.w->rope_dim / 2);
  }
}

// Scores of blocks from .. to-1: the sum over index heads of relu(query . key).
template <class T>
static inline void score_blocks(const Attend& a, i64 r, const float* query, i64 from, i64 to,
                                float* scores) {
  const i64 dim = a.w->index_dim, ratio = a.w->ratio;
  for (i64 b = from; b < to; ++b) {
    const T* key = (const T*)a.pages.index_pooled + a.pages.place(r, b * ratio) / ratio * dim;
    float total = 0.0f;
    for (i64 first = 0; first < a.w->index_heads; first += 4) {
      const i64 heads = least(4, a.w->index_heads - first);
      Vec sums[4] = {zero(), zero(), zero(), zero()};
      const float* q = query + first * dim;
      if (heads == 4) {
        each_vector(dim, [&](i64 i, auto lanes) {
          const Vec k = load(key + i, lanes);
          STRATUM_UNROLLED
          for (i64 h = 0; h < 4; ++h) sums[h] = fma(k, load(q + h * dim + i, lanes), sums[h]);
        });
      } else {
        each_vector(dim, [&](i64 i, auto lanes) {
          const Vec k = load(key + i, lanes);
          for (i64 h = 0; h < heads; ++h) sums[h] = fma(k, load(q + h * dim + i, lanes), sums[h]);
        });
      }
      // max(x, 0) gives +0 for -0 and for NaN: the order of the bits is then the order of values.
      alignas(16) float four[4];
      _mm_store_ps(four, _mm_max_ps(sum4(sums[0], sums[1], sums[2], sums[3]), _mm_setzero_ps()));
      for (i64 h = 0; h < heads; ++h) total += four[h];
    }
    scores[b] = total;
  }
}

// Chooses the blocks of row r and lists the places of all its tokens.
STRATUM_COLD void choose_tokens(const Attend& a, i64 r, const float* scores, i64* places,
                                 i32* count, i64 thread) {
  const i64 blocks = a.blocks(r), top = a.w->top_blocks, ratio = a.w->ratio;
  i32* chosen = a.chosen + thread * top;
  const i64 num_chosen = least(blocks, top);
  if (blocks > top) {
    choose_largest(scores, blocks, top, a.keys + thread * a.most_blocks, chosen);
  } else {
    for (i64 b = 0; b < blocks; ++b) chosen[b] = (i32)b;
  }
  i64 n = 0;
  for (i64 i = 0; i < num_chosen; ++i) {
    const i64 first = a.pages.place(r, (i64)chosen[i] * ratio);
    for (i64 t = 0; t < ratio; ++t) places[n++] = first + t;
  }
  for (i64 t = blocks * ratio; t <= a.pages.positions[r]; ++t) places[n++] = a.pages.place(r, t);
  *count = (i32)n;
  if (a.selected.data != nullptr) {
    i32* to = a.selected.row(r);
    for (i64 i = 0; i < top; ++i) to[i] = i < num_chosen ? chosen[i] : -1;
  }
}

// Tokens whose keys are multiplied together, and vectors of values that are summed together: with
// four heads the sums fill half of the registers.
constexpr int kTokens = W == 16 ? 4 : 2;
constexpr i64 kTokensAhead = 12;  // whose keys or values are fetched meanwhile

// Scores of N tokens for G heads, [N, 4]; the result is the largest of each head. `left`: places that
// follow. Meanwhile rows of `fetched` are brought near: the keys themselves, or the values.
template <class T, int G, int N>
static inline __m128 score_tokens(const T* keys, const T* fetched, i64 step, const i64* places,
                                  i64 left, const float* q, i64 d, __m128 scale, float* scores) {
  const T* key[N];
  Vec sums[N][4];
  STRATUM_UNROLLED
  for (int n = 0; n < N; ++n) {
    key[n] = keys + places[n] * step;
    STRATUM_UNROLLED
    for (int g = 0; g < 4; ++g) sums[n][g] = zero();
    if (kTokensAhead + n < left) {
      const T* ahead = fetched + places[kTokensAhead + n] * step;
      for (i64 i = 0; i < d; i += 64 / (i64)sizeof(T)) _mm_prefetch((const char*)(ahead + i), _MM_HINT_T0);
    }
  }
  each_vector(d, [&](i64 i, auto lanes) {
    Vec k[N];
    STRATUM_UNROLLED
    for (int n = 0; n < N; ++n) k[n] = load(key[n] + i, lanes);
    STRATUM_UNROLLED
    for (int g = 0; g < G; ++g) {
      const Vec of_head = load(q + g * d + i, lanes);
      STRATUM_UNROLLED
      for (int n = 0; n < N; ++n) sums[n][g] = fma(k[n], of_head, sums[n][g]);
    }
  });
  __m128 top = _mm_set1_ps(-__builtin_inff());
  STRATUM_UNROLLED
  for (int n = 0; n < N; ++n) {
    const __m128 s = _mm_mul_ps(sum4(sums[n][0], sums[n][1], sums[n][2], sums[n][3]), scale);
    _mm_storeu_ps(scores + 4 * n, s);
    top = _mm_max_ps(top, s);
  }
  return top;
}

// N vectors of the weighted sums of all tokens' values.
template <class T, int G, int N, class Lanes>
static inline void add_values(const T* values, i64 step, const i64* places, i64 count,
                              const float* weights, Vec (*sums)[G], Lanes lanes) {
  Vec total[N][G];
  STRATUM_UNROLLED
  for (int n = 0; n < N; ++n) {
    STRATUM_UNROLLED
    for (int g = 0; g < G; ++g) total[n][g] = zero();
  }
  for (i64 t = 0; t < count; ++t) {
    const T* value = values + places[t] * step;
    if (t + kTokensAhead < count) {
      const T* ahead = values + places[t + kTokensAhead] * step;
      STRATUM_UNROLLED
      for (i64 i = 0; i < N * W; i += 64 / (i64)sizeof(T)) {
        _mm_prefetch((const char*)(ahead + i), _MM_HINT_T0);
      }
    }
    Vec v[N];
    STRATUM_UNROLLED
    for (int n = 0; n < N; ++n) v[n] = load(value + n * W, lanes);
    STRATUM_UNROLLED
    for (int g = 0; g < G; ++g) {
      const Vec weight = set1(weights[4 * t + g]);
      STRATUM_UNROLLED
      for (int n = 0; n < N; ++n) total[n][g] = fma(weight, v[n], total[n][g]);
    }
  }
  STRATUM_UNROLLED
  for (int n = 0; n < N; ++n) {
    STRATUM_UNROLLED
    for (int g = 0; g < G; ++g) sums[n][g] = total[n][g];
  }
}

static inline void attention_query(const Attend& a, i64 r, float* to) {
  const i64 d = a.w->head_dim;
  for (i64 h = 0; h < a.w->heads; ++h) {
    rms_row(a.q.row(r) + h * 2 * d, a.w->q_norm, d, (float)a.w->eps, to + h * d);
    rotate_row(to + h * d, a.angles.cos.row(r), a.angles.sin.row(r), a.w->rope_dim / 2);
  }
}

// One part of a row's tokens, and where G heads leave what they make of it.
struct TokenPart {
  const i64* places;
  i64 count;
  float* sums;    // [heads, head_dim]
  float* tops;    // [heads]
  float* totals;  // [heads]
};

// Weights exp(score - largest score of the part) of G query heads of one key-value head.
template <class T, int G>
static inline void weigh_tokens(const Attend& a, const float* queries, i64 first_head,
                                const TokenPart& part, float* weights) {
  const Attention* w = a.w;
  const i64 d = w->head_dim, per_kv = w->heads / w->kv_heads, kv_head = first_head / per_kv;
  const i64 step = w->kv_heads * d, count = part.count;
  const i64* places = part.places;
  const T* keys = (const T*)a.pages.keys + kv_head * d;
  // The first heads wait for the keys; while the next ones use them again, the values come.
  const T* fetched = first_head % per_kv == 0 ? keys : (const T*)a.pages.values + kv_head * d;
  const float* q = queries + first_head * d;
  const __m128 scale = _mm_set1_ps(1.0f / root((float)d));
  __m128 top = _mm_set1_ps(-__builtin_inff());
  i64 t = 0;
  for (; t + kTokens <= count; t += kTokens) {
    top = _mm_max_ps(top, score_tokens<T, G, kTokens>(keys, fetched, step, places + t, count - t, q,
                                                      d, scale, weights + 4 * t));
  }
  for (; t < count; ++t) {
    top = _mm_max_ps(top, score_tokens<T, G, 1>(keys, fetched, step, places + t, 1, q, d, scale,
                                                weights + 4 * t));
  }
  // exp of all weights, W / 4 tokens at a time; places past the end count as -infinity.
  const i64 padded = ceil_div(count, W / 4) * (W / 4);
  for (i64 j = 4 * count; j < 4 * padded; ++j) weights[j] = -__builtin_inff();
  alignas(16) float tops[4];
  _mm_store_ps(tops, top);
  alignas(64) float pattern[W];
  for (i64 i = 0; i < W; ++i) pattern[i] = tops[i % 4];
  const Vec top_pattern = load(pattern, Full{});
  Vec totals = zero();
  for (i64 i = 0; i < 4 * padded; i += W) {
    const Vec e = exp(sub(load(weights + i, Full{}), top_pattern));
    store(weights + i, e, Full{});
    totals = add(totals, e);
  }
  store(pattern, totals, Full{});
  float total[4] = {0, 0, 0, 0};
  for (i64 i = 0; i < W; ++i) total[i % 4] += pattern[i];
  for (int g = 0; g < G; ++g) {
    part.tops[first_head + g] = tops[g];
    part.totals[first_head + g] = total[g];
  }
}

// Weighted sums of the part's values for the same heads.
template <class T, int G>
static inline void sum_values(const Attend& a, i64 first_head, const TokenPart& part,
                              const float* weights) {
  const Attention* w = a.w;
  const i64 d = w->head_dim, step = w->kv_heads * d;
  const T* values = (const T*)a.pages.values + first_head / (w->heads / w->kv_heads) * d;
  const auto keep = [&](i64 i, auto lanes, const Vec* sums) {
    STRATUM_UNROLLED
    for (int g = 0; g < G; ++g) store(part.sums + (first_head + g) * d + i, sums[g], lanes);
  };
  i64 i = 0;
  for (; i + kTokens * W <= d; i += kTokens * W) {
    Vec sums[kTokens][G];
    add_values<T, G, kTokens>(values + i, step, part.places, part.count, weights, sums, Full{});
    STRATUM_UNROLLED
    for (int n = 0; n < kTokens; ++n) keep(i + n * W, Full{}, sums[n]);
  }
  each_vector(d - i, [&](i64 j, auto lanes) {
    Vec sums[1][G];
    add_values<T, G, 1>(values + i + j, step, part.places, part.count, weights, sums, lanes);
    keep(i + j, lanes, sums[0]);
  });
}

// Calls f(first head, number of heads as a constant, number of the group) for groups of heads.
template <class F>
static inline void each_group(i64 begin, i64 end, const F& f) {
  i64 group = 0;
  for (i64 first = begin; first < end; first += kHeadGroup, ++group) {
    switch (least(kHeadGroup, end - first)) {
      case 1: f(first, Number<1>{}, group); break;
      case 2: f(first, Number<2>{}, group); break;
      case 3: f(first, Number<3>{}, group); break;
      default: f(first, Number<4>{}, group);
    }
  }
}

// All heads of a key-value head over a part; `weights`: `[groups, kGroupFloats]`.
template <class T>
static inline void attend_part(const Attend& a, const float* queries, i64 kv_head,
                               const TokenPart& part, float* weights) {
  const i64 per_kv = a.w->heads / a.w->kv_heads;
  const i64 begin = kv_head * per_kv, end = begin + per_kv;
  each_group(begin, end, [&](i64 first, auto heads, i64 group) {
    weigh_tokens<T, decltype(heads)::value>(a, queries, first, part, weights + group * kGroupFloats);
  });
  each_group(begin, end, [&](i64 first, auto heads, i64 group) {
    sum_values<T, decltype(heads)::value>(a, first, part, weights + group * kGroupFloats);
  });
}

// The parts of one head put together, divided by the sum of all weights, and gated.
static inline void join_parts(const Attend& a, i64 r, i64 head, const float* sums, const float* tops,
                              const float* totals, i64 parts, float* factors) {
  const i64 d = a.w->head_dim, heads = a.w->heads;
  float top = tops[head];
  for (i64 p = 1; p < parts; ++p) {
    if (tops[p * heads + head] > top) top = tops[p * heads + head];
  }
  for (i64 p = 0; p < parts; ++p) factors[p] = tops[p * heads + head];
  each_vector(parts, [&](i64 p, auto lanes) {
    store(factors + p, exp(sub(load(factors + p, lanes), set1(top))), lanes);
  });
  float total = 0.0f;
  for (i64 p = 0; p < parts; ++p) total += totals[p * heads + head] * factors[p];
  const float* gates = a.q.row(r) + head * 2 * d + d;
  float* out = a.out.row(r) + head * d;
  each_vector(d, [&](i64 i, auto lanes) {
    Vec sum = zero();
    for (i64 p = 0; p < parts; ++p) {
      sum = fma(set1(factors[p]), load(sums + (p * heads + head) * d + i, lanes), sum);
    }
    store(out + i, mul(div(sum, set1(total)), sigmoid(load(gates + i, lanes))), lanes);
  });
}

// Scores of the rows first .. first+count-1 that have more blocks than they may attend to.
static inline void score_rows(Context* c, const Attend& a, i64 first, i64 count) {
  const i64 index_width = a.w->index_heads * a.w->index_dim;
  i64 blocks = 0;
  for (i64 i = 0; i < count; ++i) {
    if (!a.sparse(first + i)) continue;
    index_query(a, first + i, a.index_rows + i * index_width);
    blocks = most(blocks, a.blocks(first + i));
  }
  const i64 chunks = ceil_div(blocks, kScoreChunk);
  parallel(c, count * chunks, count * blocks * index_width / 8, [&](i64 item, i64) {
    const i64 i = item / chunks, r = first + i, from = item % chunks * kScoreChunk;
    const i64 to = least(a.blocks(r), from + kScoreChunk);
    if (!a.sparse(r) || from >= to) return;
    (a.pages.element_bytes == 2 ? score_blocks<u16> : score_blocks<float>)(
        a, r, a.index_rows + i * index_width, from, to, a.scores + i * a.most_blocks);
  });
}

static inline void attend_rows(Context* c, const Attend& a, i64 first, i64 count) {
  const Attention* w = a.w;
  const i64 d = w->head_dim, heads = w->heads, parts = a.most_parts;
  score_rows(c, a, first, count);
  parallel(c, count, count * (a.most_blocks + heads * d), [&](i64 i, i64 thread) {
    choose_tokens(a, first + i, a.scores + i * a.most_blocks, a.places + i * a.most_tokens,
                  a.counts + i, thread);
    attention_query(a, first + i, a.queries + i * heads * d);
  });
  i64 tokens = 0;
  for (i64 i = 0; i < count; ++i) tokens += a.counts[i];
  parallel(c, count * w->kv_heads * parts, tokens * heads * d / 6, [&](i64 item, i64 thread) {
    const i64 kv_head = item / parts % w->kv_heads, i = item / (parts * w->kv_heads);
    const i64 p = item % parts, from = p * kPartTokens;
    if (from >= a.counts[i]) return;
    const i64 at = (i * parts + p) * heads;
    const TokenPart part = {a.places + i * a.most_tokens + from, least(kPartTokens, a.counts[i] - from),
                       a.sums + at * d, a.tops + at, a.totals + at};
    (a.pages.element_bytes == 2 ? attend_part<u16> : attend_part<float>)(
        a, a.queries + i * heads * d, kv_head, part, a.thread_memory + thread * a.thread_floats);
  });
  parallel(c, count * heads, tokens * heads * d / kPartTokens, [&](i64 item, i64 thread) {
    const i64 i = item / heads, at = i * parts * heads;
    join_parts(a, first + i, item % heads, a.sums + at * d, a.tops + at, a.totals + at,
               ceil_div(a.counts[i], kPartTokens), a.thread_memory + thread * a.thread_floats);
  });
}

STRATUM_OPERATION i32 attention(Context* c, const Attention* w, Object keys, Object values,
                     Object index_pooled, Object positions, Object row_seq, Object page_table,
                     Object cos, Object sin, Object q, Object index_q, Object out,
                     Object selected) {
  bool ok = true;
  Attend a;
  a.w = w;
  a.q = rows_of<float>(c, q, &ok);
  a.index_q = rows_of<float>(c, index_q, &ok);
  a.out = rows_of<float>(c, out, &ok);
  const i64 R = a.q.rows, d = w->head_dim;
  a.angles = angles_of(c, w, cos, sin, R, &ok);
  a.selected = {nullptr, 0, 0, 0};
  if (selected != nullptr) {
    a.selected = rows_of<i32>(c, selected, &ok);
    if (a.selected.rows != R || a.selected.width != w->top_blocks) ok = false;
  }
  if (!ok || a.index_q.rows != R || a.out.rows != R || a.q.width != w->heads * 2 * d ||
      a.out.width != w->heads * d || a.index_q.width != w->index_heads * w->index_dim ||
      !pages_of(c, w, keys, values, index_pooled, positions, row_seq, page_table, R, &a.pages)) {
    return kWrongShape;
  }
  a.most_blocks = 1;
  for (i64 r = 0; r < R; ++r) {
    if (a.sparse(r)) a.most_blocks = most(a.most_blocks, a.blocks(r));
  }
  a.most_tokens = w->top_blocks * w->ratio + w->ratio - 1;
  i64 longest = 0;  // tokens that a row of this pass attends to
  for (i64 r = 0; r < R; ++r) {
    longest = most(longest, least(a.pages.positions[r] + 1, a.most_tokens));
  }
  a.most_parts = most(1, ceil_div(longest, kPartTokens));
  const i64 kept = a.most_parts * w->heads * (d + 2);
  const i64 group = most(1, least(R, kKeptFloats / most(kept, most(a.most_blocks, a.most_tokens))));
  const i64 threads = pool_threads(c->pool);
  a.thread_floats = most(ceil_div(w->heads / w->kv_heads, kHeadGroup) * kGroupFloats,
                         ceil_div(a.most_parts, W) * W);
  Scratch scratch(c);
  a.index_rows = scratch.take<float>(group * w->index_heads * w->index_dim);
  a.scores = scratch.take<float>(group * a.most_blocks);
  a.queries = scratch.take<float>(group * w->heads * d);
  a.sums = scratch.take<float>(group * a.most_parts * w->heads * d);
  a.tops = scratch.take<float>(group * a.most_parts * w->heads);
  a.totals = scratch.take<float>(group * a.most_parts * w->heads);
  a.places = scratch.take<i64>(group * a.most_tokens);
  a.counts = scratch.take<i32>(group);
  a.chosen = scratch.take<i32>(threads * w->top_blocks);
  a.keys = scratch.take<u32>(threads * a.most_blocks);
  a.thread_memory = scratch.take<float>(threads * a.thread_floats);
  if (!scratch.ok()) return kOutOfMemory;
  for (i64 first = 0; first < R; first += group) {
    attend_rows(c, a, first, least(group, R - first));
  }
  return kOk;
}

}  // namespace STRATUM_ISA
