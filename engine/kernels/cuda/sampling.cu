// What drawing tokens needs of logits: the largest of each row, or the best 64 and the sum of all exponentials.
//
// A row of V logits is cut into parts that a block looks at alone; one block then joins the parts, in order. Rows
// with a NaN or without a finite largest logit give no id (-1): the caller looks at them itself. Masked logits are
// -infinity and never given. Plain twin: `Sampler` in engine/decode/sampling.py; numpy in the tests.
#include "largest.cuh"

constexpr int MOST_CANDIDATES = 64;
constexpr int MOST_PARTS = WARP_SIZE;  // of a row: a warp joins their sums, a lane for each
constexpr int NUM_CANDIDATES = MOST_CANDIDATES * MOST_PARTS;
constexpr int KEPT_KEYS = 8192;  // of a part, in shared memory: with the rest 41 KiB

// What is known of a row in the end. Mirrored in engine/ops/best_logits.py.
struct RowBest {
    int32_t ids[MOST_CANDIDATES];   // -1 where no logit above -infinity is left
    float values[MOST_CANDIDATES];  // descending, ties by lower id; -infinity there
    float log_sum;                  // ln of the sum of exp of all logits; NaN for rows without a usable one
};

// A logit and its id as one number: larger logits first, then lower ids.
__device__ __forceinline__ uint64_t candidate_of(float logit, int32_t id) {
    return (static_cast<uint64_t>(ordered_key(logit)) << 32) | ~static_cast<uint32_t>(id);
}

__device__ __forceinline__ float logit_of(uint64_t candidate) {
    return value_of_key(static_cast<uint32_t>(candidate >> 32));
}

__device__ __forceinline__ int32_t id_of(uint64_t candidate) {
    return static_cast<int32_t>(~static_cast<uint32_t>(candidate));
}

constexpr uint64_t ODD = ~static_cast<uint64_t>(0);  // above every candidate: a NaN was there

__device__ __forceinline__ uint64_t larger_of(uint64_t a, uint64_t b) { return a > b ? a : b; }

// The largest over the block's threads. `memory`: a number for each warp.
__device__ __forceinline__ uint64_t block_largest(uint64_t value, uint64_t* memory) {
    for (int step = WARP_SIZE / 2; step > 0; step /= 2) {
        const uint32_t high = __shfl_xor_sync(FULL_WARP, static_cast<uint32_t>(value >> 32), step);
        const uint32_t low = __shfl_xor_sync(FULL_WARP, static_cast<uint32_t>(value), step);
        value = larger_of(value, (static_cast<uint64_t>(high) << 32) | low);
    }
    __syncthreads();
    if (lane_index() == 0) memory[warp_index()] = value;
    __syncthreads();
    value = memory[0];
    for (int w = 1; w < num_warps(); ++w) value = larger_of(value, memory[w]);
    return value;
}

// A stretch of a row: part p of num_parts.
struct Part {
    int32_t first;
    int32_t stop;
};

__device__ __forceinline__ Part part_of(int32_t vocabulary, int32_t part, int32_t num_parts) {
    const int32_t each = (vocabulary + num_parts - 1) / num_parts;
    return {min(part * each, vocabulary), min((part + 1) * each, vocabulary)};
}

__device__ __forceinline__ uint64_t largest_of_part(const float* row, Part part, uint64_t* memory) {
    uint64_t best = 0;
    for (int32_t i = part.first + threadIdx.x; i < part.stop; i += blockDim.x) {
        const float value = row[i];
        best = larger_of(best, value != value ? ODD : candidate_of(value, i));
    }
    return block_largest(best, memory);
}

__device__ __forceinline__ bool is_usable(uint64_t best) {
    if (best == ODD || best == 0) return false;
    return fabsf(logit_of(best)) < __int_as_float(0x7f800000);
}

// bests [R, parts]. Grid (parts, R).
KERNEL(argmax_parts)(const float* logits, uint64_t* bests, int32_t vocabulary) {
    __shared__ uint64_t memory[WARP_SIZE];
    const float* row = logits + static_cast<int64_t>(blockIdx.y) * vocabulary;
    const uint64_t best = largest_of_part(row, part_of(vocabulary, blockIdx.x, gridDim.x), memory);
    if (threadIdx.x == 0) bests[static_cast<int64_t>(blockIdx.y) * gridDim.x + blockIdx.x] = best;
}
EXPORT(argmax_parts)

// ids [R]: of each row's largest logit, -1 for rows without a usable one. Grid (R), block 32.
KERNEL(argmax_join)(const uint64_t* bests, int32_t* ids, int32_t num_parts) {
    __shared__ uint64_t memory[WARP_SIZE];
    const uint64_t* own = bests + static_cast<int64_t>(blockIdx.x) * num_parts;
    uint64_t best = 0;
    for (int32_t p = threadIdx.x; p < num_parts; p += blockDim.x) best = larger_of(best, own[p]);
    best = block_largest(best, memory);
    if (threadIdx.x == 0) ids[blockIdx.x] = is_usable(best) ? id_of(best) : -1;
}
EXPORT(argmax_join)

