// The end of a mix for few rows in one launch: low = silu(low / hc), gates = sigmoid(up @ low), and
// x[h] = sum over streams s of gates[s, h] * normed[s, h], / hc.
//
// Each column h of x needs the hc rows s * H + h of `up`. A block takes some columns, a warp one stream of some of
// them: gates meet in shared memory and never reach the card's. Sums are in the order of products.cuh and
// products_float.cuh, and all else as in hc_low, quantise_rows and hc_output: the same bits as those launches one by
// one. Each block makes the rows' records of low for itself.
#pragma once
#include "hc_inject.cuh"
#include "products.cuh"
#include "products_float.cuh"

constexpr int HC_UP_WARPS = 16;  // at most; hc of them, or a multiple
constexpr int HC_UP_THREADS = HC_UP_WARPS * WARP_SIZE;

// Mirrored in engine/ops/cuda_structs.py.
struct HcUp {
    const uint8_t* up;      // [hc * H, rank] as in the file
    int64_t row_bytes;      // of its rows
    const float* low;       // [R, rank], the down product
    const float* normed;    // [R, hc, H]
    float* x;               // [R, H]
    uint8_t* records;       // of x (activations.cuh), or null; H a multiple of 64, 32 columns in a block
    const float* partials;  // of hc_norm
    float* inject;          // [R, hc], or null
    int32_t num_rows;       // at most the kernel's R
    int32_t num_streams;    // at most HC_UP_WARPS
    int32_t hidden;
    int32_t rank;
    int32_t lanes;          // that share a row of `up`: 32 for floats
};

__device__ __forceinline__ float low_value(const HcUp& p, int32_t row, int32_t k) {
    return silu(p.low[static_cast<int64_t>(row) * p.rank + k] / static_cast<float>(p.num_streams));
}

// The first block also finishes the injection.
__device__ __forceinline__ void finish_injection(const HcUp& p) {
    if (p.inject == nullptr || blockIdx.x != 0) return;
    for (int32_t i = threadIdx.x; i < p.num_rows * p.num_streams; i += blockDim.x) {
        p.inject[i] = injection(p.partials, i, p.num_streams);
    }
}

// What a warp does: columns of one stream, `lanes` lanes for each.
struct UpWork {
    int32_t columns;  // of the block
    int32_t stream;
    int32_t own;      // column of the block that this lane's group takes
    int32_t h;        // column of x; one that exists
    __device__ __forceinline__ explicit UpWork(const HcUp& p) {
        const int32_t each = num_warps() / p.num_streams, in_warp = WARP_SIZE / p.lanes;
        columns = each * in_warp;
        stream = warp_index() / each;
        own = warp_index() % each * in_warp + lane_index() / p.lanes;
        h = min(static_cast<int32_t>(blockIdx.x) * columns + own, p.hidden - 1);
    }
};

// Sums the streams. `products` [R, hc, columns] of shared memory; all threads call it.
__device__ __forceinline__ void sum_streams(const HcUp& p, const UpWork& work, const float* products) {
    __syncthreads();
    const int32_t count = work.columns * p.num_rows;
    for (int32_t start = 0; start < count; start += blockDim.x) {  // warps stay together
        const int32_t item = start + static_cast<int32_t>(threadIdx.x);
        const int32_t row = item / work.columns, own = item % work.columns;
        const int32_t h = static_cast<int32_t>(blockIdx.x) * work.columns + own;
        const bool exists = item < count && h < p.hidden;
        float total = 0.0f;
        for (int32_t s = 0; s < p.num_streams && exists; ++s) {
            const int32_t stream = row * p.num_streams + s;
            const float gate = sigmoid(products[stream * work.columns + own]);
            total = fmaf(gate, p.normed[static_cast<int64_t>(stream) * p.hidden + h], total);
        }
        const float x = total / static_cast<float>(p.num_streams);
        if (exists) p.x[static_cast<int64_t>(row) * p.hidden + h] = x;
        // 32 columns in a block, whole blocks of 32: a warp holds one, or none.
        if (p.records != nullptr && exists) {
            quantise_block(x, lane_index(), blockIdx.x, p.hidden, p.records + row * record_bytes(p.hidden));
        }
    }
}

