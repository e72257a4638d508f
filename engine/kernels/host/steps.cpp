// What is written anew before every pass: the arrays of its plan, and the rows of the n-gram table.
//
// For a decode step these are a few dozen numbers, and a numpy call for each array takes longer than
// the kernels of a small layer. Plain twins: `PlanBuilder` (engine/sequence/plan_builder.py) and
// `PleHash` (engine/model/ple_hash.py), which say what is written and serve where this library cannot
// be loaded. All memory is the caller's. Needs no more than any x86-64.

#include "arrays.h"

#if defined(_WIN32)
#define STRATUM_API extern "C" __declspec(dllexport)
#else
#define STRATUM_API extern "C" __attribute__((visibility("default")))
#endif

// `_PlanArrays` of engine/sequence/plan_writer.py: the arrays of `PassPlan` from their first row on.
struct PlanArrays {
  i32* token_ids;   // [max_rows]
  i32* positions;   // [max_rows]
  i32* row_seq;     // [max_rows]
  i32* seq_start;   // [max_sequences + 1]
  i32* seq_slot;    // [max_sequences]
  i32* seq_half;    // [max_sequences]
  i32* seq_length;  // [max_sequences]
  float* rope_cos;  // [max_rows, num_angles], as are the next three
  float* rope_sin;
  float* block_cos;
  float* block_sin;
  const float* text_cos;  // [num_known, num_angles], of the positions 0, 1, 2, ...
  const float* text_sin;
  i64 num_known;
  i64 num_angles;
  i64 block_ratio;
  i64 max_rows;
  i64 max_sequences;
};

// Writes a plan of text. `words`: slot, half, first position, where its cache begins, number of rows
// for each sequence, then the rows' tokens, sequence by sequence. Returns kOk, or kWrongShape when
// something does not fit into the arrays; then they may be half written.
STRATUM_API i32 stratum_plan(const PlanArrays* a, const i64* words, i64 num_sequences) {
  if (num_sequences > a->max_sequences) return kWrongShape;
  const i64* tokens = words + 5 * num_sequences;
  const i64 angles = a->num_angles, bytes = angles * (i64)sizeof(float);
  i64 row = 0;
  for (i64 s = 0; s < num_sequences; ++s, words += 5) {
    const i64 first = words[2], base = words[3], count = words[4];
    if (count < 1 || row + count > a->max_rows || base < 0 || first < base ||
        first + count > a->num_known) {
      return kWrongShape;
    }
    a->seq_start[s] = (i32)row;
    a->seq_slot[s] = (i32)words[0];
    a->seq_half[s] = (i32)words[1];
    a->seq_length[s] = (i32)(first - base);
    for (i64 i = 0; i < count; ++i, ++row, ++tokens) {
      a->token_ids[row] = (i32)*tokens;
      a->positions[row] = (i32)(first - base + i);
      a->row_seq[row] = (i32)s;
      const i64 at = first + i, block = at < a->block_ratio ? 0 : at - (a->block_ratio - 1);
      __builtin_memcpy(a->rope_cos + row * angles, a->text_cos + at * angles, bytes);
      __builtin_memcpy(a->rope_sin + row * angles, a->text_sin + at * angles, bytes);
      __builtin_memcpy(a->block_cos + row * angles, a->text_cos + block * angles, bytes);
      __builtin_memcpy(a->block_sin + row * angles, a->text_sin + block * angles, bytes);
    }
  }
  a->seq_start[num_sequences] = (i32)row;
  return kOk;
}

// `_HashRules` of engine/model/ple_hash.py.
struct HashRules {
  const u64* multipliers;  // [ngram_size]
  const u64* sizes;        // [ngram_size - 1, heads], as are the offsets
  const u64* offsets;
  i64 ngram_size;
  i64 heads;  // of each order
  i64 eos;
  i64 object_head;  // bytes of a Python object before its own fields
};

// Rows of the n-gram table for `num_rows` tokens: `ids` are the ngram_size - 1 tokens before them,
// then they. They go into the rows from `first` on of a contiguous int64 array
// [R, (ngram_size - 1) * heads]. Returns kOk, or kWrongShape when they do not fit.
STRATUM_API i32 stratum_ngram_rows(const HashRules* rules, const i64* ids, i64 num_rows, Object rows,
                                   i64 first) {
  const i64 context = rules->ngram_size - 1, width = context * rules->heads;
  const ArrayHeader* a = (const ArrayHeader*)((const u8*)rows + rules->object_head);
  if (a->dimensions != 2 || !contiguous(a, 0, sizeof(i64)) || a->shape[1] != width || first < 0 ||
      first + num_rows > a->shape[0]) {
    return kWrongShape;
  }
  i64* out = (i64*)a->data + first * width;
  for (i64 i = context; i < context + num_rows; ++i) {
    u64 mix = (u64)ids[i] * rules->multipliers[0];
    bool is_cut = false;  // an end was seen on the way back
    for (i64 s = 1; s <= context; ++s) {
      is_cut |= ids[i - s] == rules->eos;
      mix ^= (u64)(is_cut ? rules->eos : ids[i - s]) * rules->multipliers[s];
      const u64 *sizes = rules->sizes + (s - 1) * rules->heads,
                *offsets = rules->offsets + (s - 1) * rules->heads;
      for (i64 h = 0; h < rules->heads; ++h) *out++ = (i64)(mix % sizes[h] + offsets[h]);
    }
  }
  return kOk;
}
