// The residual streams: filling them, their gated mix (spec 4.3), adding a layer's output; and norms.
// The plain twins are the methods of the same names of engine/ops/reference.py.
#pragma once
#include "matmul.h"

namespace STRATUM_ISA {

// x [R, H] and streams [R, hc, H] as rows; `ok` is cleared when they do not fit.
struct StreamRows {
  RowsOf<float> x;
  RowsOf<float> streams;
  i64 hc;
};
static inline StreamRows stream_rows(Context* c, Object x, Object streams, bool* ok) {
  StreamRows s = {rows_of<float>(c, x, ok), rows_of<float>(c, streams, ok), 0};
  if (!*ok || s.x.rows != s.streams.rows || s.x.width == 0 || s.streams.width % s.x.width) {
    *ok = false;
    return s;
  }
  s.hc = s.streams.width / s.x.width;
  return s;
}

STRATUM_OPERATION i32 fill_streams(Context* c, Object x, Object streams) {
  bool ok = true;
  const StreamRows s = stream_rows(c, x, streams, &ok);
  if (!ok) return kWrongShape;
  for (i64 r = 0; r < s.x.rows; ++r) {
    for (i64 h = 0; h < s.hc; ++h) copy(s.x.row(r), s.x.width, s.streams.row(r) + h * s.x.width);
  }
  return kOk;
}

STRATUM_OPERATION i32 add_to_streams(Context* c, Object x, Object streams) {
  bool ok = true;
  const StreamRows s = stream_rows(c, x, streams, &ok);
  if (!ok) return kWrongShape;
  for (i64 r = 0; r < s.x.rows; ++r) {
    for (i64 h = 0; h < s.hc; ++h) {
      const float* from = s.x.row(r);
      float* to = s.streams.row(r) + h * s.x.width;
      each_vector(s.x.width, [&](i64 i, auto lanes) {
        store(to + i, add(load(to + i, lanes), load(from + i, lanes)), lanes);
      });
    }
  }
  return kOk;
}

STRATUM_OPERATION i32 rms_norm(Context* c, Object x_object, Object weight_object, double eps,
                    Object out_object) {
  bool ok = true;
  const RowsOf<float> x = rows_of<float>(c, x_object, &ok);
  const RowsOf<float> out = rows_of<float>(c, out_object, &ok);
  if (!ok) return kWrongShape;
  const float* weight = all_of<float>(c, weight_object, x.width, &ok);
  if (!ok || x.rows != out.rows || x.width != out.width) return kWrongShape;
  parallel(c, x.rows, x.rows * x.width / 4, [&](i64 r, i64) {
    rms_row(x.row(r), weight, x.width, (float)eps, out.row(r));
  });
  return kOk;
}

STRATUM_OPERATION i32 hc_combine(Context* c, Object streams, Object inject_object, Object y) {
  bool ok = true;
  const StreamRows s = stream_rows(c, y, streams, &ok);
  if (!ok) return kWrongShape;
  const float* inject = all_of<float>(c, inject_object, s.x.rows * s.hc, &ok);
  if (!ok) return kWrongShape;
  parallel(c, s.x.rows, s.x.rows * s.streams.width / 4, [&](i64 r, i64) {
    const float* from = s.x.row(r);
    for (i64 h = 0; h < s.hc; ++h) {
      const Vec by = set1(inject[r * s.hc + h]);
      float* to = s.streams.row(r) + h * s.x.width;
      each_vector(s.x.width, [&](i64 i, auto lanes) {
        store(to + i, fma(by, load(from + i, lanes), load(to + i, lanes)), lanes);
      });
    }
  });
  return kOk;
}

// Rows of a power of two of floats would all lie in the same few sets of a cache.
constexpr i64 kStridePad = 16;

// The arrays of one hc_mix call.
struct Mix {
  const HyperConnection* w;
  i64 rows;
  i64 stride;      // floats from row to row of normed and gates
  float* normed;   // [R, hc, H]
  float* low;      // [R, r]
  float* raw;      // [R, hc]: inject @ n
  float* gates;    // [R, hc, H]: up @ low
  Activations n;   // of normed
  Activations l;   // of low
  bool n_quantised;
  bool l_quantised;
};

static inline void mix_norm(const Mix& m, const float* streams, i64 r) {
  const i64 width = m.w->streams * m.w->hidden;
  for (i64 s = 0; s < m.w->streams; ++s) {
    rms_row(streams + s * m.w->hidden, m.w->norm + s * m.w->hidden, m.w->hidden, (float)m.w->eps,
            m.normed + r * m.stride + s * m.w->hidden);
  }
  if (m.n_quantised) quantise_row(m.normed + r * m.stride, width, m.n.q + r * m.n.q_stride);
}

static inline void mix_low(const Mix& m, i64 r) {
  const i64 rank = m.w->down->rows;
  const Vec share = set1((float)m.w->streams);
  float* low = m.low + r * rank;
  each_vector(rank, [&](i64 i, auto lanes) {
    store(low + i, silu(div(load(low + i, lanes), share)), lanes);
  });
  if (m.l_quantised) quantise_row(low, rank, m.l.q + r * m.l.q_stride);
}

// Columns from .. to-1 of x.
static inline void mix_columns(const Mix& m, i64 r, i64 from, i64 to, float* x) {
  const i64 hidden = m.w->hidden;
  const Vec share = set1((float)m.w->streams);
  const float *normed = m.normed + r * m.stride, *gates = m.gates + r * m.stride;
  each_vector(to - from, [&](i64 i, auto lanes) {
    Vec total = zero();
    for (i64 s = 0; s < m.w->streams; ++s) {
      const i64 at = s * hidden + from + i;
      total = fma(sigmoid(load(gates + at, lanes)), load(normed + at, lanes), total);
    }
    store(x + from + i, div(total, share), lanes);
  });
}

static inline void mix_inject(const Mix& m, i64 r, float* inject) {
  const i64 hc = m.w->streams;
  for (i64 s = 0; s < hc; ++s) {
    inject[r * hc + s] = 2.0f * sigmoid1(m.raw[r * hc + s] / (float)hc);
  }
}

// Columns of a small up projection as up_columns holds them: in blocks, each with the weights of one rank
// after those of another. Step c of the columns is one or two vectors; vector v begins at column at(v).
struct FloatColumns {
  static constexpr int kVectors = 1;
  static constexpr i64 kBlock = 16;
  const float* p;
  i64 first;
  void set(const HyperConnection* w, i64 c) {
    first = c * W;
    p = (const float*)w->up_columns + first / kBlock * kBlock * w->up->columns + first % kBlock;
  }
  i64 at(int) const { return first; }
  void of_rank(i64 k, Vec* weights) const { weights[0] = load(p + k * kBlock, Full{}); }
};
// BF16, half the bytes: 32 bits hold columns j and 16 + j of a block of 32.
struct BrainColumns {
  static constexpr int kVectors = 2;
  static constexpr i64 kBlock = 32;
  const u16* p;
  i64 first;
  void set(const HyperConnection* w, i64 c) {
    const i64 block = c * 2 * W / kBlock, part = c % (16 / W);
    first = block * kBlock + part * W;
    p = (const u16*)w->up_columns + block * kBlock * w->up->columns + part * 2 * W;
  }
  i64 at(int v) const { return first + 16 * v; }
  void of_rank(i64 k, Vec* weights) const {
    const Ints both = bits_of(load((const float*)(p + k * kBlock), Full{}));
    weights[0] = as_floats(shift_left_16(both));
    weights[1] = as_floats(iand(both, iset1((i32)0xffff0000)));
  }
};
static inline bool has_brain_columns(const HyperConnection* w) {
  return w->up->type == kBF16 && w->hidden % BrainColumns::kBlock == 0;
}

// Gates of N steps of columns from step c on, for R rows; the sums hide the latency of each.
template <class Columns, int N, int R>
static inline void gates_of_columns(const Mix& m, i64 first, i64 c) {
  constexpr int V = N * Columns::kVectors;
  const i64 rank = m.w->down->rows;
  const float* low[R];
  Columns column[N];
  Vec sums[R][V];
  STRATUM_UNROLLED
  for (int r = 0; r < R; ++r) {
    low[r] = m.low + (first + r) * rank;
    STRATUM_UNROLLED
    for (int v = 0; v < V; ++v) sums[r][v] = zero();
  }
  STRATUM_UNROLLED
  for (int n = 0; n < N; ++n) column[n].set(m.w, c + n);
  STRATUM_ROLLED
  for (i64 k = 0; k < rank; ++k) {
    Vec weights[V];
    STRATUM_UNROLLED
    for (int n = 0; n < N; ++n) column[n].of_rank(k, weights + n * Columns::kVectors);
    STRATUM_UNROLLED
    for (int r = 0; r < R; ++r) {
      const Vec by = set1(low[r][k]);
      STRATUM_UNROLLED
      for (int v = 0; v < V; ++v) sums[r][v] = fma(by, weights[v], sums[r][v]);
    }
  }
  STRATUM_UNROLLED
  for (int r = 0; r < R; ++r) {
    STRATUM_UNROLLED
    for (int v = 0; v < V; ++v) {
      const i64 at = column[v / Columns::kVectors].at(v % Columns::kVectors);
      store(m.gates + (first + r) * m.stride + at, sums[r][v], Full{});
    }
  }
}

// Gates `from .. to-1` (multiples of the block) of R rows by columns of the up projection: with a small
// rank, sums across the lanes would cost more than the products.
template <class Columns, int R>
static inline void gates_by_columns(const Mix& m, i64 first, i64 from, i64 to) {
  constexpr i64 kStep = W * Columns::kVectors;
  constexpr int N = (R == 1 ? 4 : 2) / Columns::kVectors;
  i64 c = from / kStep;
  STRATUM_ROLLED
  for (; c + N <= to / kStep; c += N) gates_of_columns<Columns, N, R>(m, first, c);
  STRATUM_ROLLED
  for (; c < to / kStep; ++c) gates_of_columns<Columns, 1, R>(m, first, c);
}

// The same for `count` rows.
STRATUM_COLD void gates_of_rows(const Mix& m, i64 first, i64 count, i64 from, i64 to) {
  by_rows<W == 16 ? 8 : 4>(count, [&](i64 i, auto rows) {
    constexpr int R = decltype(rows)::value;
    if (has_brain_columns(m.w)) return gates_by_columns<BrainColumns, R>(m, first + i, from, to);
    gates_by_columns<FloatColumns, R>(m, first + i, from, to);
  });
}

// The up projection and the mix, in tiles of columns: each tile computes its gates of all streams.
static inline void mix_out(Context* c, const Mix& m, const RowsOf<float>& x,
                           const DecodeMemory& memory) {
  const HyperConnection* w = m.w;
  const i64 hidden = w->hidden, width = w->streams * hidden, rank = w->up->columns;
  Matrix matrix = *w->up;
  if (hidden % RowTile::kRows) matrix.tiles = nullptr;  // streams begin inside of tiles
  const Product up = product_of(&matrix, &m.l, m.rows, m.gates, m.stride);
  const i64 each = ceil_div(tile_rows(rank * w->streams, m.rows), 32) * 32;  // whole blocks of columns
  parallel(c, ceil_div(hidden, each), product_ns(width, rank + 64, m.rows, true), [&](i64 i, i64 thread) {
    const i64 from = i * each, to = least(hidden, from + each);
    for (i64 s = 0; s < w->streams; ++s) {
      const i64 start = s * hidden + from, stop = s * hidden + to;
      if (w->up_columns == nullptr) {
        product(up, start, stop, memory.of(thread));
        continue;
      }
      gates_of_rows(m, 0, m.rows, start, stop);
    }
    for (i64 r = 0; r < m.rows; ++r) mix_columns(m, r, from, to, x.row(r));
  });
}

// Everything for a few rows, in the first-level cache: where the weights are small, and reading them
// again for the next rows costs less than taking the rows through memory between the steps.
static inline void mix_rows(const Mix& m, i64 first, i64 count, const RowsOf<float>& streams,
                            const RowsOf<float>& x, float* inject, u8* memory) {
  const HyperConnection* w = m.w;
  const i64 width = w->streams * w->hidden, rank = w->down->rows;
  for (i64 r = first; r < first + count; ++r) mix_norm(m, streams.row(r), r);
  const Activations n = m.n.from(first), l = m.l.from(first);
  product(product_of(w->down, &n, count, m.low + first * rank, rank), 0, rank, memory);
  if (inject != nullptr) {
    product(product_of(w->inject, &n, count, m.raw + first * w->streams, w->streams), 0, w->streams,
            memory);
  }
  for (i64 r = first; r < first + count; ++r) mix_low(m, r);
  if (w->up_columns == nullptr) {
    product(product_of(w->up, &l, count, m.gates + first * m.stride, m.stride), 0, width, memory);
  } else {
    gates_of_rows(m, first, count, 0, width);
  }
  for (i64 r = first; r < first + count; ++r) {
    mix_columns(m, r, 0, w->hidden, x.row(r));
    if (inject != nullptr) mix_inject(m, r, inject);
  }
}

constexpr i64 kMixedRows = 4;             // at a time, or twice as many on one thread
constexpr i64 kSmallMixBytes = 512 << 10;  // of weights

static inline bool is_small_mix(const HyperConnection* w) {
  const i64 width = w->streams * w->hidden;
  const i64 up_row = w->up_columns == nullptr || has_brain_columns(w) ? w->up->row_bytes
                                                                       : w->up->columns * 4;
  return w->down->rows * w->down->row_bytes + width * up_row <= kSmallMixBytes;
}

STRATUM_OPERATION i32 hc_mix(Context* c, const HyperConnection* w, Object streams_object, Object x_object,
                  Object inject_object) {
  bool ok = true;
  const RowsOf<float> streams = rows_of<float>(c, streams_object, &ok);
  const RowsOf<float> x = rows_of<float>(c, x_object, &ok);
  const i64 width = w->streams * w->hidden, rank = w->down->rows;
  if (!ok || streams.width != width || x.width != w->hidden || x.rows != streams.rows ||
      (inject_object != nullptr) != (w->inject != nullptr)) {
    return kWrongShape;
  }
  float* inject = nullptr;
  if (inject_object != nullptr) {
    inject = all_of<float>(c, inject_object, x.rows * w->streams, &ok);
    if (!ok) return kWrongShape;
  }
  Scratch scratch(c);
  Mix m;
  m.w = w;
  m.rows = x.rows;
  m.stride = width + kStridePad;
  m.normed = scratch.take<float>(x.rows * m.stride);
  m.gates = scratch.take<float>(x.rows * m.stride);
  m.low = scratch.take<float>(x.rows * rank);
  m.raw = scratch.take<float>(x.rows * w->streams);
  m.n = activations(m.normed, m.stride, width);
  m.l = activations(m.low, rank, rank);
  m.n_quantised = !is_float(w->down->type) || (w->inject && !is_float(w->inject->type));
  m.l_quantised = !is_float(w->up->type);
  if (m.n_quantised) take_quantised(&scratch, &m.n, x.rows);
  if (m.l_quantised) take_quantised(&scratch, &m.l, x.rows);
  i64 bytes = most(decode_bytes(w->down), decode_bytes(w->up));
  if (w->inject) bytes = most(bytes, decode_bytes(w->inject));
  const DecodeMemory memory = take_decode_memory(c, &scratch, bytes);
  if (!scratch.ok()) return kOutOfMemory;

  if (is_small_mix(w)) {
    const i64 ns = product_ns(width, 2 * rank + 64, x.rows, true);
    const i64 each = pool_threads(c->pool) == 1 ? 2 * kMixedRows : kMixedRows;
    parallel(c, ceil_div(x.rows, each), ns, [&](i64 item, i64 thread) {
      const i64 first = item * each;
      mix_rows(m, first, least(each, x.rows - first), streams, x, inject, memory.of(thread));
    });
    return kOk;
  }
  parallel(c, x.rows, x.rows * width / 3, [&](i64 r, i64) { mix_norm(m, streams.row(r), r); });
  Product reads[2] = {product_of(w->down, &m.n, x.rows, m.low, rank), {}};
  if (w->inject) reads[1] = product_of(w->inject, &m.n, x.rows, m.raw, w->streams);
  products(c, w->inject ? 2 : 1, reads, memory);
  for (i64 r = 0; r < x.rows; ++r) mix_low(m, r);
  mix_out(c, m, x, memory);
  if (inject != nullptr) {
    for (i64 r = 0; r < x.rows; ++r) mix_inject(m, r, inject);
  }
  return kOk;
}

// exp (0), sigmoid (1), silu (2), softplus (3) of all values: for tests of functions.h.
STRATUM_OPERATION i32 map_values(Context* c, i64 function, Object x_object, Object out_object) {
  bool ok = true;
  const Whole x = whole(c, x_object, &ok);
  const Whole out = whole(c, out_object, &ok);
  if (!ok || x.element_bytes != 4 || out.element_bytes != 4 || x.elements != out.elements) {
    return kWrongShape;
  }
  const float* from = (const float*)x.data;
  float* to = (float*)out.data;
  each_vector(x.elements, [&](i64 i, auto lanes) {
    const Vec v = load(from + i, lanes);
    Vec y = v;
    if (function == 0) y = exp(v);
    if (function == 1) y = sigmoid(v);
    if (function == 2) y = silu(v);
    if (function == 3) y = softplus(v);
    store(to + i, y, lanes);
  });
  return kOk;
}

}  // namespace STRATUM_ISA
