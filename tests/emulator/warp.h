// Barriers, warp instructions, atomics, asynchronous copies and tensor-core products of the emulated card.
#pragma once

inline void __syncthreads() { emulator::runtime->barrier(0); }
inline int __syncthreads_count(int predicate) { return emulator::runtime->barrier(predicate != 0); }
inline int __syncthreads_or(int predicate) { return emulator::runtime->barrier(predicate != 0) != 0; }
inline int __syncthreads_and(int predicate) { return emulator::runtime->barrier(predicate == 0) == 0; }
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}

namespace emulator {

constexpr uint64_t NOT_THERE = 0xfff7a5a5fff7a5a5ull;  // NaN as float and as double

// A lane's value, and the lane whose value it wants.
struct Exchange {
    uint64_t value;
    uint64_t result;
    uint32_t source;
};

inline void exchange(void* const* mine, uint32_t mask) {
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        Exchange* own = static_cast<Exchange*>(mine[__builtin_ctz(rest)]);
        const bool is_there = (mask >> own->source) & 1u;
        own->result = is_there ? static_cast<const Exchange*>(mine[own->source])->value : NOT_THERE;
    }
}

template <class T>
inline T shuffle(uint32_t mask, T value, uint32_t source) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles move 4 or 8 bytes");
    Exchange own = {0, 0, source & 31u};
    memcpy(&own.value, &value, sizeof(T));
    runtime->meet(mask, exchange, &own);
    memcpy(&value, &own.result, sizeof(T));
    return value;
}

struct Vote {
    bool predicate;
    uint32_t result;
};

inline void vote(void* const* mine, uint32_t mask) {
    uint32_t bits = 0;
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        const int lane = __builtin_ctz(rest);
        bits |= static_cast<uint32_t>(static_cast<const Vote*>(mine[lane])->predicate) << lane;
    }
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        static_cast<Vote*>(mine[__builtin_ctz(rest)])->result = bits;
    }
}

// stratum.cuh's sums over a warp, all steps at once: the same additions as by shuffles, so the same bits.
template <class T>
inline void sum_warp(void* const* mine, uint32_t) {
    T values[32], sums[32];
    for (int lane = 0; lane < 32; ++lane) values[lane] = *static_cast<const T*>(mine[lane]);
    for (int step = 16; step > 0; step /= 2) {
        for (int lane = 0; lane < 32; ++lane) sums[lane] = values[lane] + values[lane ^ step];
        memcpy(values, sums, sizeof(values));
    }
    for (int lane = 0; lane < 32; ++lane) *static_cast<T*>(mine[lane]) = values[lane];
}

inline void max_warp(void* const* mine, uint32_t) {
    float values[32], largest[32];
    for (int lane = 0; lane < 32; ++lane) values[lane] = *static_cast<const float*>(mine[lane]);
    for (int step = 16; step > 0; step /= 2) {
        for (int lane = 0; lane < 32; ++lane) largest[lane] = fmaxf(values[lane], values[lane ^ step]);
        memcpy(values, largest, sizeof(values));
    }
    for (int lane = 0; lane < 32; ++lane) *static_cast<float*>(mine[lane]) = values[lane];
}

inline void only_meet(void* const*, uint32_t) {}

// A lane's registers of a tensor-core product; K / 16 pairs of A's and one of B's for each 16 of k.
struct Product {
    int* acc;
    const uint32_t* a;
    const uint32_t* b;
};

template <int K>
inline void multiply(void* const* mine, uint32_t) {
    int8_t a[16][K], b[8][K];
    for (int lane = 0; lane < 32; ++lane) {
        const Product& own = *static_cast<const Product*>(mine[lane]);
        const int group = lane / 4, first = lane % 4 * 4;
        for (int half = 0; half < K / 16; ++half) {
            memcpy(&a[group][half * 16 + first], &own.a[half * 2], 4);
            memcpy(&a[group + 8][half * 16 + first], &own.a[half * 2 + 1], 4);
            memcpy(&b[group][half * 16 + first], &own.b[half], 4);
        }
    }
    for (int lane = 0; lane < 32; ++lane) {
        const Product& own = *static_cast<const Product*>(mine[lane]);
        for (int i = 0; i < 4; ++i) {
            const int8_t* row = a[lane / 4 + i / 2 * 8];
            const int8_t* column = b[lane % 4 * 2 + i % 2];
            int sum = 0;
            for (int k = 0; k < K; ++k) sum += row[k] * column[k];
            own.acc[i] = static_cast<int>(static_cast<uint32_t>(own.acc[i]) + static_cast<uint32_t>(sum));
        }
    }
}

}  // namespace emulator

