// What every CUDA source here begins with: names of types, kernels and their export, conversions of 16-bit
// floats, and wrappers of the instructions that C++ has no name for. No CUDA headers are needed.
//
// Compiled twice: by NVRTC for the card (-std=c++17 --fmad=false), and by a host compiler with STRATUM_EMULATED,
// where tests/emulator/emulator.h stands for the card. A product and a sum are fused only where the source says
// fmaf: so a row's bits depend neither on how many rows a variant computes nor on which compiler made it.
//
// A kernel:
//     KERNEL(add_one)(float* values, int32_t count) { ... }
//     EXPORT(add_one)
// Its parameters are pointers, int32_t, int64_t, float and plain structs of those, by value. Shared arrays are
// declared inside functions only, and hold garbage at first. Blocks are 32 to 1024 threads, whole warps.
#pragma once

#ifdef STRATUM_EMULATED
#include "emulator.h"
#else

using int8_t = signed char;
using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned int;
using int64_t = long long;
using uint64_t = unsigned long long;

#define KERNEL(name) extern "C" __global__ void name
// The same for a kernel that is launched with at most `threads` a block: it may use more registers.
#define KERNEL_BOUNDED(name, threads) extern "C" __global__ void __launch_bounds__(threads) name
#define EXPORT(name)

// `type* name`: the launch's dynamic shared memory, 16-byte aligned. Once in a kernel.
#define DYNAMIC_SHARED(type, name)                                    \
    extern __shared__ __align__(16) unsigned char stratum_dynamic[]; \
    type* name = reinterpret_cast<type*>(stratum_dynamic)

// IEEE half and bfloat16 as bits. Rounding is to nearest, ties to even.
__device__ __forceinline__ float half_to_float(uint16_t bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

__device__ __forceinline__ uint16_t float_to_half(float value) {
    uint16_t bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

// Asynchronous copies from global to shared memory, both aligned to the size. A thread's copies up to a commit
// are a group; cp_async_wait<N> returns when at most N of this thread's newest groups are still under way. What
// other threads copied needs a __syncthreads after the wait. Before sm_80 they are plain copies.
__device__ __forceinline__ void cp_async16(void* shared_target, const void* source) {
#if __CUDA_ARCH__ >= 800
    const uint32_t target = static_cast<uint32_t>(__cvta_generic_to_shared(shared_target));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(target), "l"(source) : "memory");
#else
    *static_cast<uint4*>(shared_target) = *static_cast<const uint4*>(source);
#endif
}

__device__ __forceinline__ void cp_async4(void* shared_target, const void* source) {
#if __CUDA_ARCH__ >= 800
    const uint32_t target = static_cast<uint32_t>(__cvta_generic_to_shared(shared_target));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(target), "l"(source) : "memory");
#else
    *static_cast<uint32_t*>(shared_target) = *static_cast<const uint32_t*>(source);
#endif
}

__device__ __forceinline__ void cp_async_commit() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

template <int N>
__device__ __forceinline__ void cp_async_wait() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
#endif
}

#if __CUDA_ARCH__ < 800
__device__ __forceinline__ void stratum_mma_m8n8k16(int& c0, int& c1, uint32_t a, uint32_t b) {
    asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
        : "+r"(c0), "+r"(c1)
        : "r"(a), "r"(b));
}
#endif

// Tensor-core product of int8, summed in int32: acc (16 x 8) += a (16 x K, row-major) * b (K x 8, column-major).
// Called by whole warps. With g = lane / 4 and t = lane % 4, a lane holds, four bytes of k in a register:
//     a[0]: row g,     k = 4t ..      a[1]: row g + 8, k = 4t ..
//     a[2]: row g,     k = 16 + 4t .. a[3]: row g + 8, k = 16 + 4t ..   (K = 32 only)
//     b[0]: column g,  k = 4t ..      b[1]: column g,  k = 16 + 4t ..   (K = 32 only)
//     acc[0], acc[1]: row g, columns 2t and 2t + 1;  acc[2], acc[3]: row g + 8, the same columns
__device__ __forceinline__ void mma_s8_m16n8k32(int acc[4], const uint32_t a[4], const uint32_t b[2]) {
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+r"(acc[0]), "+r"(acc[1]), "+r"(acc[2]), "+r"(acc[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    stratum_mma_m8n8k16(acc[0], acc[1], a[0], b[0]);
    stratum_mma_m8n8k16(acc[2], acc[3], a[1], b[0]);
    stratum_mma_m8n8k16(acc[0], acc[1], a[2], b[1]);
    stratum_mma_m8n8k16(acc[2], acc[3], a[3], b[1]);
#endif
}

__device__ __forceinline__ void mma_s8_m16n8k16(int acc[4], const uint32_t a[2], uint32_t b) {
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 "
        "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+r"(acc[0]), "+r"(acc[1]), "+r"(acc[2]), "+r"(acc[3])
        : "r"(a[0]), "r"(a[1]), "r"(b));
#else
    stratum_mma_m8n8k16(acc[0], acc[1], a[0], b);
    stratum_mma_m8n8k16(acc[2], acc[3], a[1], b);
#endif
}

// Sums over the lanes of a warp, the same bits in every lane and always in the same order.
__device__ __forceinline__ float warp_sum(float value) {
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
    return value;
}

__device__ __forceinline__ int32_t warp_sum(int32_t value) {
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
    return value;
}

__device__ __forceinline__ float warp_max(float value) {
    for (int step = 16; step > 0; step /= 2) value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, step));
    return value;
}

#endif  // STRATUM_EMULATED

constexpr uint32_t FULL_WARP = 0xffffffffu;
constexpr int WARP_SIZE = 32;

__device__ __forceinline__ float bf16_to_float(uint16_t bits) {
    return __uint_as_float(static_cast<uint32_t>(bits) << 16);
}

__device__ __forceinline__ uint16_t float_to_bf16(float value) {
    const uint32_t bits = __float_as_uint(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);  // NaN stays NaN
    return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
