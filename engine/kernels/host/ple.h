// The n-gram layer (spec 4.7): gating the n-gram value into the streams, and its dilated convolution.
// Plain twins: `ple_mix` and `ple_commit` of engine/ops/reference.py.
#pragma once
#include "sequences.h"

namespace STRATUM_ISA {

struct PleState {
  float* conv;    // [slots, 2, length, D], length = (taps - 1) * dilation, D = streams * hidden
  float* window;  // [slots, W, D]
  i64 slots;
  i64 window_rows;
  i64 length;
  float* history(i64 slot, i64 half, i64 width) const {
    return conv + (slot * 2 + half) * length * width;
  }
};

static inline PleState ple_state(Context* c, const Ple* w, Object conv, Object window, bool* ok) {
  PleState p;
  const Whole rows = whole(c, window, ok);
  if (rows.dimensions != 3 || rows.shape[2] != w->streams * w->hidden || rows.element_bytes != 4) {
    *ok = false;
  }
  if (!*ok) return p;
  p.slots = rows.shape[0];
  p.window_rows = rows.shape[1];
  p.length = (w->taps - 1) * w->dilation;
  p.window = (float*)rows.data;
  p.conv = all_of<float>(c, conv, p.slots * 2 * p.length * w->streams * w->hidden, ok);
  return p;
}

// key becomes the gated value, and inputs the convolution's input, of one row.
static inline void ple_gate(const Ple* w, const float* streams, float* key, const float* value,
                            float* query, float* inputs) {
  const i64 H = w->hidden;
  const float eps = (float)w->eps;
  for (i64 s = 0; s < w->streams; ++s) {
    float* k = key + s * H;
    rms_row(k, w->norm_key + s * H, H, eps, k);
    rms_row(streams + s * H, w->norm_query + s * H, H, eps, query);
    const float score = dot(k, query, H) / root((float)H);
    const float size = score < 0.0f ? -score : score;
    const float strength = root(size > 1e-6f ? size : 1e-6f);
    const float gate = sigmoid1(score > 0.0f ? strength : score < 0.0f ? -strength : 0.0f * score);
    const Vec by = set1(gate);
    each_vector(H, [&](i64 i, auto lanes) { store(k + i, mul(by, load(value + i, lanes)), lanes); });
    rms_row(k, w->norm_conv + s * H, H, eps, inputs + s * H);
  }
}

// Row r of a sequence that starts at row `first`: streams += gated value + silu(convolution).
static inline void ple_add(const Ple* w, const float* inputs, const float* history, i64 length,
                           i64 first, i64 r, const float* gated_value, float* streams) {
  const i64 D = w->streams * w->hidden;
  each_vector(D, [&](i64 i, auto lanes) {
    Vec total = zero();
    for (i64 j = 0; j < w->taps; ++j) {
      const i64 row = r - (w->taps - 1 - j) * w->dilation;
      const float* u = row >= first ? inputs + row * D : history + (length + row - first) * D;
      total = fma(load(w->conv + j * D + i, lanes), load(u + i, lanes), total);
    }
    const Vec added = add(load(gated_value + i, lanes), silu(total));
    store(streams + i, add(load(streams + i, lanes), added), lanes);
  });
}

STRATUM_OPERATION i32 ple_mix(Context* c, const Ple* w, Object conv, Object window, Object seq_start,
                   Object seq_slot, Object seq_half, Object key_object, Object value_object,
                   Object streams_object) {
  bool ok = true;
  const PleState p = ple_state(c, w, conv, window, &ok);
  const Whole slots = whole(c, seq_slot, &ok);
  const RowsOf<float> key = rows_of<float>(c, key_object, &ok);
  const RowsOf<float> value = rows_of<float>(c, value_object, &ok);
  const RowsOf<float> streams = rows_of<float>(c, streams_object, &ok);
  if (!ok) return kWrongShape;
  const i64 S = slots.elements, R = streams.rows, H = w->hidden, D = w->streams * H;
  const i32* slot = (const i32*)slots.data;
  const i32* given = all_of<i32>(c, seq_start, S + 1, &ok);
  const i32* half = all_of<i32>(c, seq_half, S, &ok);
  if (!ok || key.rows != R || value.rows != R || key.width != D || value.width != H ||
      streams.width != D || !sequences_fit(S, given, slot, half, R, p.slots)) {
    return kWrongShape;
  }
  Scratch scratch(c);
  float* inputs = scratch.take<float>(R * D);
  float* query = scratch.take<float>(pool_threads(c->pool) * H);
  i32* row_seq = scratch.take<i32>(R);
  i32* starts = scratch.take<i32>(S + 1);
  if (!scratch.ok()) return kOutOfMemory;
  const i32* start = own_starts(given, S, starts);
  for (i64 s = 0; s < S; ++s) {
    for (i64 r = start[s]; r < start[s + 1]; ++r) row_seq[r] = (i32)s;
  }
  parallel(c, R, R * D, [&](i64 r, i64 thread) {
    ple_gate(w, streams.row(r), key.row(r), value.row(r), query + thread * H, inputs + r * D);
  });
  parallel(c, R, R * D, [&](i64 r, i64) {
    const i64 s = row_seq[r];
    ple_add(w, inputs, p.history(slot[s], half[s], D), p.length, start[s], r, key.row(r),
            streams.row(r));
  });
  for (i64 s = 0; s < S; ++s) {
    const i64 count = start[s + 1] - start[s];
    const float* mine = inputs + start[s] * D;
    move_history(p.history(slot[s], half[s], D), mine, D, count, p.length, D,
                 p.history(slot[s], 1 - half[s], D));
    if (count <= p.window_rows) copy(mine, count * D, p.window + slot[s] * p.window_rows * D);
  }
  return kOk;
}

STRATUM_OPERATION i32 ple_commit(Context* c, const Ple* w, Object conv, Object window, i64 slot, i64 half,
                      i64 tokens) {
  bool ok = true;
  const PleState p = ple_state(c, w, conv, window, &ok);
  if (!ok || slot < 0 || slot >= p.slots || (half & ~(i64)1) || tokens < 1 ||
      tokens > p.window_rows) {
    return kWrongShape;
  }
  const i64 D = w->streams * w->hidden;
  move_history(p.history(slot, half, D), p.window + slot * p.window_rows * D, D, tokens, p.length,
               D, p.history(slot, 1 - half, D));
  return kOk;
}

}  // namespace STRATUM_ISA
