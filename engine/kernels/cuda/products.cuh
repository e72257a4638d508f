// Products of quantised matrices with 1 to 16 rows of activations by dp4a: out[r] = matrix @ x[r].
//
// `lanes` lanes of a warp share a matrix row: lane c of them takes the units (64 values) c, c + lanes, ... Each lane
// decodes a unit once and multiplies it with all rows of activations.
//
// The order of float operations is the same for every number of rows and for the tensor-core form (products_many.cuh),
// so a row's bits do not depend on its company. For one output:
//     chain c (of `lanes`):  sum = 0; for its units in order, their blocks of 32 in order, and, where the format has a
//                            scale for 16 values, their halves in order:
//                                sum = fma(dot of the codes, scale * activation scale, sum)
//                                sum = fma(minimum, activation scale * sum of its codes, sum), with minima
//     quads of four chains in order, and then the quads in order, are added up from 0.
// `lanes` (4, 8, 16, 32) is a function of the columns alone (engine/ops/cuda_products.py).
#pragma once
#include "activations.cuh"
#include "formats.cuh"
#include "tiles.cuh"

// The codebook in shared memory; null for formats without. All threads of the block call it.
template <class Format>
__device__ __forceinline__ const uint32_t* shared_grid(const uint32_t* grid) {
    if constexpr (Format::GRID_WORDS > 0) {
        __shared__ __align__(16) uint32_t words[Format::GRID_WORDS];
        for (uint32_t i = threadIdx.x * 4; i < Format::GRID_WORDS; i += blockDim.x * 4) {
            *reinterpret_cast<uint4*>(words + i) = *reinterpret_cast<const uint4*>(grid + i);
        }
        __syncthreads();
        return words;
    } else {
        return nullptr;
    }
}

// One block of 32 values into a chain: codes w and x (8 words each).
template <class Format>
__device__ __forceinline__ float add_block(float sum, const Unit<Format>& unit, int block, const int* x,
                                           const BlockInfo& info) {
    constexpr int PARTS = Format::SCALES / 2;
#pragma unroll
    for (int part = 0; part < PARTS; ++part) {
        int dot = 0;
#pragma unroll
        for (int i = 0; i < 8 / PARTS; ++i) {
            const int at = part * (8 / PARTS) + i;
            dot = __dp4a(unit.q[8 * block + at], x[at], dot);
        }
        sum = fmaf(static_cast<float>(dot), unit.scale[PARTS * block + part] * info.scale, sum);
        if constexpr (Format::MINS) {
            const int total = PARTS == 1 ? sum_of_block(info.sums) : sum_of_half(info.sums, part);
            sum = fmaf(unit.minimum[PARTS * block + part], info.scale * static_cast<float>(total), sum);
        }
    }
    return sum;
}

// Quads of chains, then quads, in order; valid in the first of the `lanes` lanes.
__device__ __forceinline__ float add_chains(float sum, int lanes) {
    float quad = 0.0f;
    quad += sum;
#pragma unroll
    for (int c = 1; c < 4; ++c) quad += __shfl_down_sync(FULL_WARP, sum, c);
    float total = 0.0f;
    total += quad;
    for (int first = 4; first < lanes; first += 4) total += __shfl_down_sync(FULL_WARP, quad, first);
    return total;
}

// Whether both blocks of a unit exist.
template <class Format>
__device__ __forceinline__ bool is_whole(int32_t unit, int32_t blocks) {
    return Format::VALUES > 32 || 2 * unit + 1 < blocks;
}
template <class Format>
__device__ __forceinline__ void load_unit(const uint8_t* row, int32_t unit, int32_t blocks,
                                          typename Format::Raw& raw) {
    Format::load(row, unit, is_whole<Format>(unit, blocks), raw);
}

