// Products of F32, F16 and BF16 matrices with float activations: out[r] = matrix @ x[r].
//
// A warp computes a matrix row for R rows of activations. Lane l takes the values 4 (l + 32 j) .. + 3 in ascending
// order, then the lanes are added up as warp_sum does: for all R alike, so a row's bits do not depend on its company.
// Any number of columns; reads are vectors where rows begin at multiples of four values.
#pragma once
#include "tiles.cuh"

struct FloatF32 {
    using Stored = float;
    struct alignas(16) Four {
        Stored v[4];
    };
    static __device__ __forceinline__ float value(Stored v) { return v; }
};
struct FloatF16 {
    using Stored = uint16_t;
    struct alignas(8) Four {
        Stored v[4];
    };
    static __device__ __forceinline__ float value(Stored v) { return half_to_float(v); }
};
struct FloatBF16 {
    using Stored = uint16_t;
    struct alignas(8) Four {
        Stored v[4];
    };
    static __device__ __forceinline__ float value(Stored v) { return bf16_to_float(v); }
};

// Four values from `k` on; zeros beyond the columns.
template <class Kind>
__device__ __forceinline__ void four_of(const typename Kind::Stored* row, int32_t k, int32_t columns, bool vectors,
                                        float* to) {
    if (vectors) {
        const typename Kind::Four four = *reinterpret_cast<const typename Kind::Four*>(row + k);
#pragma unroll
        for (int i = 0; i < 4; ++i) to[i] = Kind::value(four.v[i]);
    } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) to[i] = k + i < columns ? Kind::value(row[k + i]) : 0.0f;
    }
}

template <class Kind, int R>
__device__ __forceinline__ void float_product(const Product& p) {
    using Stored = typename Kind::Stored;
    const Tile tile = tile_of(p, static_cast<int32_t>(blockIdx.y), R);
    if (tile.count <= 0) return;
    const int lane = static_cast<int>(threadIdx.x % 32);
    const int32_t warps = static_cast<int32_t>(blockDim.x / 32);
    const OneMatrix matrix = matrix_of(p);
    const uint8_t* weights = matrix.weights + tile.slot * p.slot_bytes;
    const float* x[R];  // places that do not exist are the last row again; nobody writes them
    int64_t target[R];
    bool x_vectors = p.columns % 4 == 0;
#pragma unroll
    for (int r = 0; r < R; ++r) {
        const int32_t row = row_of(p, tile, min(r, tile.count - 1));
        x[r] = static_cast<const float*>(p.x) + x_row_of(p, row) * p.x_stride;
        x_vectors = x_vectors && reinterpret_cast<uint64_t>(x[r]) % 16 == 0;
        target[r] = static_cast<int64_t>(row) * matrix.rows;
    }
    const bool vectors = p.columns % 4 == 0 && reinterpret_cast<uint64_t>(weights) % sizeof(typename Kind::Four) == 0;

    constexpr int AHEAD = R <= 4 ? 2 : 1;  // loads under way
    const int32_t start = static_cast<int32_t>(blockIdx.x) * p.block_rows;
    const int32_t end = min(matrix.rows, start + p.block_rows);
    for (int32_t m = start + static_cast<int32_t>(threadIdx.x / 32); m < end; m += warps) {
        const Stored* row = reinterpret_cast<const Stored*>(weights + m * p.row_bytes);
        float sums[R];
#pragma unroll
        for (int r = 0; r < R; ++r) sums[r] = 0.0f;
#pragma unroll AHEAD
        for (int32_t k = 4 * lane; k < p.columns; k += 128) {
            float w[4];
            four_of<Kind>(row, k, p.columns, vectors, w);
#pragma unroll
            for (int r = 0; r < R; ++r) {
                float v[4];
                four_of<FloatF32>(x[r], k, p.columns, x_vectors, v);
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    if (k + i < p.columns) sums[r] = fmaf(w[i], v[i], sums[r]);
                }
            }
        }
#pragma unroll
        for (int r = 0; r < R; ++r) {
            const float total = warp_sum(sums[r]);
            if (lane == 0 && r < tile.count) matrix.out[target[r] + m] = total;
        }
    }
}

// out[i] = table[numbers[i]] as floats, a thread a value.
template <class Kind>
__device__ __forceinline__ void float_gather(const uint8_t* table, int64_t row_bytes, const int64_t* numbers,
                                             int32_t count, int32_t columns, float* out) {
    const int64_t item = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (item >= static_cast<int64_t>(count) * columns) return;
    const int64_t number = numbers[item / columns];
    if (number < 0) return;
    const auto* row = reinterpret_cast<const typename Kind::Stored*>(table + number * row_bytes);
    out[item] = Kind::value(row[item % columns]);
}
