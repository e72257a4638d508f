// Rows of activations as quantised matrices read them: 8-bit blocks of 32 values x with a scale d = max|x| / 127 and
// bytes q = round(x / d) in -127 .. 127.
//
// A row is a record: `padded` bytes q (the columns, rounded up to 64 with zeros), then for each block of 32 (of the
// padded ones) its d and the sums of q of its halves. Its size is padded + padded / 4, a multiple of 16.
#pragma once
#include "maths.cuh"

struct BlockInfo {
    float scale;
    int sums;  // int16 of the first 16 values, int16 of the others
};

__device__ __forceinline__ int sum_of_half(int sums, int half) {
    return half ? sums >> 16 : static_cast<int>(static_cast<int16_t>(sums & 0xffff));
}
// The sum of q of the whole block.
__device__ __forceinline__ int sum_of_block(int sums) { return sum_of_half(sums, 0) + sum_of_half(sums, 1); }

__device__ __forceinline__ int64_t record_bytes(int32_t columns) {
    const int64_t padded = (columns + 63) / 64 * 64;
    return padded + padded / 4;
}
__device__ __forceinline__ const BlockInfo* infos_of(const uint8_t* record, int32_t columns) {
    return reinterpret_cast<const BlockInfo*>(record + (columns + 63) / 64 * 64);
}

// A warp quantises block `block` of a row, a value a lane (0 where the padding is), into the row's record.
__device__ __forceinline__ void quantise_block(float x, int lane, int32_t block, int32_t columns, uint8_t* record) {
    // A maximum drops NaN: rows of a damaged file would become ordinary numbers, and wrong ones.
    const bool bad = __any_sync(FULL_WARP, x != x) != 0;
    const float largest = warp_max(fabsf(x));
    // Below 1e-30 the inverse would leave float32; such a block is zero beside all others.
    const float inverse = largest > 1e-30f ? 127.0f / largest : 0.0f;
    float scale = largest > 1e-30f ? largest / 127.0f : 0.0f;
    int q = __float2int_rn(x * inverse);
    if (bad) {
        scale = __uint_as_float(0x7fc00000u);
        q = 0;
    }
    record[block * 32 + lane] = static_cast<uint8_t>(q);
    int sum = q;
    for (int step = 8; step > 0; step /= 2) sum += __shfl_xor_sync(FULL_WARP, sum, step);
    const int other = __shfl_xor_sync(FULL_WARP, sum, 16);
    if (lane == 0) {
        BlockInfo info;
        info.scale = scale;
        info.sums = static_cast<int>((static_cast<uint32_t>(sum) & 0xffffu) | static_cast<uint32_t>(other) << 16);
        reinterpret_cast<BlockInfo*>(record + (columns + 63) / 64 * 64)[block] = info;
    }
}