// `width` lanes are a group of their own; where a source would lie outside, a lane gets its own value.
template <class T>
inline T __shfl_sync(uint32_t mask, T value, int source, int width = 32) {
    const uint32_t lane = emulator::here.lane, w = static_cast<uint32_t>(width);
    return emulator::shuffle(mask, value, (lane & ~(w - 1)) | (static_cast<uint32_t>(source) & (w - 1)));
}

template <class T>
inline T __shfl_up_sync(uint32_t mask, T value, unsigned delta, int width = 32) {
    const uint32_t lane = emulator::here.lane, within = lane & (static_cast<uint32_t>(width) - 1);
    return emulator::shuffle(mask, value, within >= delta ? lane - delta : lane);
}

template <class T>
inline T __shfl_down_sync(uint32_t mask, T value, unsigned delta, int width = 32) {
    const uint32_t lane = emulator::here.lane, w = static_cast<uint32_t>(width), within = lane & (w - 1);
    return emulator::shuffle(mask, value, within + delta < w ? lane + delta : lane);
}

template <class T>
inline T __shfl_xor_sync(uint32_t mask, T value, int bits, int width = 32) {
    const uint32_t lane = emulator::here.lane, w = static_cast<uint32_t>(width);
    const uint32_t source = lane ^ static_cast<uint32_t>(bits);
    return emulator::shuffle(mask, value, (source & ~(w - 1)) > (lane | (w - 1)) ? lane : source);
}

inline uint32_t __ballot_sync(uint32_t mask, int predicate) {
    emulator::Vote own = {predicate != 0, 0};
    emulator::runtime->meet(mask, emulator::vote, &own);
    return own.result;
}

inline int __any_sync(uint32_t mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(uint32_t mask, int predicate) { return __ballot_sync(mask, !predicate) == 0; }

inline void __syncwarp(uint32_t mask = 0xffffffffu) {
    emulator::runtime->meet(mask, emulator::only_meet, nullptr);
}

template <class T>
inline T atomicAdd(T* target, T value) {
    const T old = *target;
    *target = static_cast<T>(old + value);
    return old;
}
inline uint32_t atomicAdd(uint32_t* target, int value) { return atomicAdd(target, static_cast<uint32_t>(value)); }
template <class T>
inline T atomicSub(T* target, T value) {
    const T old = *target;
    *target = static_cast<T>(old - value);
    return old;
}
template <class T>
inline T atomicMax(T* target, T value) {
    const T old = *target;
    *target = old < value ? value : old;
    return old;
}
template <class T>
inline T atomicMin(T* target, T value) {
    const T old = *target;
    *target = value < old ? value : old;
    return old;
}
template <class T>
inline T atomicExch(T* target, T value) {
    const T old = *target;
    *target = value;
    return old;
}
template <class T>
inline T atomicCAS(T* target, T expected, T value) {
    const T old = *target;
    if (old == expected) *target = value;
    return old;
}
template <class T>
inline T atomicOr(T* target, T value) {
    const T old = *target;
    *target = old | value;
    return old;
}
template <class T>
inline T atomicAnd(T* target, T value) {
    const T old = *target;
    *target = old & value;
    return old;
}

inline void cp_async16(void* shared_target, const void* source) {
    emulator::runtime->copy_async(shared_target, source, 16);
}
inline void cp_async4(void* shared_target, const void* source) {
    emulator::runtime->copy_async(shared_target, source, 4);
}
inline void cp_async_commit() { emulator::runtime->commit_copies(); }
template <int N>
inline void cp_async_wait() {
    emulator::runtime->wait_for_copies(N);
}

inline float warp_sum(float value) {
    emulator::runtime->meet(0xffffffffu, emulator::sum_warp<float>, &value);
    return value;
}
inline int32_t warp_sum(int32_t value) {
    emulator::runtime->meet(0xffffffffu, emulator::sum_warp<int32_t>, &value);
    return value;
}
inline float warp_max(float value) {
    emulator::runtime->meet(0xffffffffu, emulator::max_warp, &value);
    return value;
}

inline void mma_s8_m16n8k32(int acc[4], const uint32_t a[4], const uint32_t b[2]) {
    emulator::Product own = {acc, a, b};
    emulator::runtime->meet(0xffffffffu, emulator::multiply<32>, &own);
}
inline void mma_s8_m16n8k16(int acc[4], const uint32_t a[2], uint32_t b) {
    emulator::Product own = {acc, a, &b};
    emulator::runtime->meet(0xffffffffu, emulator::multiply<16>, &own);
}
