// Router, experts and shared expert (spec 4.6).
//
// Rows are grouped by expert, so that an expert's weights are decoded once per pass for all rows that
// chose it. Each chosen expert's output is kept and a row's outputs are added in the order of its
// ids; a choice with a negative id is left out. Plain twins: `route`, `experts`, `shared_expert` of engine/ops/reference.py.
#pragma once
#include "matmul.h"

namespace STRATUM_ISA {

static inline void route_row(const float* logits, i64 count, i64 used, float* memory, i32* ids,
                             float* weights) {
  Vec top = set1(-__builtin_inff());
  for (i64 i = 0; i + W <= count; i += W) top = larger(top, load(logits + i, Full{}));
  float largest = max_of(top);
  for (i64 i = count / W * W; i < count; ++i) largest = logits[i] > largest ? logits[i] : largest;
  const Vec shift = set1(largest);
  each_vector(count, [&](i64 i, auto lanes) {
    store(memory + i, exp(sub(load(logits + i, lanes), shift)), lanes);
  });
  float total = 0.0f;
  for (i64 slot = 0; slot < used; ++slot) {
    i64 best = 0;
    for (i64 i = 1; i < count; ++i) {
      if (memory[i] > memory[best]) best = i;
    }
    ids[slot] = (i32)best;
    weights[slot] = memory[best];
    total += memory[best];
    memory[best] = -1.0f;
  }
  for (i64 slot = 0; slot < used; ++slot) weights[slot] /= total;
}

STRATUM_OPERATION i32 route(Context* c, const Moe* w, Object x_object, Object ids_object,
                 Object weights_object) {
  bool ok = true;
  const RowsOf<float> x = rows_of<float>(c, x_object, &ok);
  const RowsOf<i32> ids = rows_of<i32>(c, ids_object, &ok);
  const RowsOf<float> weights = rows_of<float>(c, weights_object, &ok);
  const i64 E = w->router->rows;
  if (!ok || x.width != w->router->columns || ids.rows != x.rows || weights.rows != x.rows ||
      ids.width != w->used || weights.width != w->used || w->used > E) {
    return kWrongShape;
  }
  Scratch scratch(c);
  Activations rows = activations(x.data, x.stride, x.width);
  const bool quantised = !is_float(w->router->type);
  if (quantised) take_quantised(&scratch, &rows, x.rows);
  float* logits = scratch.take<float>(x.rows * E);
  float* memory = scratch.take<float>(pool_threads(c->pool) * E);
  const DecodeMemory decode = take_decode_memory(c, &scratch, decode_bytes(w->router));
  if (!scratch.ok()) return kOutOfMemory;
  if (quantised) quantise_all(c, rows, x.rows);
  const Product p = product_of(w->router, &rows, x.rows, logits, E);
  products(c, 1, &p, decode);
  parallel(c, x.rows, x.rows * E * (w->used + 1), [&](i64 r, i64 thread) {
    route_row(logits + r * E, E, w->used, memory + thread * E, ids.row(r), weights.row(r));
  });
  return kOk;
}

// silu(gate) * up, into gate.
static inline void gated(float* gate, const float* up, i64 n) {
  each_vector(n, [&](i64 i, auto lanes) {
    store(gate + i, mul(silu(load(gate + i, lanes)), load(up + i, lanes)), lanes);
  });
}

// The pairs (row, slot) of some rows, sorted by expert.
struct Grouping {
  i32* expert;   // [active] experts that have pairs
  i32* start;    // [active + 1] their first pair
  i32* row;      // [pairs]
  i32* pair_of;  // [rows, used]; -1 for a choice that is left out
  i64 active;
  i64 pairs() const { return start[active]; }
};

static inline bool group_pairs(const RowsOf<i32>& ids, i64 first, i64 rows, i64 E, i32* counts,
                               Grouping* g) {
  __builtin_memset(counts, 0, (size_t)(E + 1) * sizeof(i32));
  for (i64 r = 0; r < rows; ++r) {
    for (i64 s = 0; s < ids.width; ++s) {
      const i32 e = ids.row(first + r)[s];
      if (e >= E) return false;
      if (e >= 0) ++counts[e];
    }
  }
  g->active = 0;
  i32 next = 0;
  for (i64 e = 0; e < E; ++e) {
    const i32 count = counts[e];
    counts[e] = next;
    if (count == 0) continue;
    g->expert[g->active] = (i32)e;
    g->start[g->active++] = next;
    next += count;
  }
  g->start[g->active] = next;
  for (i64 r = 0; r < rows; ++r) {
    for (i64 s = 0; s < ids.width; ++s) {
      const i32 e = ids.row(first + r)[s];
      const i32 pair = e < 0 ? -1 : counts[e]++;
      if (pair >= 0) g->row[pair] = (i32)r;
      g->pair_of[r * ids.width + s] = pair;
    }
  }
  return true;
}

// Scratch and inputs of an experts call, for one group of rows at a time.
struct ExpertCall {
  const Moe* w;
  RowsOf<float> x, weights, out;
  RowsOf<i32> ids;
  Grouping group;
  i32* counts;     // [E + 1]
  Activations in;  // of the group's rows
  Activations hidden;
  float* gate;  // [pairs, F]: becomes silu(gate) * up
  float* up;    // [pairs, F]
  float* y;     // [pairs, H]
  DecodeMemory decode;
  bool in_quantised;
  bool hidden_quantised;
};

// The work of one stage is (active expert, tile of matrix rows).
template <class F>
static inline void each_expert_tile(Context* c, const ExpertCall& call, const Matrix* m, i64 pairs,
                                    i64 factor, const F& f) {
  const Grouping& g = call.group;
  const i64 each = tile_rows(m->columns * factor, ceil_div(pairs, most(1, g.active)));
  const i64 tiles = ceil_div(m->rows, each);
  const i64 ns = product_ns(m, pairs) + (g.active - 1) * product_ns(m, 0);
  parallel(c, g.active * tiles, factor * ns,
           [&](i64 item, i64 thread) {
             const i64 a = item / tiles, from = item % tiles * each;
             f(a, from, least(m->rows, from + each), call.decode.of(thread));
           });
}

static i32 expert_rows(Context* c, const ExpertCall& given, i64 first, i64 rows) {
  ExpertCall call = given;
  const Moe* w = call.w;
  const i64 F = w->gate->rows, H = w->down->rows, used = w->used;
  Grouping& g = call.group;
  if (!group_pairs(call.ids, first, rows, w->gate->count, call.counts, &g)) return kWrongShape;
  call.in.x = call.x.row(first);
  if (call.in_quantised) quantise_all(c, call.in, rows);
  each_expert_tile(c, call, w->gate, g.pairs(), 2, [&](i64 a, i64 from, i64 to, u8* memory) {
    const i64 start = g.start[a], count = g.start[a + 1] - start;
    Product p = {w->gate, g.expert[a], &call.in, g.row + start, count, call.gate + start * F, F};
    product(p, from, to, memory);
    p.matrix = w->up;
    p.out = call.up + start * F;
    product(p, from, to, memory);
    for (i64 i = start; i < start + count; ++i) {
      gated(call.gate + i * F + from, call.up + i * F + from, to - from);
    }
  });
  if (call.hidden_quantised) quantise_all(c, call.hidden, g.pairs());
  each_expert_tile(c, call, w->down, g.pairs(), 1, [&](i64 a, i64 from, i64 to, u8* memory) {
    const i64 start = g.start[a], count = g.start[a + 1] - start;
    Activations mine = call.hidden;
    mine.x += start * F;
    if (call.hidden_quantised) mine.q += start * mine.q_stride;
    const Product p = {w->down, g.expert[a], &mine, nullptr, count, call.y + start * H, H};
    product(p, from, to, memory);
  });
  parallel(c, rows, rows * used * H / 4, [&](i64 r, i64) {
    const i32* pairs = g.pair_of + r * used;
    const float* weights = call.weights.row(first + r);
    float* out = call.out.row(first + r);
    each_vector(H, [&](i64 i, auto lanes) {
      Vec total = zero();
      for (i64 s = 0; s < used; ++s) {
        if (pairs[s] < 0) continue;
        total = fma(set1(weights[s]), load(call.y + pairs[s] * H + i, lanes), total);
      }
      store(out + i, total, lanes);
    });
  });
  return kOk;
}

constexpr i64 kExpertRows = 512;  // rows of one group: bounds the scratch for outputs

STRATUM_OPERATION i32 experts(Context* c, const Moe* w, Object x, Object ids, Object weights, Object out) {
  bool ok = true;
  ExpertCall call;
  call.w = w;
  call.x = rows_of<float>(c, x, &ok);
  call.ids = rows_of<i32>(c, ids, &ok);
  call.weights = rows_of<float>(c, weights, &ok);
  call.out = rows_of<float>(c, out, &ok);
  const i64 R = call.x.rows, F = w->gate->rows, H = w->down->rows, E = w->gate->count;
  const i64 used = w->used;
  if (!ok || call.ids.rows != R || call.weights.rows != R || call.out.rows != R ||
      call.x.width != w->gate->columns || call.out.width != H || call.ids.width != used ||
      call.weights.width != used) {
    return kWrongShape;
  }
  const i64 rows = least(R, kExpertRows), pairs = rows * used;
  Scratch scratch(c);
  call.group.expert = scratch.take<i32>(E);
  call.group.start = scratch.take<i32>(E + 1);
  call.group.row = scratch.take<i32>(pairs);
  call.group.pair_of = scratch.take<i32>(pairs);
  call.counts = scratch.take<i32>(E + 1);
  call.gate = scratch.take<float>(pairs * F);
  call.up = scratch.take<float>(pairs * F);
  call.y = scratch.take<float>(pairs * H);
  call.in = activations(call.x.data, call.x.stride, call.x.width);
  call.hidden = activations(call.gate, F, F);
  call.in_quantised = !is_float(w->gate->type) || !is_float(w->up->type);
  call.hidden_quantised = !is_float(w->down->type);
  if (call.in_quantised) take_quantised(&scratch, &call.in, rows);
  if (call.hidden_quantised) take_quantised(&scratch, &call.hidden, pairs);
  const i64 bytes = most(most(decode_bytes(w->gate), decode_bytes(w->up)), decode_bytes(w->down));
  call.decode = take_decode_memory(c, &scratch, bytes);
  if (!scratch.ok()) return kOutOfMemory;
  for (i64 first = 0; first < R; first += rows) {
    const i32 status = expert_rows(c, call, first, least(rows, R - first));
    if (status != kOk) return status;
  }
  return kOk;
}

STRATUM_OPERATION i32 shared_expert(Context* c, const Moe* w, Object x_object, Object out_object) {
  bool ok = true;
  const RowsOf<float> x = rows_of<float>(c, x_object, &ok);
  const RowsOf<float> out = rows_of<float>(c, out_object, &ok);
  const i64 R = x.rows, F = w->shared_gate->rows, H = w->shared_down->rows;
  if (!ok || out.rows != R || x.width != w->shared_gate->columns || out.width != H) {
    return kWrongShape;
  }
  Scratch scratch(c);
  float* gate = scratch.take<float>(R * F);
  float* up = scratch.take<float>(R * F);
  float* y = scratch.take<float>(R * H);
  Activations in = activations(x.data, x.stride, x.width), hidden = activations(gate, F, F);
  const bool in_quantised = !is_float(w->shared_gate->type) || !is_float(w->shared_up->type);
  const bool hidden_quantised = !is_float(w->shared_down->type);
  if (in_quantised) take_quantised(&scratch, &in, R);
  if (hidden_quantised) take_quantised(&scratch, &hidden, R);
  const i64 bytes = most(most(decode_bytes(w->shared_gate), decode_bytes(w->shared_up)),
                         decode_bytes(w->shared_down));
  const DecodeMemory decode = take_decode_memory(c, &scratch, bytes);
  if (!scratch.ok()) return kOutOfMemory;
  if (in_quantised) quantise_all(c, in, R);
  const Product both[2] = {product_of(w->shared_gate, &in, R, gate, F),
                           product_of(w->shared_up, &in, R, up, F)};
  products(c, 2, both, decode);
  parallel(c, R, R * F, [&](i64 r, i64) { gated(gate + r * F, up + r * F, F); });
  if (hidden_quantised) quantise_all(c, hidden, R);
  const Product down = product_of(w->shared_down, &hidden, R, y, H);
  products(c, 1, &down, decode);
  parallel(c, R, R * H / 2, [&](i64 r, i64) {
    const Vec share = set1(sigmoid1(dot(w->shared_router, x.row(r), x.width)));
    each_vector(H, [&](i64 i, auto lanes) {
      float* to = out.row(r) + i;
      store(to, fma(share, load(y + r * H + i, lanes), load(to, lanes)), lanes);
    });
  });
  return kOk;
}

}  // namespace STRATUM_ISA
