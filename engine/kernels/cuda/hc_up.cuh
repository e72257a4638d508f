// The end of a mix for few rows in one launch: low = silu(low / hc), gates = sigmoid(up @ low), and
// x[h] = sum over streams s of gates[s, h] * normed[s, h], / hc.
//
// Each column h of x needs the hc rows s * H + h of `up`: one group of lanes computes them one after another, so gates
// never reach memory. Sums are in the order of products.cuh and products_float.cuh, and all else as in hc_low,
// quantise_rows and hc_output: the same bits as those launches one by one.
#pragma once
#include "hc_inject.cuh"
#include "products.cuh"
#include "products_float.cuh"

constexpr int HC_UP_THREADS = 128;

// Mirrored in engine/ops/cuda_structs.py.
struct HcUp {
    const uint8_t* up;      // [hc * H, rank] as in the file
    int64_t row_bytes;      // of its rows
    const float* low;       // [R, rank], the down product
    const float* normed;    // [R, hc, H]
    float* x;               // [R, H]
    const float* partials;  // of hc_norm
    float* inject;          // [R, hc], or null
    int32_t num_rows;       // at most the kernel's R
    int32_t num_streams;
    int32_t hidden;
    int32_t rank;
    int32_t lanes;          // that share a row of a quantised `up`
};

__device__ __forceinline__ float low_value(const HcUp& p, int32_t row, int32_t k) {
    return silu(p.low[static_cast<int64_t>(row) * p.rank + k] / static_cast<float>(p.num_streams));
}

// The first block also finishes the injection.
__device__ __forceinline__ void finish_injection(const HcUp& p) {
    if (p.inject == nullptr || blockIdx.x != 0) return;
    for (int32_t i = threadIdx.x; i < p.num_rows * p.num_streams; i += HC_UP_THREADS) {
        p.inject[i] = injection(p.partials, i, p.num_streams);
    }
}

// Adds stream s's part of x[row, h]: the gate's product is given.
__device__ __forceinline__ float add_stream(const HcUp& p, float total, float product, int32_t row, int32_t s,
                                            int32_t h) {
    const int64_t at = (static_cast<int64_t>(row) * p.num_streams + s) * p.hidden + h;
    return fmaf(sigmoid(product), p.normed[at], total);
}

// Grid (ceil(H * lanes / 128)), block 128, R records of `rank` values of dynamic shared memory.
template <class Format, int R>
__device__ __forceinline__ void hc_up(const HcUp& p) {
    DYNAMIC_SHARED(uint8_t, records);
    finish_injection(p);
    const int lane = lane_index(), chain = lane & (p.lanes - 1);
    const uint32_t size = static_cast<uint32_t>(record_bytes(p.rank));
    const int32_t blocks = p.rank / BLOCK, units = (p.rank + UNIT - 1) / UNIT;
    for (int32_t item = warp_index(); item < p.num_rows * 2 * units; item += HC_UP_THREADS / WARP_SIZE) {
        const int32_t row = item / (2 * units), block = item % (2 * units), k = block * BLOCK + lane;
        quantise_block(k < p.rank ? low_value(p, row, k) : 0.0f, lane, block, p.rank, records + row * size);
    }
    __syncthreads();
    const int32_t columns = HC_UP_THREADS / p.lanes;  // of this block
    const int32_t own = static_cast<int32_t>(blockIdx.x) * columns + static_cast<int32_t>(threadIdx.x) / p.lanes;
    const int32_t h = min(own, p.hidden - 1);  // all lanes stay together for the shuffles
    const uint32_t infos = static_cast<uint32_t>(units) * UNIT;
    float totals[R];
#pragma unroll
    for (int r = 0; r < R; ++r) totals[r] = 0.0f;
    for (int32_t s = 0; s < p.num_streams; ++s) {
        const uint8_t* row = p.up + (static_cast<int64_t>(s) * p.hidden + h) * p.row_bytes;
        float sums[R];
#pragma unroll
        for (int r = 0; r < R; ++r) sums[r] = 0.0f;
        for (int32_t u = chain; u < units; u += p.lanes) {
            typename Format::Raw raw;
            Unit<Format> unit;
            const bool whole = is_whole<Format>(u, blocks);
            Format::load(row, u, whole, raw);
            Format::decode(raw, nullptr, unit);
#pragma unroll
            for (int r = 0; r < R; ++r) {
                const uint8_t* record = records + static_cast<uint32_t>(min(r, p.num_rows - 1)) * size;
#pragma unroll
                for (int b = 0; b < 2; ++b) {
                    const uint4* codes =
                        reinterpret_cast<const uint4*>(record + static_cast<uint32_t>(u) * UNIT + b * BLOCK);
                    const uint4 first = codes[0], second = codes[1];
                    const int q[8] = {static_cast<int>(first.x),  static_cast<int>(first.y),
                                      static_cast<int>(first.z),  static_cast<int>(first.w),
                                      static_cast<int>(second.x), static_cast<int>(second.y),
                                      static_cast<int>(second.z), static_cast<int>(second.w)};
                    const BlockInfo info = *reinterpret_cast<const BlockInfo*>(
                        record + infos + (static_cast<uint32_t>(u) * 2 + b) * sizeof(BlockInfo));
                    const float sum = add_block(sums[r], unit, b, q, info);
                    if (b == 0 || whole) sums[r] = sum;
                }
            }
        }
#pragma unroll
        for (int r = 0; r < R; ++r) {
            const float product = add_chains(sums[r], p.lanes);
            if (chain == 0 && r < p.num_rows) totals[r] = add_stream(p, totals[r], product, r, s, h);
        }
    }
    if (chain != 0 || own >= p.hidden) return;
#pragma unroll
    for (int r = 0; r < R; ++r) {
        if (r < p.num_rows) {
            p.x[static_cast<int64_t>(r) * p.hidden + h] = totals[r] / static_cast<float>(p.num_streams);
        }
    }
}