// Grid (columns of x / columns of a block), R records of `rank` values and R * hc * columns floats of dynamic shared
// memory.
template <class Format, int R>
__device__ __forceinline__ void hc_up(const HcUp& p) {
    DYNAMIC_SHARED(uint8_t, memory);
    const UpWork work(p);
    const int lane = lane_index(), chain = lane & (p.lanes - 1);
    const uint32_t size = static_cast<uint32_t>(record_bytes(p.rank));
    float* products = reinterpret_cast<float*>(memory + R * size);
    const int32_t blocks = p.rank / BLOCK, units = (p.rank + UNIT - 1) / UNIT;
    const uint8_t* row = p.up + (static_cast<int64_t>(work.stream) * p.hidden + work.h) * p.row_bytes;
    typename Format::Raw raw;  // on its way while records are made, and while the unit before is multiplied
    if (chain < units) Format::load(row, chain, is_whole<Format>(chain, blocks), raw);
    finish_injection(p);
    for (int32_t item = warp_index(); item < p.num_rows * 2 * units; item += num_warps()) {
        const int32_t r = item / (2 * units), block = item % (2 * units), k = block * BLOCK + lane;
        quantise_block(k < p.rank ? low_value(p, r, k) : 0.0f, lane, block, p.rank, memory + r * size);
    }
    __syncthreads();
    const uint32_t infos = static_cast<uint32_t>(units) * UNIT;
    float sums[R];
#pragma unroll
    for (int r = 0; r < R; ++r) sums[r] = 0.0f;
    for (int32_t u = chain; u < units; u += p.lanes) {
        Unit<Format> unit;
        Format::decode(raw, nullptr, unit);
        const bool whole = is_whole<Format>(u, blocks);
        const int32_t next = u + p.lanes;
        if (next < units) Format::load(row, next, is_whole<Format>(next, blocks), raw);
#pragma unroll
        for (int r = 0; r < R; ++r) {
            const uint8_t* record = memory + static_cast<uint32_t>(min(r, p.num_rows - 1)) * size;
#pragma unroll
            for (int b = 0; b < 2; ++b) {
                const uint4* codes =
                    reinterpret_cast<const uint4*>(record + static_cast<uint32_t>(u) * UNIT + b * BLOCK);
                const uint4 low = codes[0], high = codes[1];
                const int q[8] = {static_cast<int>(low.x),  static_cast<int>(low.y),  static_cast<int>(low.z),
                                  static_cast<int>(low.w),  static_cast<int>(high.x), static_cast<int>(high.y),
                                  static_cast<int>(high.z), static_cast<int>(high.w)};
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
        if (chain == 0 && r < p.num_rows) products[(r * p.num_streams + work.stream) * work.columns + work.own] = product;
    }
    sum_streams(p, work, products);
}

// The same for floats: R * rank and R * hc * columns floats of dynamic shared memory.
template <class Kind, int R>
__device__ __forceinline__ void hc_up_float(const HcUp& p) {
    using Stored = typename Kind::Stored;
    DYNAMIC_SHARED(float, low);
    const UpWork work(p);
    float* products = low + R * p.rank;
    finish_injection(p);
    for (int32_t i = threadIdx.x; i < p.num_rows * p.rank; i += blockDim.x) {
        low[i] = low_value(p, i / p.rank, i % p.rank);
    }
    __syncthreads();
    const int lane = lane_index();
    const bool vectors = p.rank % 4 == 0 && reinterpret_cast<uint64_t>(p.up) % sizeof(typename Kind::Four) == 0;
    const bool low_vectors = p.rank % 4 == 0;
    const Stored* row =
        reinterpret_cast<const Stored*>(p.up + (static_cast<int64_t>(work.stream) * p.hidden + work.h) * p.row_bytes);
    float sums[R];
#pragma unroll
    for (int r = 0; r < R; ++r) sums[r] = 0.0f;
#pragma unroll 3
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
        if (lane == 0 && r < p.num_rows) products[(r * p.num_streams + work.stream) * work.columns + work.own] = product;
    }
    sum_streams(p, work, products);
}
