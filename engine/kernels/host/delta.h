// Gated DeltaNet (spec 4.4): convolution, gates, the delta rule as a recurrence, gated norm.
//
// The state [dk, dv] of a head falls into independent columns. A tile of them is copied into thread
// memory (16 KB at head size 128: it stays in the first-level cache), carried through all rows of the
// sequence, and written to the other half: the state crosses memory once per pass, however many
// rows; a step also predicts for the next row's key, so that each row is one walk over the tile. With
// few rows the state goes from one half to the other directly. The chunked form of the
// specification is not used: it needs as many multiply-adds as the recurrence, which gives the same
// bits whatever the passes. Plain twin: `delta_mix` and `delta_commit` of engine/ops/reference.py.
#pragma once
#include "sequences.h"

namespace STRATUM_ISA {

constexpr i64 kStateTile = 32;  // columns

// The pool of one layer.
struct DeltaState {
  float* state;         // [slots, 2, v_heads, d, d]
  float* conv;          // [slots, 2, taps - 1, C]
  float* window_conv;   // [slots, W, C]
  float* window_k;      // [slots, W, k_heads, d]
  float* window_v;      // [slots, W, v_heads, d]
  float* window_decay;  // [slots, W, v_heads]
  float* window_beta;   // [slots, W, v_heads]
  i64 slots;
  i64 window;
  i64 channels;
};

struct DeltaObjects {
  Object state, conv, window_conv, window_k, window_v, window_decay, window_beta;
};

static inline DeltaState delta_state(Context* c, const Delta* w, const DeltaObjects& o, bool* ok) {
  DeltaState p;
  p.channels = (2 * w->k_heads + w->v_heads) * w->head_dim;
  const Whole window = whole(c, o.window_conv, ok);
  if (window.dimensions != 3) *ok = false;
  if (!*ok) return p;
  p.slots = window.shape[0];
  p.window = window.shape[1];
  const i64 d = w->head_dim, heads = p.slots * p.window * w->v_heads;
  p.state = all_of<float>(c, o.state, p.slots * 2 * w->v_heads * d * d, ok);
  p.conv = all_of<float>(c, o.conv, p.slots * 2 * (w->taps - 1) * p.channels, ok);
  p.window_conv = all_of<float>(c, o.window_conv, p.slots * p.window * p.channels, ok);
  p.window_k = all_of<float>(c, o.window_k, p.slots * p.window * w->k_heads * d, ok);
  p.window_v = all_of<float>(c, o.window_v, heads * d, ok);
  p.window_decay = all_of<float>(c, o.window_decay, heads, ok);
  p.window_beta = all_of<float>(c, o.window_beta, heads, ok);
  return p;
}

// The rows of one sequence as the recurrence reads them; strides in floats from row to row.
struct DeltaRows {
  i64 count;
  const float* q;  // null in a commit
  const float* k;
  const float* v;
  const float* decay;
  const float* beta;
  i64 q_stride, k_stride, v_stride, gate_stride;
  float* out;  // [count, v_heads * d], or null
  i64 out_stride;
};

// Sums over the rows of N vectors of columns, of even and of odd rows: two, to hide latency.
template <int N>
struct ColumnSums {
  Vec even[N], odd[N];
  void clear() {
    STRATUM_UNROLLED
    for (i64 n = 0; n < N; ++n) even[n] = odd[n] = zero();
  }
};

// k^T M for N vectors of columns of a state with d rows.
template <int N>
static inline void delta_predict(const float* from, i64 stride, i64 d, const float* k,
                                 ColumnSums<N>* sums) {
  sums->clear();
  const auto row = [&](i64 i, Vec* to) {
    const Vec k0 = set1(k[i]);
    STRATUM_UNROLLED
    for (i64 n = 0; n < N; ++n) to[n] = fma(k0, load(from + i * stride + n * W, Full{}), to[n]);
  };
  i64 i = 0;
  for (; i + 2 <= d; i += 2) {
    row(i, sums->even);
    row(i + 1, sums->odd);
  }
  if (i < d) row(i, sums->even);
}

// What a token changes: beta (v - decayed prediction).
template <int N>
static inline void delta_change(const ColumnSums<N>& predicted, const float* v, Vec keep, float beta,
                                Vec* change) {
  STRATUM_UNROLLED
  for (i64 n = 0; n < N; ++n) {
    const Vec p = mul(keep, add(predicted.even[n], predicted.odd[n]));
    change[n] = mul(set1(beta), sub(load(v + n * W, Full{}), p));
  }
}

// The state after a token, from `from` to `to`, which may be the same; q^T of it; and, where
// `kNext`, what it predicts for the next token's key.
template <int N, bool kNext>
static inline void delta_update(const float* from, i64 from_stride, float* to, i64 to_stride, i64 d,
                                const float* k, const float* q, const float* next_k, Vec keep,
                                const Vec* change, float* out, ColumnSums<N>* next) {
  ColumnSums<N> sums;
  sums.clear();
  if (kNext) next->clear();
  const auto row = [&](i64 at, Vec* read, Vec* predicted) {
    const Vec k0 = set1(k[at]);
    const Vec q0 = q != nullptr ? set1(q[at]) : zero();
    const Vec next0 = kNext ? set1(next_k[at]) : zero();
    STRATUM_UNROLLED
    for (i64 n = 0; n < N; ++n) {
      const Vec now = fma(k0, change[n], mul(keep, load(from + at * from_stride + n * W, Full{})));
      store(to + at * to_stride + n * W, now, Full{});
      read[n] = fma(q0, now, read[n]);
      if (kNext) predicted[n] = fma(next0, now, predicted[n]);
    }
  };
  i64 i = 0;
  for (; i + 2 <= d; i += 2) {
    row(i, sums.even, next->even);
    row(i + 1, sums.odd, next->odd);
  }
  if (i < d) row(i, sums.even, next->even);
  if (out != nullptr) {
    STRATUM_UNROLLED
    for (i64 n = 0; n < N; ++n) store(out + n * W, add(sums.even[n], sums.odd[n]), Full{});
  }
}

constexpr i64 kFewTokens = 4;
constexpr i64 kSmallHead = 64;  // its state stays in the first-level cache whatever the tokens

// Tokens for N vectors of columns from `start` on: the first one carries the state from one half of the
// pool to the other in memory order, without a copy; the others find it in the cache. With up to four
// vectors there are registers for a step to predict for the next token too.
template <int N>
static inline void delta_columns(const DeltaRows& rows, i64 d, i64 head, i64 k_head, i64 start,
                                 const float* from, float* to) {
  constexpr bool kAhead = W == 16 && N <= 4;
  ColumnSums<N> predicted;
  for (i64 r = 0; r < rows.count; ++r) {
    const i64 gate = r * rows.gate_stride + head;
    const float* before = (r == 0 ? from : to) + start;
    const float* k = rows.k + r * rows.k_stride + k_head * d;
    const float* q = rows.q == nullptr ? nullptr : rows.q + r * rows.q_stride + k_head * d;
    float* out = rows.out == nullptr ? nullptr : rows.out + r * rows.out_stride + head * d + start;
    const Vec keep = set1(exp1(rows.decay[gate]));
    Vec change[N];
    if (!kAhead || r == 0) delta_predict<N>(before, d, d, k, &predicted);
    delta_change<N>(predicted, rows.v + r * rows.v_stride + head * d + start, keep, rows.beta[gate],
                    change);
    if (kAhead && r + 1 < rows.count) {
      delta_update<N, kAhead>(before, d, to + start, d, d, k, q, k + rows.k_stride, keep, change, out,
                              &predicted);
    } else {
      delta_update<N, false>(before, d, to + start, d, d, k, q, nullptr, keep, change, out, &predicted);
    }
  }
}

// Carries one head's state through the rows. `memory`: (d + 2) * kStateTile floats of this thread.
static inline void delta_head(const Delta* w, i64 head, const DeltaRows& rows, const float* from,
                              float* to, float* memory) {
  const i64 d = w->head_dim, k_head = head % w->k_heads;
  float* tile = memory;
  float* value = memory + d * kStateTile;
  float* result = value + kStateTile;
  i64 start = 0;
  if (rows.count <= kFewTokens || (W == 16 && d <= kSmallHead)) {
    constexpr int kWide = W == 16 ? 8 : 4;  // vectors whose sums fit into registers
    for (; start + kWide * W <= d; start += kWide * W) {
      delta_columns<kWide>(rows, d, head, k_head, start, from, to);
    }
    for (; W == 16 && start + 4 * W <= d; start += 4 * W) {  // heads of 64: whole rows of the state
      delta_columns<4>(rows, d, head, k_head, start, from, to);
    }
    for (; start + kStateTile <= d; start += kStateTile) {
      delta_columns<kStateTile / W>(rows, d, head, k_head, start, from, to);
    }
  }
  for (; start < d; start += kStateTile) {
    const i64 width = least(kStateTile, d - start);
    __builtin_memset(value, 0, kStateTile * sizeof(float));
    for (i64 i = 0; i < d; ++i) {
      if (width < kStateTile) __builtin_memset(tile + i * kStateTile, 0, kStateTile * sizeof(float));
      copy(from + i * d + start, width, tile + i * kStateTile);
    }
    constexpr int N = kStateTile / W;
    ColumnSums<N> predicted;
    Vec change[N];
    delta_predict<N>(tile, kStateTile, d, rows.k + k_head * d, &predicted);
    for (i64 r = 0; r < rows.count; ++r) {
      copy(rows.v + r * rows.v_stride + head * d + start, width, value);
      const float* k = rows.k + r * rows.k_stride + k_head * d;
      const float* q = rows.q == nullptr ? nullptr : rows.q + r * rows.q_stride + k_head * d;
      float* out = rows.out == nullptr ? nullptr : result;
      const Vec keep = set1(exp1(rows.decay[r * rows.gate_stride + head]));
      delta_change<N>(predicted, value, keep, rows.beta[r * rows.gate_stride + head], change);
      if (r + 1 < rows.count) {
        delta_update<N, true>(tile, kStateTile, tile, kStateTile, d, k, q, k + rows.k_stride, keep,
                              change, out, &predicted);
      } else {
        delta_update<N, false>(tile, kStateTile, tile, kStateTile, d, k, q, nullptr, keep, change, out,
                               &predicted);
      }
      if (rows.out != nullptr) copy(result, width, rows.out + r * rows.out_stride + head * d + start);
    }
    for (i64 i = 0; i < d; ++i) copy(tile + i * kStateTile, width, to + i * d + start);
  }
}

// Everything of a delta_mix call that its stages share.
struct DeltaCall {
  const Delta* w;
  DeltaState pool;
  const i32 *seq_start, *seq_slot, *seq_half;
  i64 sequences;
  RowsOf<float> qkv, z, alpha, beta, out;
  float* mixed;  // [R, C] after convolution and norms
  float* decay;  // [R, v_heads]
  float* rate;   // [R, v_heads]
  float* history(i64 s, i64 other) const {
    const i64 half = other ? 1 - seq_half[s] : seq_half[s];
    return pool.conv + (seq_slot[s] * 2 + half) * (w->taps - 1) * pool.channels;
  }
};

static inline void delta_convolve(const DeltaCall& call, i64 s, i64 r, float* to) {
  const i64 C = call.pool.channels, taps = call.w->taps, first = call.seq_start[s];
  const float* history = call.history(s, 0);
  each_vector(C, [&](i64 i, auto lanes) {
    Vec total = zero();
    for (i64 j = 0; j < taps; ++j) {
      const i64 row = r - (taps - 1) + j;
      const float* u = row >= first ? call.qkv.row(row) : history + (taps - 1 + row - first) * C;
      total = fma(load(call.w->conv + j * C + i, lanes), load(u + i, lanes), total);
    }
    store(to + i, silu(total), lanes);
  });
}

static inline void scale_heads(float* x, i64 heads, i64 d, float by) {
  for (i64 h = 0; h < heads; ++h) {
    float* head = x + h * d;
    const Vec scale = set1(by / root(dot(head, head, d) + 1e-6f));
    each_vector(d, [&](i64 i, auto lanes) {
      store(head + i, mul(load(head + i, lanes), scale), lanes);
    });
  }
}

// Row r of sequence s: convolution, norms of q and k, gates, and the window for a later commit.
static inline void delta_row(const DeltaCall& call, i64 s, i64 r) {
  const Delta* w = call.w;
  const DeltaState& p = call.pool;
  const i64 d = w->head_dim, C = p.channels, heads = w->v_heads;
  float* mixed = call.mixed + r * C;
  delta_convolve(call, s, r, mixed);
  scale_heads(mixed, w->k_heads, d, 1.0f / root((float)d));
  scale_heads(mixed + w->k_heads * d, w->k_heads, d, 1.0f);
  float *decay = call.decay + r * heads, *rate = call.rate + r * heads;
  each_vector(heads, [&](i64 h, auto lanes) {
    const Vec step = softplus(add(load(call.alpha.row(r) + h, lanes), load(w->dt + h, lanes)));
    store(decay + h, mul(load(w->a + h, lanes), step), lanes);
    store(rate + h, sigmoid(load(call.beta.row(r) + h, lanes)), lanes);
  });
  const i64 in_seq = r - call.seq_start[s];
  if (call.seq_start[s + 1] - call.seq_start[s] > p.window) return;
  const i64 at = call.seq_slot[s] * p.window + in_seq;
  copy(call.qkv.row(r), C, p.window_conv + at * C);
  copy(mixed + w->k_heads * d, w->k_heads * d, p.window_k + at * w->k_heads * d);
  copy(mixed + 2 * w->k_heads * d, heads * d, p.window_v + at * heads * d);
  copy(decay, heads, p.window_decay + at * heads);
  copy(rate, heads, p.window_beta + at * heads);
}

// Sequence s, head h: the recurrence, then the gated norm of its outputs.
static inline void delta_sequence(const DeltaCall& call, i64 s, i64 head, float* memory) {
  const Delta* w = call.w;
  const i64 d = w->head_dim, C = call.pool.channels, heads = w->v_heads;
  const i64 first = call.seq_start[s], count = call.seq_start[s + 1] - first;
  const float* mixed = call.mixed + first * C;
  const DeltaRows rows = {count,
                          mixed,
                          mixed + w->k_heads * d,
                          mixed + 2 * w->k_heads * d,
                          call.decay + first * heads,
                          call.rate + first * heads,
                          C,
                          C,
                          C,
                          heads,
                          call.out.row(first),
                          call.out.stride};
  const i64 half = call.seq_half[s], slot = call.seq_slot[s];
  float* base = call.pool.state + (slot * 2 * heads + head) * d * d;
  delta_head(w, head, rows, base + half * heads * d * d, base + (1 - half) * heads * d * d, memory);
  for (i64 r = first; r < first + count; ++r) {
    float* o = call.out.row(r) + head * d;
    const float* z = call.z.row(r) + head * d;
    const Vec scale = set1(inverse_rms(o, d, (float)w->eps));
    each_vector(d, [&](i64 i, auto lanes) {
      const Vec normed = mul(mul(load(o + i, lanes), scale), load(w->norm + i, lanes));
      store(o + i, mul(normed, sigmoid(load(z + i, lanes))), lanes);
    });
  }
}

STRATUM_OPERATION i32 delta_mix(Context* c, const Delta* w, Object state, Object conv, Object window_conv,
                     Object window_k, Object window_v, Object window_decay, Object window_beta,
                     Object seq_start, Object seq_slot, Object seq_half, Object qkv, Object z,
                     Object alpha, Object beta, Object out) {
  bool ok = true;
  DeltaCall call;
  call.w = w;
  call.pool = delta_state(
      c, w, {state, conv, window_conv, window_k, window_v, window_decay, window_beta}, &ok);
  const Whole slots = whole(c, seq_slot, &ok);
  call.sequences = slots.elements;
  call.seq_slot = (const i32*)slots.data;
  call.seq_start = all_of<i32>(c, seq_start, call.sequences + 1, &ok);
  call.seq_half = all_of<i32>(c, seq_half, call.sequences, &ok);
  call.qkv = rows_of<float>(c, qkv, &ok);
  call.z = rows_of<float>(c, z, &ok);
  call.alpha = rows_of<float>(c, alpha, &ok);
  call.beta = rows_of<float>(c, beta, &ok);
  call.out = rows_of<float>(c, out, &ok);
  const i64 R = call.qkv.rows, d = w->head_dim, heads = w->v_heads, C = call.pool.channels;
  if (!ok || call.qkv.width != C || call.z.width != heads * d || call.out.width != heads * d ||
      call.alpha.width != heads || call.beta.width != heads || call.z.rows != R ||
      call.alpha.rows != R || call.beta.rows != R || call.out.rows != R ||
      !sequences_fit(call.sequences, call.seq_start, call.seq_slot, call.seq_half, R,
                     call.pool.slots)) {
    return kWrongShape;
  }
  Scratch scratch(c);
  const i64 thread_floats = (d + 2) * kStateTile;
  call.mixed = scratch.take<float>(R * C);
  call.decay = scratch.take<float>(R * heads);
  call.rate = scratch.take<float>(R * heads);
  i32* row_seq = scratch.take<i32>(R);
  i32* starts = scratch.take<i32>(call.sequences + 1);
  float* memory = scratch.take<float>(pool_threads(c->pool) * thread_floats);
  if (!scratch.ok()) return kOutOfMemory;

  call.seq_start = own_starts(call.seq_start, call.sequences, starts);
  for (i64 s = 0; s < call.sequences; ++s) {
    for (i64 r = call.seq_start[s]; r < call.seq_start[s + 1]; ++r) row_seq[r] = (i32)s;
  }
  parallel(c, R, R * C, [&](i64 r, i64) { delta_row(call, row_seq[r], r); });
  for (i64 s = 0; s < call.sequences; ++s) {
    const i64 first = call.seq_start[s], count = call.seq_start[s + 1] - first;
    move_history(call.history(s, 0), call.qkv.row(first), call.qkv.stride, count, w->taps - 1, C,
                 call.history(s, 1));
  }
  parallel(c, call.sequences * heads, (R + 2 * call.sequences) * heads * d * d / 8,
           [&](i64 i, i64 thread) {
             delta_sequence(call, i / heads, i % heads, memory + thread * thread_floats);
           });
  return kOk;
}

STRATUM_OPERATION i32 delta_commit(Context* c, const Delta* w, Object state, Object conv, Object window_conv,
                        Object window_k, Object window_v, Object window_decay, Object window_beta,
                        i64 slot, i64 half, i64 tokens) {
  bool ok = true;
  const DeltaState p = delta_state(
      c, w, {state, conv, window_conv, window_k, window_v, window_decay, window_beta}, &ok);
  if (!ok || slot < 0 || slot >= p.slots || (half & ~(i64)1) || tokens < 1 || tokens > p.window) {
    return kWrongShape;
  }
  const i64 d = w->head_dim, heads = w->v_heads, C = p.channels, length = w->taps - 1;
  const i64 thread_floats = (d + 2) * kStateTile;
  Scratch scratch(c);
  float* memory = scratch.take<float>(pool_threads(c->pool) * thread_floats);
  if (!scratch.ok()) return kOutOfMemory;
  float* history = p.conv + slot * 2 * length * C;
  const i64 at = slot * p.window;
  move_history(history + half * length * C, p.window_conv + at * C, C, tokens, length, C,
               history + (1 - half) * length * C);
  const DeltaRows rows = {tokens,
                          nullptr,
                          p.window_k + at * w->k_heads * d,
                          p.window_v + at * heads * d,
                          p.window_decay + at * heads,
                          p.window_beta + at * heads,
                          0,
                          w->k_heads * d,
                          heads * d,
                          heads,
                          nullptr,
                          0};
  parallel(c, heads, (tokens + 2) * heads * d * d / 8, [&](i64 head, i64 thread) {
    float* base = p.state + (slot * 2 * heads + head) * d * d;
    delta_head(w, head, rows, base + half * heads * d * d, base + (1 - half) * heads * d * d,
               memory + thread * thread_floats);
  });
  return kOk;
}

}  // namespace STRATUM_ISA