// Grid (ceil(H / 4)), block 128: a warp takes a column. R * rank floats of dynamic shared memory.
template <class Kind, int R>
__device__ __forceinline__ void hc_up_float(const HcUp& p) {
    using Stored = typename Kind::Stored;
    DYNAMIC_SHARED(float, low);
    finish_injection(p);
    for (int32_t i = threadIdx.x; i < p.num_rows * p.rank; i += HC_UP_THREADS) {
        low[i] = low_value(p, i / p.rank, i % p.rank);
    }
    __syncthreads();
    const int32_t h = static_cast<int32_t>(blockIdx.x) * (HC_UP_THREADS / WARP_SIZE) + warp_index();
    if (h >= p.hidden) return;
    const int lane = lane_index();
    const bool vectors = p.rank % 4 == 0 && reinterpret_cast<uint64_t>(p.up) % sizeof(typename Kind::Four) == 0;
    const bool low_vectors = p.rank % 4 == 0;
    float totals[R];
#pragma unroll
    for (int r = 0; r < R; ++r) totals[r] = 0.0f;
    for (int32_t s = 0; s < p.num_streams; ++s) {
        const Stored* row =
            reinterpret_cast<const Stored*>(p.up + (static_cast<int64_t>(s) * p.hidden + h) * p.row_bytes);
        float sums[R];
#pragma unroll
        for (int r = 0; r < R; ++r) sums[r] = 0.0f;
        for (int32_t k = 4 * lane; k < p.rank; k += 4 * WARP_SIZE) {
            float w[4];
            four_of<Kind>(row, k, p.rank, vectors, w);
#pragma unroll
            for (int r = 0; r < R; ++r) {
                float v[4];
                four_of<FloatF32>(low + min(r, p.num_rows - 1) * p.rank, k, p.rank, low_vectors, v);
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    if (k + i < p.rank) sums[r] = fmaf(w[i], v[i], sums[r]);
                }
            }
        }
#pragma unroll
        for (int r = 0; r < R; ++r) {
            const float product = warp_sum(sums[r]);
            if (r < p.num_rows) totals[r] = add_stream(p, totals[r], product, r, s, h);
        }
    }
#pragma unroll
    for (int r = 0; r < R; ++r) {
        if (lane == 0 && r < p.num_rows) {
            p.x[static_cast<int64_t>(r) * p.hidden + h] = totals[r] / static_cast<float>(p.num_streams);
        }
    }
}
