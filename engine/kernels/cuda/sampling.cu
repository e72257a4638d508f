// What drawing tokens needs of logits: the largest of each row, or the best 64 and the sum of all exponentials.
//
// A row of V logits is cut into parts that a block looks at alone; one block then joins the parts, in order. Rows
// with a NaN or without a finite largest logit give no id (-1): the caller looks at them itself. Masked logits are
// -infinity and never given. Plain twin: `Sampler` in engine/decode/sampling.py; numpy in the tests.
#include "largest.cuh"

constexpr int MOST_CANDIDATES = 64;
constexpr int MOST_PARTS = 32;  // of a row
constexpr int NUM_CANDIDATES = MOST_CANDIDATES * MOST_PARTS;

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
// largest logit and sum of exp(logit - largest) into tops and sums [R, parts] (a NaN where there is one).
// Grid (parts, R), block a power of two.
KERNEL(candidate_parts)(const float* logits, uint64_t* candidates, float* tops, float* sums, int32_t vocabulary) {
    __shared__ uint64_t largest[WARP_SIZE];
    __shared__ float memory[WARP_SIZE];
    __shared__ LargestMemory chosen;
    const float* row = logits + static_cast<int64_t>(blockIdx.y) * vocabulary;
    const Part part = part_of(vocabulary, blockIdx.x, gridDim.x);
    const int32_t count = part.stop - part.first, wanted = min(MOST_CANDIDATES, count);
    const int64_t at = static_cast<int64_t>(blockIdx.y) * gridDim.x + blockIdx.x;
    uint64_t* to = candidates + at * MOST_CANDIDATES;
    const uint64_t best = largest_of_part(row, part, largest);
    const float top = best == ODD ? __int_as_float(0x7fc00000)
                      : best == 0 ? -__int_as_float(0x7f800000)
                                  : logit_of(best);
    float sum = 0.0f;
    for (int32_t i = part.first + threadIdx.x; i < part.stop; i += blockDim.x) sum += expf(row[i] - top);
    sum = block_sum(sum, memory);
    if (threadIdx.x == 0) {
        tops[at] = top;
        sums[at] = sum;
    }
    for (int32_t i = wanted + threadIdx.x; i < MOST_CANDIDATES; i += blockDim.x) to[i] = 0;
    if (wanted == 0) return;
    const int32_t first = part.first;
    const auto key = [row, first](int32_t i) { return ordered_key(row[first + i]); };
    const Threshold threshold = find_threshold(count, wanted, chosen, key);
    take_largest(count, threshold, chosen, key,
                 [to, row, first](int32_t n, int32_t i) { to[n] = candidate_of(row[first + i], first + i); });
}
EXPORT(candidate_parts)

// Sorts the candidates of all parts: the 64 best, descending, ties by lower id, into ids and values [R, 64] (id -1
// behind them, and at -infinity); log_sums [R] = ln of the sum of exp of all logits, NaN for rows without a usable
// largest logit. Grid (R), block 256.
KERNEL(candidate_join)(const uint64_t* candidates, const float* tops, const float* sums, int32_t* ids, float* values,
                       float* log_sums, int32_t num_parts) {
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
    for (int32_t i = threadIdx.x; i < MOST_CANDIDATES; i += blockDim.x) {
        const uint64_t candidate = sorted[i];
        const float value = candidate == 0 ? -__int_as_float(0x7f800000) : logit_of(candidate);
        const bool is_token = value > -__int_as_float(0x7f800000);
        ids[row * MOST_CANDIDATES + i] = is_token ? id_of(candidate) : -1;
        values[row * MOST_CANDIDATES + i] = value;
    }
    if (threadIdx.x != 0) return;
    float top = -__int_as_float(0x7f800000);
    bool is_odd = false;
    for (int32_t p = 0; p < num_parts; ++p) {
        const float value = tops[row * num_parts + p];
        is_odd |= value != value;
        top = fmaxf(top, value);
    }
    is_odd |= !(fabsf(top) < __int_as_float(0x7f800000));
    float total = 0.0f;
    for (int32_t p = 0; p < num_parts && !is_odd; ++p) {
        const float value = tops[row * num_parts + p];
        if (value > -__int_as_float(0x7f800000)) total += sums[row * num_parts + p] * expf(value - top);
    }
    log_sums[row] = is_odd ? __int_as_float(0x7fc00000) : top + logf(total);
}
EXPORT(candidate_join)
