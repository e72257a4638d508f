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

// The bytes of 32 units on their way through shared memory: the lanes of each matrix row of a warp copy the next
// `lanes` units of it, which lie together, in pieces of 16 bytes, while they compute with the last ones.
template <class Format>
struct WarpBuffer {
    static constexpr int STAGES = 2;
    static constexpr int MOST_ROWS = 8;  // of a warp, with 4 lanes each
    static constexpr int BYTES = 32 * UNIT / Format::VALUES * Format::BYTES + MOST_ROWS * 32;
    __align__(16) uint8_t memory[STAGES][BYTES];
};

template <class Format>
struct RowCopies {
    uint8_t* buffer;      // of this row, first stage
    int32_t group_bytes;  // of `lanes` units
    int32_t row_bytes;
    int32_t chain, lanes;
    __device__ __forceinline__ RowCopies(const Product& p, WarpBuffer<Format>* memory, int lane)
        : group_bytes(p.lanes * UNIT / Format::VALUES * Format::BYTES),
          row_bytes(static_cast<int32_t>(p.row_bytes)),
          chain(lane & (p.lanes - 1)),
          lanes(p.lanes) {
        buffer = memory->memory[0] + lane / p.lanes * ((group_bytes + 30) & ~15);
    }
    // Starts copying group `j` of a row. Reads whole pieces: up to 15 bytes before and behind it.
    __device__ __forceinline__ void start(const uint8_t* row, int32_t j, int stage) const {
        const uint8_t* from = row + static_cast<int64_t>(j) * group_bytes;
        const int32_t before = offset_of(from), bytes = min(group_bytes, row_bytes - j * group_bytes);
        uint8_t* to = buffer + stage * WarpBuffer<Format>::BYTES;
        for (int32_t i = 16 * chain; i < before + bytes; i += 16 * lanes) cp_async16(to + i, from - before + i);
    }
    // Where the group lies, once it has been copied.
    __device__ __forceinline__ const uint8_t* group(const uint8_t* row, int32_t j, int stage) const {
        const uint8_t* from = row + static_cast<int64_t>(j) * group_bytes;
        return buffer + stage * WarpBuffer<Format>::BYTES + offset_of(from);
    }
    static __device__ __forceinline__ int32_t offset_of(const uint8_t* p) {
        return static_cast<int32_t>(reinterpret_cast<uint64_t>(p) & 15u);
    }
};

// R rows of activations. Blocks are PRODUCT_THREADS threads, block (x, y, z): matrix rows from x * block_rows on,
// tile y, matrix z.
constexpr int PRODUCT_THREADS = 128;

template <class Format, int R>
__device__ __forceinline__ void product(const Product& p) {
    __shared__ WarpBuffer<Format> buffers[PRODUCT_THREADS / 32];
    const Tile tile = tile_of(p, static_cast<int32_t>(blockIdx.y), R);
    if (tile.count <= 0) return;
    const OneMatrix matrix = matrix_of(p);
    const int32_t first = static_cast<int32_t>(blockIdx.x) * p.block_rows;
    if (first >= matrix.rows) return;
    const uint32_t* grid = shared_grid<Format>(p.grid);
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, chain = lane & (p.lanes - 1);
    const int32_t blocks = p.columns / BLOCK, units = (p.columns + UNIT - 1) / UNIT;
    const uint8_t* weights = matrix.weights + tile.slot * p.slot_bytes;

    // Places that do not exist are the last row again; nobody writes them.
    const uint8_t* x = static_cast<const uint8_t*>(p.x);
    uint32_t at[R];  // of a row's record: records take less than 4 GiB
#pragma unroll
    for (int r = 0; r < R; ++r) {
        const int32_t row = row_of(p, tile, min(r, tile.count - 1));
        at[r] = static_cast<uint32_t>(x_row_of(p, row) * p.x_stride);
    }
    const uint32_t infos = static_cast<uint32_t>(units) * UNIT;

    // Steps: for each set of matrix rows, one for each lane group, their groups of `lanes` units. All lanes of a warp
    // stay together: rows beyond the end are the last one again.
    const int32_t end = min(matrix.rows, first + p.block_rows);
    const int32_t rows_at_once = PRODUCT_THREADS / p.lanes, groups = (units + p.lanes - 1) / p.lanes;
    const RowCopies<Format> copies(p, &buffers[thread / 32], lane);
    const int32_t num_sets = (end - first + rows_at_once - 1) / rows_at_once;
    int32_t m = first + thread / p.lanes, stage = 0;
    const uint8_t* row = weights + min(m, end - 1) * p.row_bytes;
    copies.start(row, 0, 0);
    cp_async_commit();
    for (int32_t set = 0; set < num_sets; ++set) {
        const uint8_t* next_row = weights + min(m + rows_at_once, end - 1) * p.row_bytes;
        float sums[R];
#pragma unroll
        for (int r = 0; r < R; ++r) sums[r] = 0.0f;
        for (int32_t j = 0; j < groups; ++j, stage ^= 1) {
            if (j + 1 < groups) {
                copies.start(row, j + 1, stage ^ 1);
            } else if (set + 1 < num_sets) {
                copies.start(next_row, 0, stage ^ 1);
            }
            cp_async_commit();
            cp_async_wait<1>();
            __syncwarp();
            const int32_t u = j * p.lanes + chain;
            if (u < units) {
                typename Format::Raw raw;
                Unit<Format> unit;
                const bool whole = is_whole<Format>(u, blocks);
                Format::load(copies.group(row, j, stage), chain, whole, raw);
                Format::decode(raw, grid, unit);
#pragma unroll
                for (int r = 0; r < R; ++r) {
                    const uint8_t* record = x + at[r];
                    const uint4* codes = reinterpret_cast<const uint4*>(record + static_cast<uint32_t>(u) * UNIT);
                    const float4 both =
                        *reinterpret_cast<const float4*>(record + infos + static_cast<uint32_t>(u) * 16);
#pragma unroll
                    for (int b = 0; b < 2; ++b) {
                        const uint4 low = codes[2 * b], high = codes[2 * b + 1];
                        const int q[8] = {static_cast<int>(low.x),  static_cast<int>(low.y),
                                          static_cast<int>(low.z),  static_cast<int>(low.w),
                                          static_cast<int>(high.x), static_cast<int>(high.y),
                                          static_cast<int>(high.z), static_cast<int>(high.w)};
                        const BlockInfo info = {b ? both.z : both.x, __float_as_int(b ? both.w : both.y)};
                        const float sum = add_block(sums[r], unit, b, q, info);
                        if (b == 0 || whole) sums[r] = sum;
                    }
                }
            }
            __syncwarp();
        }
#pragma unroll
        for (int r = 0; r < R; ++r) {
            const float total = add_chains(sums[r], p.lanes);
            if (chain == 0 && r < tile.count && m < end) {
                // Rows are looked up again: kept, they take so many registers that a block less fits, or are spilled.
                matrix.out[static_cast<int64_t>(row_of(p, tile, r)) * matrix.rows + m] = total;
            }
        }
        m += rows_at_once;
        row = next_row;
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
