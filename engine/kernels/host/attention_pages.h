// The pages of sparse attention (spec 4.5): where a token lies, and appending keys, values and index keys.
//
// Keys and values lie in pages of float16 or float32 (`T` below); a token is found by its place,
// page * page_tokens + offset. Plain twin: `attention_append` of engine/ops/reference.py.
#pragma once
#include "functions.h"
#include "matmul.h"

namespace STRATUM_ISA {

// The pages of one layer and the page tables of a pass.
struct Pages {
  u8* keys;          // [pages, page_tokens, kv_heads, head_dim]
  u8* values;        // the same
  u8* index_raw;     // [pages, page_tokens, index_dim]
  u8* index_pooled;  // [pages, page_tokens / ratio, index_dim]
  i64 element_bytes;
  i64 pages;
  i64 page_tokens;
  const i32* positions;  // [R]
  const i32* row_seq;    // [R]
  const i32* table;      // [S, most_pages]
  i64 sequences;
  i64 most_pages;

  // Place of a token; the page is checked by `covered`.
  i64 place(i64 r, i64 token) const {
    const i64 page = table[row_seq[r] * most_pages + token / page_tokens];
    return page * page_tokens + token % page_tokens;
  }
};

// Fills everything but index_raw; false when arrays do not fit.
static inline bool pages_of(Context* c, const Attention* w, Object keys, Object values,
                            Object index_pooled, Object positions, Object row_seq,
                            Object page_table, i64 rows, Pages* p) {
  bool ok = true;
  const Whole k = whole(c, keys, &ok), v = whole(c, values, &ok), ip = whole(c, index_pooled, &ok);
  const RowsOf<i32> table = rows_of<i32>(c, page_table, &ok);
  if (!ok || k.dimensions != 4 || (k.element_bytes != 2 && k.element_bytes != 4)) return false;
  p->keys = k.data;
  p->values = v.data;
  p->index_pooled = ip.data;
  p->element_bytes = k.element_bytes;
  p->pages = k.shape[0];
  p->page_tokens = k.shape[1];
  p->positions = all_of<i32>(c, positions, rows, &ok);
  p->row_seq = all_of<i32>(c, row_seq, rows, &ok);
  p->table = table.data;
  p->sequences = table.rows;
  p->most_pages = table.rows > 1 ? table.stride : table.width;
  if (!ok || p->page_tokens % w->ratio || v.element_bytes != k.element_bytes ||
      ip.element_bytes != k.element_bytes || v.elements != k.elements ||
      k.elements != p->pages * p->page_tokens * w->kv_heads * w->head_dim ||
      ip.elements != p->pages * (p->page_tokens / w->ratio) * w->index_dim) {
    return false;
  }
  // Every page up to a row's position must exist.
  for (i64 r = 0; r < rows; ++r) {
    const i64 s = p->row_seq[r], position = p->positions[r];
    if (s < 0 || s >= p->sequences || position < 0) return false;
    const i64 last = position / p->page_tokens;
    if (last >= table.width) return false;
    // Rows of a sequence follow each other: only the first one walks the whole table.
    i64 page = (r > 0 && p->row_seq[r - 1] == s && p->positions[r - 1] <= position)
                   ? p->positions[r - 1] / p->page_tokens
                   : 0;
    for (; page <= last; ++page) {
      const i32 id = p->table[s * p->most_pages + page];
      if (id < 0 || id >= p->pages) return false;
    }
  }
  return true;
}

template <class T>
static inline void norm_rotate_store(const float* x, const float* weight, i64 n, float eps,
                                     const float* cos, const float* sin, i64 half, float* memory,
                                     T* to) {
  rms_row(x, weight, n, eps, memory);
  rotate_row(memory, cos, sin, half);
  each_vector(n, [&](i64 i, auto lanes) { store(to + i, load(memory + i, lanes), lanes); });
}

template <class T>
static inline void append_row(const Attention* w, const Pages& p, i64 r, const float* cos,
                              const float* sin, const float* k, const float* v,
                              const float* index_k, float* memory) {
  const i64 place = p.place(r, p.positions[r]), width = w->kv_heads * w->head_dim;
  T* keys = (T*)p.keys + place * width;
  T* values = (T*)p.values + place * width;
  T* raw = (T*)p.index_raw + place * w->index_dim;
  for (i64 h = 0; h < w->kv_heads; ++h) {
    norm_rotate_store(k + h * w->head_dim, w->k_norm, w->head_dim, (float)w->eps, cos, sin,
                      w->rope_dim / 2, memory, keys + h * w->head_dim);
  }
  each_vector(width, [&](i64 i, auto lanes) { store(values + i, load(v + i, lanes), lanes); });
  each_vector(w->index_dim,
              [&](i64 i, auto lanes) { store(raw + i, load(index_k + i, lanes), lanes); });
}

// Row r completes a block: mean of its raw index keys, norm, rotation by the first token's angles.
template <class T>
static inline void pool_block(const Attention* w, const Pages& p, i64 r, const float* cos,
                              const float* sin, float* memory) {
  const i64 first = p.place(r, p.positions[r] - (w->ratio - 1)), dim = w->index_dim;
  const T* raw = (const T*)p.index_raw + first * dim;
  each_vector(dim, [&](i64 i, auto lanes) {
    Vec total = zero();
    for (i64 t = 0; t < w->ratio; ++t) total = add(total, load(raw + t * dim + i, lanes));
    store(memory + i, div(total, set1((float)w->ratio)), lanes);
  });
  norm_rotate_store(memory, w->index_k_norm, dim, (float)w->eps, cos, sin, w->rope_dim / 2, memory,
                    (T*)p.index_pooled + first / w->ratio * dim);
}

struct Angles {
  RowsOf<float> cos, sin;
};
static inline Angles angles_of(Context* c, const Attention* w, Object cos, Object sin, i64 rows,
                               bool* ok) {
  const Angles a = {rows_of<float>(c, cos, ok), rows_of<float>(c, sin, ok)};
  if (a.cos.rows != rows || a.sin.rows != rows || a.cos.width != w->rope_dim / 2 ||
      a.sin.width != w->rope_dim / 2) {
    *ok = false;
  }
  return a;
}

STRATUM_OPERATION i32 attention_append(Context* c, const Attention* w, Object keys, Object values,
                            Object index_raw, Object index_pooled, Object positions,
                            Object row_seq, Object page_table, Object cos, Object sin,
                            Object block_cos, Object block_sin, Object k_object, Object v_object,
                            Object index_k_object) {
  bool ok = true;
  const RowsOf<float> k = rows_of<float>(c, k_object, &ok), v = rows_of<float>(c, v_object, &ok);
  const RowsOf<float> index_k = rows_of<float>(c, index_k_object, &ok);
  const Whole raw = whole(c, index_raw, &ok);
  const Angles angles = angles_of(c, w, cos, sin, k.rows, &ok);
  const Angles block_angles = angles_of(c, w, block_cos, block_sin, k.rows, &ok);
  const i64 width = w->kv_heads * w->head_dim;
  Pages p;
  if (!ok || v.rows != k.rows || index_k.rows != k.rows || k.width != width || v.width != width ||
      index_k.width != w->index_dim ||
      !pages_of(c, w, keys, values, index_pooled, positions, row_seq, page_table, k.rows, &p) ||
      raw.element_bytes != p.element_bytes ||
      raw.elements != p.pages * p.page_tokens * w->index_dim) {
    return kWrongShape;
  }
  p.index_raw = raw.data;
  Scratch scratch(c);
  const i64 floats = most(w->head_dim, w->index_dim);
  float* memory = scratch.take<float>(floats * pool_threads(c->pool));
  if (!scratch.ok()) return kOutOfMemory;
  const i64 cost = k.rows * (width + w->index_dim);
  parallel(c, k.rows, cost, [&](i64 r, i64 thread) {
    (p.element_bytes == 2 ? append_row<u16> : append_row<float>)(
        w, p, r, angles.cos.row(r), angles.sin.row(r), k.row(r), v.row(r), index_k.row(r),
        memory + thread * floats);
  });
  // Raw keys of a block may come from several rows of this pass: all are stored now.
  for (i64 r = 0; r < k.rows; ++r) {
    if (p.positions[r] % w->ratio != w->ratio - 1) continue;
    (p.element_bytes == 2 ? pool_block<u16> : pool_block<float>)(
        w, p, r, block_angles.cos.row(r), block_angles.sin.row(r), memory);
  }
  return kOk;
}

}  // namespace STRATUM_ISA
