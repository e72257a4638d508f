// Kernels with one mistake each, which the emulated card must catch.
#include "stratum.cuh"

KERNEL(read_at)(const float* values, int64_t index, float* out) {
    if (threadIdx.x == 0) out[0] = values[index];
}
EXPORT(read_at)

KERNEL(write_at)(uint8_t* bytes, int64_t index) {
    if (threadIdx.x == 5) bytes[index] = 1;
}
EXPORT(write_at)

KERNEL(read_words_at)(const uint8_t* bytes, int64_t index, uint32_t* out) {
    out[threadIdx.x] = *reinterpret_cast<const uint32_t*>(bytes + index);
}
EXPORT(read_words_at)

KERNEL(index_shared)(int32_t index, float* out) {
    __shared__ float values[32];
    values[threadIdx.x] = 1.0f;
    __syncthreads();
    out[threadIdx.x] = values[index];
}
EXPORT(index_shared)

KERNEL(index_dynamic_shared)(int32_t index, float* out) {
    DYNAMIC_SHARED(float, values);
    values[threadIdx.x] = 1.0f;
    __syncthreads();
    out[threadIdx.x] = values[index];
}
EXPORT(index_dynamic_shared)

KERNEL(shift_by)(int32_t bits, int32_t* out) { out[threadIdx.x] = 1 << bits; }
EXPORT(shift_by)

KERNEL(divide_by)(int32_t divisor, int32_t* out) { out[threadIdx.x] = 100 / divisor; }
EXPORT(divide_by)

// Half of the threads wait at the barrier, the others at each other's warp.
KERNEL(wait_apart)(int32_t* out) {
    if (threadIdx.x < 48) {
        __syncthreads();
    } else {
        out[threadIdx.x] = __shfl_xor_sync(FULL_WARP, 1, 1);
    }
}
EXPORT(wait_apart)

KERNEL(shuffle_without_the_last)(int32_t* out) {
    if (threadIdx.x == 31) return;
    out[threadIdx.x] = __shfl_xor_sync(FULL_WARP, 1, 1);
}
EXPORT(shuffle_without_the_last)

KERNEL(meet_differently)(int32_t* out) {
    if (threadIdx.x < 16) {
        out[threadIdx.x] = __shfl_xor_sync(FULL_WARP, 1, 1);
    } else {
        out[threadIdx.x] = static_cast<int32_t>(__ballot_sync(FULL_WARP, 1));
    }
}
EXPORT(meet_differently)

KERNEL(shuffle_from_outside)(int32_t* out) {
    if (threadIdx.x < 8) out[threadIdx.x] = __shfl_sync(0xffu, 7, 20);
}
EXPORT(shuffle_from_outside)

// Each thread reads what its right neighbour writes, without a barrier.
KERNEL(race_in_shared)(int32_t* out) {
    __shared__ int32_t values[128];
    values[threadIdx.x] = static_cast<int32_t>(threadIdx.x);
    out[threadIdx.x] = values[(threadIdx.x + 1) % blockDim.x];
}
EXPORT(race_in_shared)

// Each block keeps the last value that it saw, in whichever order they ran.
KERNEL(race_of_blocks)(int32_t* out) {
    if (threadIdx.x == 0) out[0] = static_cast<int32_t>(blockIdx.x);
}
EXPORT(race_of_blocks)

KERNEL(use_shared_unset)(float* out) {
    __shared__ float values[64];
    if (threadIdx.x < 16) values[threadIdx.x] = 1.0f;
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = values[threadIdx.x];
}
EXPORT(use_shared_unset)

KERNEL(copy_without_wait)(const uint32_t* in, uint32_t* out) {
    __shared__ uint32_t words[32];
    cp_async4(&words[threadIdx.x], &in[threadIdx.x]);
    cp_async_commit();
    __syncthreads();
    out[threadIdx.x] = words[threadIdx.x];
}
EXPORT(copy_without_wait)

KERNEL(fill_stack)(int32_t depth, int32_t* out) {
    volatile int32_t values[40000];
    for (int32_t i = 0; i < depth; ++i) values[i] = i;
    out[threadIdx.x] = values[depth - 1];
}
EXPORT(fill_stack)

// Each block reads what the one before left in shared memory.
KERNEL(read_what_was_left)(float* out) {
    __shared__ float values[64];
    out[blockIdx.x * blockDim.x + threadIdx.x] = values[threadIdx.x];
    values[threadIdx.x] = 5.0f;
}
EXPORT(read_what_was_left)