// R rows of activations. Blocks are whole warps, block (x, y, z): matrix rows from x * block_rows on, tile y, matrix z.
template <class Format, int R>
__device__ __forceinline__ void product(const Product& p) {
    // With few rows memory is waited for, and a unit ahead pays; with many its registers would be missed.
    constexpr bool AHEAD = R <= 4;
    const Tile tile = tile_of(p, static_cast<int32_t>(blockIdx.y), R);
    if (tile.count <= 0) return;
    const uint32_t* grid = shared_grid<Format>(p.grid);
    const int lane = static_cast<int>(threadIdx.x) % 32, chain = lane & (p.lanes - 1);
    const int rows_at_once = static_cast<int>(blockDim.x) / p.lanes;
    const int32_t blocks = p.columns / BLOCK, units = (p.columns + UNIT - 1) / UNIT;
    const uint8_t* weights = blockIdx.z == 0 ? p.weights[0] : p.weights[1];
    weights += tile.slot * p.slot_bytes;
    float* out = blockIdx.z == 0 ? p.out[0] : p.out[1];

    // Places that do not exist are the last row again; nobody writes them.
    const uint8_t* x = static_cast<const uint8_t*>(p.x);
    uint32_t at[R];  // of a row's record: records take less than 4 GiB
    int32_t rows[R];
#pragma unroll
    for (int r = 0; r < R; ++r) {
        rows[r] = row_of(p, tile, min(r, tile.count - 1));
        at[r] = static_cast<uint32_t>(x_row_of(p, rows[r]) * p.x_stride);
    }
    const uint32_t infos = static_cast<uint32_t>(units) * UNIT;

    const int32_t start = static_cast<int32_t>(blockIdx.x) * p.block_rows;
    const int32_t end = min(p.matrix_rows, start + p.block_rows);
    const int32_t mine = static_cast<int32_t>(threadIdx.x) / p.lanes;
    // All lanes of a warp stay together for the shuffles: rows beyond the end are the last one again.
    for (int32_t first = start; first < end; first += rows_at_once) {
        const int32_t m = min(first + mine, end - 1);
        const uint8_t* row = weights + m * p.row_bytes;
        float sums[R];
#pragma unroll
        for (int r = 0; r < R; ++r) sums[r] = 0.0f;
        typename Format::Raw raw;
        if (AHEAD && chain < units) load_unit<Format>(row, chain, blocks, raw);
        for (int32_t u = chain; u < units; u += p.lanes) {
            Unit<Format> unit;
            if (!AHEAD) load_unit<Format>(row, u, blocks, raw);
            Format::decode(raw, grid, unit);
            if (AHEAD && u + p.lanes < units) load_unit<Format>(row, u + p.lanes, blocks, raw);
            const bool whole = is_whole<Format>(u, blocks);
#pragma unroll
            for (int r = 0; r < R; ++r) {
                const uint8_t* record = x + at[r];
                const float4 both = *reinterpret_cast<const float4*>(record + infos + static_cast<uint32_t>(u) * 16);
#pragma unroll
                for (int b = 0; b < 2; ++b) {
                    const uint4* codes = reinterpret_cast<const uint4*>(record + static_cast<uint32_t>(u) * UNIT);
                    const uint4 low = codes[2 * b], high = codes[2 * b + 1];
                    const int q[8] = {static_cast<int>(low.x),  static_cast<int>(low.y),  static_cast<int>(low.z),
                                      static_cast<int>(low.w),  static_cast<int>(high.x), static_cast<int>(high.y),
                                      static_cast<int>(high.z), static_cast<int>(high.w)};
                    const BlockInfo info = {b ? both.z : both.x, __float_as_int(b ? both.w : both.y)};
                    const float sum = add_block(sums[r], unit, b, q, info);
                    if (b == 0 || whole) sums[r] = sum;
                }
            }
        }
#pragma unroll
        for (int r = 0; r < R; ++r) {
            const float total = add_chains(sums[r], p.lanes);
            if (chain == 0 && r < tile.count && first + mine < end) out[rows[r] * p.out_stride + m] = total;
        }
    }
}

// The values of rows of a table: out[i] = table[numbers[i]], a thread for each unit. Negative numbers are left alone.
template <class Format>
__device__ __forceinline__ void gather(const uint8_t* table, int64_t row_bytes, const uint32_t* codebook,
                                       const int64_t* numbers, int32_t count, int32_t columns, float* out) {
    const uint32_t* grid = shared_grid<Format>(codebook);
    constexpr int PARTS = Format::SCALES / 2;
    const int32_t blocks = columns / BLOCK, units = (columns + UNIT - 1) / UNIT;
    const int64_t item = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (item >= static_cast<int64_t>(count) * units) return;
    const int64_t i = item / units;
    const int32_t u = static_cast<int32_t>(item % units);
    if (numbers[i] < 0) return;
    typename Format::Raw raw;
    Unit<Format> unit;
    const bool whole = is_whole<Format>(u, blocks);
    Format::load(table + numbers[i] * row_bytes, u, whole, raw);
    Format::decode(raw, grid, unit);
    float* to = out + i * columns + static_cast<int64_t>(u) * UNIT;
#pragma unroll
    for (int w = 0; w < 16; ++w) {
        if (w >= 8 && !whole) break;
        const int scale = PARTS == 1 ? w / 8 : w / 4;
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const int code = static_cast<int8_t>(static_cast<uint32_t>(unit.q[w]) >> (8 * k));
            float value = unit.scale[scale] * static_cast<float>(code);
            if constexpr (Format::MINS) value += unit.minimum[scale];
            to[4 * w + k] = value;
        }
    }
}
