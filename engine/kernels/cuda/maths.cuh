// The functions and reductions that kernels share (spec section 1), in float32.
//
// Reductions add in an order that only the block's size fixes, and give every thread the same bits. expf, log1pf
// and sqrtf are the precise ones: 2, 1 and 0.5 units of the last place.
#pragma once
#include "stratum.cuh"

__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

__device__ __forceinline__ float silu(float x) { return x / (1.0f + expf(-x)); }

// ln(1 + e^x); x itself above 20.
__device__ __forceinline__ float softplus(float x) { return x > 20.0f ? x : log1pf(expf(x)); }

// 1 / sqrt(mean + eps) of n squares whose sum is given.
__device__ __forceinline__ float inverse_rms(float squares, int32_t n, float eps) {
    return 1.0f / sqrtf(squares / static_cast<float>(n) + eps);
}

__device__ __forceinline__ int lane_index() { return static_cast<int>(threadIdx.x) % WARP_SIZE; }
__device__ __forceinline__ int warp_index() { return static_cast<int>(threadIdx.x) / WARP_SIZE; }
__device__ __forceinline__ int num_warps() { return static_cast<int>(blockDim.x) / WARP_SIZE; }

// Sums over the block's threads of N values each. `memory`: 32 * N floats of shared memory, free at once when
// the next call, or a __syncthreads, comes before other uses.
template <int N>
__device__ __forceinline__ void block_sums(float (&values)[N], float* memory) {
#pragma unroll
    for (int n = 0; n < N; ++n) values[n] = warp_sum(values[n]);
    __syncthreads();
    if (lane_index() == 0) {
#pragma unroll
        for (int n = 0; n < N; ++n) memory[n * WARP_SIZE + warp_index()] = values[n];
    }
    __syncthreads();
#pragma unroll
    for (int n = 0; n < N; ++n) {
        float total = 0.0f;
        for (int w = 0; w < num_warps(); ++w) total += memory[n * WARP_SIZE + w];
        values[n] = total;
    }
}

__device__ __forceinline__ float block_sum(float value, float* memory) {
    float values[1] = {value};
    block_sums<1>(values, memory);
    return values[0];
}

__device__ __forceinline__ float block_max(float value, float* memory) {
    value = warp_max(value);
    __syncthreads();
    if (lane_index() == 0) memory[warp_index()] = value;
    __syncthreads();
    float top = memory[0];
    for (int w = 1; w < num_warps(); ++w) top = fmaxf(top, memory[w]);
    return top;
}
