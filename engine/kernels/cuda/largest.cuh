// The largest of many numbers, exactly: ties go to the lower index. For one block.
//
// Numbers are compared by 32-bit keys whose order is theirs. The wanted-th largest key is found by its bits, 11, 11
// and 10 of them in three walks over the keys; then one walk counts and one writes, in ascending order of index.
#pragma once
#include "maths.cuh"

constexpr int DIGIT_BITS = 11;
constexpr int NUM_DIGITS = 1 << DIGIT_BITS;

struct LargestMemory {  // shared
    int32_t histogram[NUM_DIGITS];
    int32_t warp_totals[WARP_SIZE];
    int32_t warp_equals[WARP_SIZE];
    uint32_t prefix;
    int32_t rank;
};

// A key whose unsigned order is the order of floats; both zeros are one, NaN of either sign is above or below all.
__device__ __forceinline__ uint32_t ordered_key(float value) {
    const uint32_t bits = __float_as_uint(value + 0.0f);  // -0 becomes 0
    return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

__device__ __forceinline__ float value_of_key(uint32_t key) {
    return __uint_as_float((key & 0x80000000u) != 0 ? key & 0x7fffffffu : ~key);
}

struct Threshold {
    uint32_t key;    // all larger keys are chosen,
    int32_t equals;  // and so many of those equal to it
};

// Adds one to a bin for each lane that takes part; a warp whose lanes agree adds once.
__device__ __forceinline__ void count_digit(int32_t* histogram, uint32_t digit, bool takes_part) {
    const uint32_t voters = __ballot_sync(FULL_WARP, takes_part);
    if (voters == 0) return;
    const uint32_t common = __shfl_sync(FULL_WARP, digit, __ffs(static_cast<int>(voters)) - 1);
    if (__all_sync(FULL_WARP, !takes_part || digit == common)) {
        if (lane_index() == 0) atomicAdd(&histogram[common], __popc(voters));
    } else if (takes_part) {
        atomicAdd(&histogram[digit], 1);
    }
}

// Where the `wanted` largest of `count` keys end, 1 <= wanted <= count. `key(i)` is asked of i < count only.
template <class Key>
__device__ __forceinline__ Threshold find_threshold(int32_t count, int32_t wanted, LargestMemory& memory, Key key) {
    const int32_t threads = blockDim.x, thread = threadIdx.x, lane = lane_index(), warp = warp_index();
    if (thread == 0) {
        memory.prefix = 0;
        memory.rank = wanted;
    }
    const int shifts[3] = {21, 10, 0};
#pragma unroll
    for (int step = 0; step < 3; ++step) {
        const int shift = shifts[step];
        const int bits = step == 2 ? 10 : DIGIT_BITS;
        for (int32_t i = thread; i < NUM_DIGITS; i += threads) memory.histogram[i] = 0;
        __syncthreads();
        const uint32_t prefix = memory.prefix;
        const int32_t rank = memory.rank;
        for (int32_t start = 0; start < count; start += threads) {  // all lanes of a warp stay together
            const int32_t i = start + thread;
            const uint32_t k = i < count ? key(i) : 0;
            const bool takes_part = i < count && (step == 0 || (k >> (shift + bits)) == prefix);
            count_digit(memory.histogram, (k >> shift) & ((1u << bits) - 1u), takes_part);
        }
        __syncthreads();
        // Thread t owns the digits from the top: NUM_DIGITS - 1 - t * each and those below it.
        const int32_t each = NUM_DIGITS / threads;
        int32_t own = 0;
        for (int32_t j = 0; j < each; ++j) own += memory.histogram[NUM_DIGITS - 1 - (thread * each + j)];
        int32_t through = own;  // keys in this thread's digits and all above
        for (int offset = 1; offset < WARP_SIZE; offset *= 2) {
            const int32_t other = __shfl_up_sync(FULL_WARP, through, offset);
            if (lane >= offset) through += other;
        }
        if (lane == WARP_SIZE - 1) memory.warp_totals[warp] = through;
        __syncthreads();
        for (int w = 0; w < warp; ++w) through += memory.warp_totals[w];
        int32_t above = through - own;
        if (above < rank && rank <= through) {  // one thread
            int32_t digit = NUM_DIGITS - 1 - thread * each;
            while (above + memory.histogram[digit] < rank) above += memory.histogram[digit--];
            memory.prefix = (prefix << bits) | static_cast<uint32_t>(digit);
            memory.rank = rank - above;
        }
        __syncthreads();
    }
    return {memory.prefix, memory.rank};
}

// Calls `take(n, i)` for the n-th chosen index i, ascending: all keys above the threshold, and the first ones equal.
template <class Key, class Take>
__device__ __forceinline__ void take_largest(int32_t count, Threshold threshold, LargestMemory& memory, Key key,
                                             Take take) {
    const int32_t lane = lane_index(), warp = warp_index(), warps = num_warps();
    const int32_t each = (count + warps * WARP_SIZE - 1) / (warps * WARP_SIZE) * WARP_SIZE;  // indices of a warp
    const int32_t first = min(warp * each, count), stop = min(first + each, count);
    int32_t larger = 0, equal = 0;  // in this warp's part
    for (int32_t start = first; start < stop; start += WARP_SIZE) {
        const int32_t i = start + lane;
        const uint32_t k = i < stop ? key(i) : 0;
        larger += __popc(__ballot_sync(FULL_WARP, i < stop && k > threshold.key));
        equal += __popc(__ballot_sync(FULL_WARP, i < stop && k == threshold.key));
    }
    if (lane == 0) {
        memory.warp_totals[warp] = larger;
        memory.warp_equals[warp] = equal;
    }
    __syncthreads();
    larger = equal = 0;  // before the part, now
    for (int32_t w = 0; w < warp; ++w) {
        larger += memory.warp_totals[w];
        equal += memory.warp_equals[w];
    }
    for (int32_t start = first; start < stop; start += WARP_SIZE) {
        const int32_t i = start + lane;
        const uint32_t k = i < stop ? key(i) : 0;
        const bool is_larger = i < stop && k > threshold.key, is_equal = i < stop && k == threshold.key;
        const uint32_t larger_lanes = __ballot_sync(FULL_WARP, is_larger);
        const uint32_t equal_lanes = __ballot_sync(FULL_WARP, is_equal);
        const uint32_t below = (1u << lane) - 1u;
        const int32_t equals_before = equal + __popc(equal_lanes & below);
        if (is_larger || (is_equal && equals_before < threshold.equals)) {
            take(larger + __popc(larger_lanes & below) + min(equals_before, threshold.equals), i);
        }
        larger += __popc(larger_lanes);
        equal += __popc(equal_lanes);
    }
}