// The 64 best of each part in ascending order of id, zero behind them, into candidates [R, parts, 64]; the part's
// largest logit and sum of exp(logit - largest) into tops and sums [R, parts] (a NaN where there is one). A part's
// keys are walked over five times, so they stay in shared memory when there are not more than a vocabulary of
// 262,144 tokens gives. Grid (parts, R), block a power of two.
KERNEL(candidate_parts)(const float* logits, uint64_t* candidates, float* tops, float* sums, int32_t vocabulary) {
    __shared__ uint64_t largest[WARP_SIZE];
    __shared__ float memory[WARP_SIZE];
    __shared__ LargestMemory chosen;
    __shared__ uint32_t keys[KEPT_KEYS];
    const float* row = logits + static_cast<int64_t>(blockIdx.y) * vocabulary;
    const Part part = part_of(vocabulary, blockIdx.x, gridDim.x);
    const int32_t count = part.stop - part.first, wanted = min(MOST_CANDIDATES, count), first = part.first;
    const int64_t at = static_cast<int64_t>(blockIdx.y) * gridDim.x + blockIdx.x;
    uint64_t* to = candidates + at * MOST_CANDIDATES;
    uint64_t best = 0;
#pragma unroll 4
    for (int32_t i = threadIdx.x; i < count; i += blockDim.x) {
        const float value = row[first + i];
        if (i < KEPT_KEYS) keys[i] = ordered_key(value);
        best = larger_of(best, value != value ? ODD : candidate_of(value, first + i));
    }
    best = block_largest(best, largest);  // with barriers: all keys are there
    const float top = best == ODD ? __int_as_float(0x7fc00000)
                      : best == 0 ? -__int_as_float(0x7f800000)
                                  : logit_of(best);
    const auto key = [row, first](int32_t i) { return i < KEPT_KEYS ? keys[i] : ordered_key(row[first + i]); };
    float sum = 0.0f;
    for (int32_t i = threadIdx.x; i < count; i += blockDim.x) sum += expf(value_of_key(key(i)) - top);
    sum = block_sum(sum, memory);
    if (threadIdx.x == 0) {
        tops[at] = top;
        sums[at] = sum;
    }
    for (int32_t i = wanted + threadIdx.x; i < MOST_CANDIDATES; i += blockDim.x) to[i] = 0;
    if (wanted == 0) return;
    const Threshold threshold = find_threshold(count, wanted, chosen, key);
    take_largest(count, threshold, chosen, key, [to, first, &key](int32_t n, int32_t i) {
        to[n] = candidate_of(value_of_key(key(i)), first + i);
    });
}
EXPORT(candidate_parts)

// Sorts the candidates of all parts: the 64 best of each row, and the sum of all. Grid (R), block at least a warp.
KERNEL(candidate_join)(const uint64_t* candidates, const float* tops, const float* sums, RowBest* bests,
                       int32_t num_parts) {
    __shared__ uint64_t sorted[NUM_CANDIDATES];
    const int64_t row = blockIdx.x;
    const int32_t count = num_parts * MOST_CANDIDATES;
    int32_t size = MOST_CANDIDATES;
    while (size < count) size *= 2;
    for (int32_t i = threadIdx.x; i < size; i += blockDim.x) sorted[i] = i < count ? candidates[row * count + i] : 0;
    // Bitonic sort, descending.
    for (int32_t run = 2; run <= size; run *= 2) {
        for (int32_t step = run / 2; step > 0; step /= 2) {
            __syncthreads();
            for (int32_t i = threadIdx.x; i < size / 2; i += blockDim.x) {
                const int32_t a = 2 * i - (i & (step - 1)), b = a + step;
                const bool is_descending = (a & run) == 0;
                const uint64_t x = sorted[a], y = sorted[b];
                if ((x < y) == is_descending) {
                    sorted[a] = y;
                    sorted[b] = x;
                }
            }
        }
    }
    __syncthreads();
    RowBest& own = bests[row];
    for (int32_t i = threadIdx.x; i < MOST_CANDIDATES; i += blockDim.x) {
        const uint64_t candidate = sorted[i];
        const float value = candidate == 0 ? -__int_as_float(0x7f800000) : logit_of(candidate);
        own.ids[i] = value > -__int_as_float(0x7f800000) ? id_of(candidate) : -1;
        own.values[i] = value;
    }
    if (threadIdx.x >= WARP_SIZE) return;
    const int32_t lane = lane_index();
    const bool is_part = lane < num_parts;
    const float value = is_part ? tops[row * num_parts + lane] : -__int_as_float(0x7f800000);
    const bool has_odd = __any_sync(FULL_WARP, value != value);  // warp_max may lose a NaN
    const float top = warp_max(value);
    const bool is_odd = has_odd || !(fabsf(top) < __int_as_float(0x7f800000));
    const bool counts = is_part && !is_odd && value > -__int_as_float(0x7f800000);
    const float total = warp_sum(counts ? sums[row * num_parts + lane] * expf(value - top) : 0.0f);
    if (lane == 0) own.log_sum = is_odd ? __int_as_float(0x7fc00000) : top + logf(total);
}
EXPORT(candidate_join)
