// What a pass computes, as kernels see it: the arrays of engine/ops/plan.py in the card's memory.
#pragma once
#include "stratum.cuh"

// Mirrored by `PassStruct` of engine/ops/cuda_structs.py. R rows, S sequences.
struct Pass {
    const int32_t* positions;     // [R]
    const int32_t* row_seq;       // [R]
    const int32_t* seq_start;     // [S + 1]
    const int32_t* seq_slot;      // [S]
    const int32_t* seq_half;      // [S]
    const int32_t* seq_length;    // [S]
    const int32_t* page_table;    // [S, max_pages]
    const float* rope_cos;        // [R, rope_dim / 2]
    const float* rope_sin;        // [R, rope_dim / 2]
    const float* block_rope_cos;  // [R, rope_dim / 2]
    const float* block_rope_sin;  // [R, rope_dim / 2]
    int32_t num_rows;
    int32_t num_sequences;
    int32_t max_pages;
};

// Where a row stands in its sequence, and the halves of that sequence's fixed state.
struct RowPlace {
    int32_t sequence;
    int32_t first;  // row of the pass
    int32_t count;  // rows of the sequence in this pass
    int32_t at;     // of them, this one
    int32_t slot;
    int32_t half;   // that is read; the other one is written
};

__device__ __forceinline__ RowPlace row_place(const Pass& pass, int32_t row) {
    RowPlace place;
    place.sequence = pass.row_seq[row];
    place.first = pass.seq_start[place.sequence];
    place.count = pass.seq_start[place.sequence + 1] - place.first;
    place.at = row - place.first;
    place.slot = pass.seq_slot[place.sequence];
    place.half = pass.seq_half[place.sequence];
    return place;
}

// A convolution's history of one channel: the value `back` rows before the first row of this pass (1 is the newest).
// `history` [length, width] lies in the half that is read.
__device__ __forceinline__ float history_value(const float* history, int32_t length, int32_t width, int32_t back,
                                               int32_t channel) {
    return history[static_cast<int64_t>(length - back) * width + channel];
}

// What one row does for the new history of one channel, the last `length` of old history and inputs, oldest first:
// it stores its own input where that is among them, and the first row moves what is left of the old history.
__device__ __forceinline__ void move_history(const float* from, float* to, int32_t length, int32_t width,
                                             const RowPlace& place, int32_t channel, float input) {
    const int32_t own = place.at - (place.count - length);
    if (own >= 0) to[static_cast<int64_t>(own) * width + channel] = input;
    if (place.at != 0) return;
    for (int32_t j = 0; j < length - place.count; ++j) {
        to[static_cast<int64_t>(j) * width + channel] = from[static_cast<int64_t>(place.count + j) * width + channel];
    }
}
