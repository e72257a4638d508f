// Kernels that do what they should: for tests of the emulated card, and compiled for real cards too.
#include "stratum.cuh"

KERNEL(add_to)(float* values, float amount, int32_t count) {
    const int32_t i = static_cast<int32_t>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < count) values[i] += amount;
}
EXPORT(add_to)

KERNEL(sum_blocks)(const float* values, float* sums) {
    __shared__ float parts[32];
    const float part = warp_sum(values[blockIdx.x * blockDim.x + threadIdx.x]);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = part;
    __syncthreads();
    if (threadIdx.x == 0) {
        float sum = 0.0f;
        for (uint32_t i = 0; i < blockDim.x / 32; ++i) sum += parts[i];
        sums[blockIdx.x] = sum;
    }
}
EXPORT(sum_blocks)

// Where each thread is: (block, thread) of x, y, z.
KERNEL(write_indices)(int32_t* out) {
    const uint32_t block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    const uint32_t thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    int32_t* own = out + (block * blockDim.x * blockDim.y * blockDim.z + thread) * 6;
    own[0] = static_cast<int32_t>(blockIdx.x);
    own[1] = static_cast<int32_t>(blockIdx.y);
    own[2] = static_cast<int32_t>(blockIdx.z);
    own[3] = static_cast<int32_t>(threadIdx.x);
    own[4] = static_cast<int32_t>(threadIdx.y);
    own[5] = static_cast<int32_t>(threadIdx.z);
}
EXPORT(write_indices)

// One warp: ten rows of 32 results of warp instructions.
KERNEL(warp_instructions)(const int32_t* values, int32_t* out) {
    const int32_t lane = static_cast<int32_t>(threadIdx.x), value = values[lane];
    out[lane] = __shfl_sync(FULL_WARP, value, lane * 7);
    out[32 + lane] = __shfl_up_sync(FULL_WARP, value, 3);
    out[64 + lane] = __shfl_down_sync(FULL_WARP, value, 5);
    out[96 + lane] = __shfl_xor_sync(FULL_WARP, value, 9);
    out[128 + lane] = __shfl_sync(FULL_WARP, value, 2, 8);
    out[160 + lane] = __shfl_up_sync(FULL_WARP, value, 1, 8);
    out[192 + lane] = __shfl_down_sync(FULL_WARP, value, 2, 16);
    out[224 + lane] = static_cast<int32_t>(__ballot_sync(FULL_WARP, value % 3 == 0));
    out[256 + lane] = __any_sync(FULL_WARP, value == 31) * 2 + __all_sync(FULL_WARP, value >= 0);
    if (lane < 16) {  // halves of a warp may meet by themselves
        out[288 + lane] = __shfl_xor_sync(0x0000ffffu, value, 1);
    } else {
        out[288 + lane] = __shfl_xor_sync(0xffff0000u, value, 2);
    }
}
EXPORT(warp_instructions)

KERNEL(count_in_block)(const int32_t* values, int32_t* out) {
    const int32_t value = values[threadIdx.x];
    const int32_t count = __syncthreads_count(value > 3), any = __syncthreads_or(value == 7);
    const int32_t all = __syncthreads_and(value < 100);
    if (threadIdx.x == 0) {
        out[0] = count;
        out[1] = any != 0;
        out[2] = all != 0;
    }
}
EXPORT(count_in_block)

KERNEL(atomics)(int32_t* integers, float* floats) {
    atomicAdd(&integers[0], 2);
    atomicMax(&integers[1], static_cast<int32_t>(threadIdx.x));
    atomicMin(&integers[2], -static_cast<int32_t>(threadIdx.x));
    if (atomicCAS(&integers[3], 0, 1) == 0) integers[4] = 5;
    atomicExch(&integers[5], 9);
    atomicAdd(&floats[0], 0.5f);
}
EXPORT(atomics)

// 65,536 threads: every half, and back.
KERNEL(convert_halves)(float* halves, uint16_t* back, float* bfloats, uint16_t* bback) {
    const uint32_t bits = blockIdx.x * blockDim.x + threadIdx.x;
    halves[bits] = half_to_float(static_cast<uint16_t>(bits));
    back[bits] = float_to_half(halves[bits]);
    bfloats[bits] = bf16_to_float(static_cast<uint16_t>(bits));
    bback[bits] = float_to_bf16(bfloats[bits]);
}
EXPORT(convert_halves)

KERNEL(round_floats)(const float* values, uint16_t* halves, uint16_t* bfloats) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    halves[i] = float_to_half(values[i]);
    bfloats[i] = float_to_bf16(values[i]);
}
EXPORT(round_floats)

KERNEL(integer_instructions)(const int32_t* a, const int32_t* b, int32_t* out) {
    const uint32_t i = threadIdx.x, n = blockDim.x;
    const uint32_t ua = static_cast<uint32_t>(a[i]), ub = static_cast<uint32_t>(b[i]);
    out[i] = __dp4a(a[i], b[i], 3);
    out[n + i] = __popc(ua);
    out[2 * n + i] = __clz(a[i]);
    out[3 * n + i] = __ffs(a[i]);
    out[4 * n + i] = static_cast<int32_t>(__byte_perm(ua, ub, 0x7250));
    out[5 * n + i] = static_cast<int32_t>(__brev(ua));
    out[6 * n + i] = __mulhi(a[i], b[i]);
    out[7 * n + i] = static_cast<int32_t>(__vsub4(ua, ub));
    out[8 * n + i] = static_cast<int32_t>(__funnelshift_r(ua, ub, 5));
    out[9 * n + i] = __float2int_rn(__int_as_float(a[i]));
}
EXPORT(integer_instructions)

// One warp: out (16, 8) = start + a (16, 32) * b (8, 32) transposed.
KERNEL(multiply_tile_32)(const uint32_t* a, const uint32_t* b, int32_t* out) {
    const int32_t group = static_cast<int32_t>(threadIdx.x) / 4, t = static_cast<int32_t>(threadIdx.x) % 4;
    const uint32_t left[4] = {a[group * 8 + t], a[(group + 8) * 8 + t], a[group * 8 + 4 + t],
                              a[(group + 8) * 8 + 4 + t]};
    const uint32_t right[2] = {b[group * 8 + t], b[group * 8 + 4 + t]};
    int acc[4] = {100, 100, 100, 100};
    mma_s8_m16n8k32(acc, left, right);
    for (int i = 0; i < 4; ++i) out[(group + i / 2 * 8) * 8 + 2 * t + i % 2] = acc[i];
}
EXPORT(multiply_tile_32)

// The same with 16 of k: a (16, 16), b (8, 16).
KERNEL(multiply_tile_16)(const uint32_t* a, const uint32_t* b, int32_t* out) {
    const int32_t group = static_cast<int32_t>(threadIdx.x) / 4, t = static_cast<int32_t>(threadIdx.x) % 4;
    const uint32_t left[2] = {a[group * 4 + t], a[(group + 8) * 4 + t]};
    int acc[4] = {100, 100, 100, 100};
    mma_s8_m16n8k16(acc, left, b[group * 4 + t]);
    for (int i = 0; i < 4; ++i) out[(group + i / 2 * 8) * 8 + 2 * t + i % 2] = acc[i];
}
EXPORT(multiply_tile_16)

// Reverses `count` words a block through dynamic shared memory, copied asynchronously in two groups.
KERNEL(reverse_words)(const uint32_t* in, uint32_t* out, int32_t count) {
    DYNAMIC_SHARED(uint32_t, words);
    const int32_t i = static_cast<int32_t>(threadIdx.x);
    cp_async4(&words[i], &in[i]);
    cp_async_commit();
    if (i * 4 < count) cp_async16(&words[count + i * 4], &in[count + i * 4]);
    cp_async_commit();
    cp_async_wait<1>();
    __syncthreads();
    out[count - 1 - i] = words[count - 1 - i] + 1;
    cp_async_wait<0>();
    __syncthreads();
    out[count + i] = words[2 * count - 1 - i];
}
EXPORT(reverse_words)

struct Scales {
    float first, second;
    int64_t offset;
};

KERNEL(take_struct)(Scales scales, int64_t wide, float* out) {
    if (threadIdx.x == 0) {
        out[0] = scales.first * scales.second;
        out[1] = static_cast<float>(scales.offset + wide);
    }
}
EXPORT(take_struct)

// Follows a list: out[0] = the first word of what `pages[page]` points to.
KERNEL(follow_page)(const int32_t* const* pages, const int32_t* page, int32_t* out) {
    if (threadIdx.x == 0) out[0] = pages[page[0]][0];
}
EXPORT(follow_page)

// One warp: sum, its bits by shuffles, largest, integer sum.
KERNEL(sum_warp)(const float* values, float* out, int32_t* integers) {
    const float value = values[threadIdx.x];
    float sum = value;
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(FULL_WARP, sum, step);
    out[threadIdx.x] = warp_sum(value);
    out[32 + threadIdx.x] = sum;
    out[64 + threadIdx.x] = warp_max(value);
    integers[threadIdx.x] = warp_sum(static_cast<int32_t>(threadIdx.x));
}
EXPORT(sum_warp)

KERNEL_BOUNDED(fill_bounded, 64)(int32_t* out) { out[threadIdx.x] = 1; }
EXPORT(fill_bounded)
