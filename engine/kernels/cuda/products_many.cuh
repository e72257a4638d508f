// Products of quantised matrices with many rows of activations (prompts), by int8 tensor cores.
//
// A block of 128 threads computes 64 matrix rows for a tile of up to 64 rows of activations. Two units (64 values each)
// at a time are decoded into shared memory, one by each thread; a warp multiplies 16 matrix rows with all activations.
// Units are taken chain by chain, so that one running sum, one for the quad and one for the total per output give the
// order of float operations of products.cuh, bit for bit.
//
// The gated form computes 32 rows of each of two matrices, gate and up, and writes silu(gate) * up as records of 8-bit
// blocks to out[0], as gated_quantise_rows would: what experts make of a prompt on the way takes a quarter of the memory.
#pragma once
#include "products.cuh"

constexpr int MANY_THREADS = 128;
constexpr int MANY_MATRIX_ROWS = 64;
constexpr int MANY_ROWS = 64;
constexpr int STAGE_WORDS = 2 * UNIT / 4 + 4;  // of a row: two units, and 16 bytes that spread rows over the banks

// Blocks in an order in which those that run at once share matrix rows as well as activations, so that both come from
// the second-level cache: columns of eight tiles, matrix rows by matrix rows.
struct BlockPlace {
    int32_t x, y;
};
__device__ __forceinline__ BlockPlace place_of_block() {
    constexpr uint32_t TILES = 8;
    const uint32_t index = blockIdx.x + blockIdx.y * gridDim.x, column = index / (TILES * gridDim.x);
    const uint32_t rest = index - column * TILES * gridDim.x, width = min(TILES, gridDim.y - column * TILES);
    return {static_cast<int32_t>(rest / width), static_cast<int32_t>(column * TILES + rest % width)};
}

// A place in the order chain by chain.
struct UnitPlace {
    int32_t chain, unit;  // unit = chain + lanes * (how many of the chain came before)
    __device__ __forceinline__ void step(int32_t units, int32_t lanes) {
        unit += lanes;
        if (unit >= units) unit = ++chain;
    }
};

// Units whose bytes lie together come through shared memory: neighbouring lanes copy neighbouring words, which each
// thread then reads from its unit. (Other formats read wide words, or few.) An odd number of words between units
// spreads them over the banks.
template <class Format>
struct UnitBuffer {
    static constexpr bool IS_USED = Format::VALUES <= UNIT;
    static constexpr int BYTES = IS_USED ? UNIT / Format::VALUES * Format::BYTES : 0;
    static constexpr int WORDS = IS_USED ? (BYTES + 6) / 4 | 1 : 1;
    uint32_t words[IS_USED ? MANY_THREADS : 1][WORDS];

    // Starts copying the unit of every thread; `bytes` of it exist, 0 for none.
    __device__ __forceinline__ void start(const uint8_t* unit, int32_t bytes) {
        const int lane = static_cast<int>(threadIdx.x) % 32, base = static_cast<int>(threadIdx.x) - lane;
        constexpr int EACH_LANES = 8;  // of a unit, so four units at once
#pragma unroll
        for (int i = 0; i < 32; i += 32 / EACH_LANES) {
            const int owner = i + lane / EACH_LANES;
            const uint64_t from = __shfl_sync(FULL_WARP, reinterpret_cast<uint64_t>(unit), owner);
            const int32_t size = __shfl_sync(FULL_WARP, bytes, owner);
            const int32_t end = size == 0 ? 0 : size + static_cast<int32_t>(from & 3u);
            const uint8_t* aligned = reinterpret_cast<const uint8_t*>(from & ~static_cast<uint64_t>(3));
            for (int32_t at = 4 * (lane % EACH_LANES); at < end; at += 4 * EACH_LANES) {
                cp_async4(&words[base + owner][at / 4], aligned + at);
            }
        }
        cp_async_commit();
    }
    // Where this thread's unit lies; `unit` as at the start.
    __device__ __forceinline__ const uint8_t* unit(const uint8_t* unit) const {
        return reinterpret_cast<const uint8_t*>(words[threadIdx.x]) + (reinterpret_cast<uint64_t>(unit) & 3u);
    }
};

template <class Format>
struct ManyShared {
    uint32_t w[MANY_MATRIX_ROWS][STAGE_WORDS];
    uint32_t x[MANY_ROWS][STAGE_WORDS];
    float scales[MANY_MATRIX_ROWS][2 * Format::SCALES];
    float minima[Format::MINS ? MANY_MATRIX_ROWS : 1][2 * Format::SCALES];
    BlockInfo infos[MANY_ROWS][4];
    UnitBuffer<Format> raw;
};

// The sums of one warp's outputs: 16 matrix rows x 64 rows of activations, as fragments of eight.
struct ManySums {
    float chain[8][4], quad[8][4], total[8][4];
};

template <class Format>
__device__ __forceinline__ void multiply_block(const ManyShared<Format>& s, int which, int block, int tiles,
                                               ManySums& sums) {
    constexpr int PARTS = Format::SCALES / 2;
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    const int g = lane / 4, t = lane % 4, row = 16 * warp + g;
    const int at = 16 * which + 8 * block;  // word in a row
    const uint32_t a[4] = {s.w[row][at + t], s.w[row + 8][at + t], s.w[row][at + 4 + t], s.w[row + 8][at + 4 + t]};
    float scale[2][PARTS], minimum[2][PARTS];
#pragma unroll
    for (int part = 0; part < PARTS; ++part) {
        const int index = Format::SCALES * which + PARTS * block + part;
        scale[0][part] = s.scales[row][index], scale[1][part] = s.scales[row + 8][index];
        if constexpr (Format::MINS) {
            minimum[0][part] = s.minima[row][index], minimum[1][part] = s.minima[row + 8][index];
        }
    }
#pragma unroll
    for (int n = 0; n < 8; ++n) {
        if (n >= tiles) break;
        const uint32_t b[2] = {s.x[8 * n + g][at + t], s.x[8 * n + g][at + 4 + t]};
        int dots[PARTS][4];
#pragma unroll
        for (int part = 0; part < PARTS; ++part) {
#pragma unroll
            for (int i = 0; i < 4; ++i) dots[part][i] = 0;
            if constexpr (PARTS == 1) {
                mma_s8_m16n8k32(dots[part], a, b);
            } else {
                mma_s8_m16n8k16(dots[part], a + 2 * part, b[part]);
            }
        }
        const BlockInfo infos[2] = {s.infos[8 * n + 2 * t][2 * which + block],
                                    s.infos[8 * n + 2 * t + 1][2 * which + block]};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const BlockInfo& info = infos[i & 1];
            float sum = sums.chain[n][i];
#pragma unroll
            for (int part = 0; part < PARTS; ++part) {
                sum = fmaf(static_cast<float>(dots[part][i]), scale[i >> 1][part] * info.scale, sum);
                if constexpr (Format::MINS) {
                    const int all = PARTS == 1 ? sum_of_block(info.sums) : sum_of_half(info.sums, part);
                    sum = fmaf(minimum[i >> 1][part], info.scale * static_cast<float>(all), sum);
                }
            }
            sums.chain[n][i] = sum;
        }
    }
}

// Writes the gated form. `values`: MANY_ROWS * (MANY_MATRIX_ROWS + 1) floats of shared memory, free for use.
__device__ __forceinline__ void write_gated(const Product& p, const Tile& tile, const ManySums& sums, int32_t block,
                                            float* values) {
    constexpr int STRIDE = MANY_MATRIX_ROWS + 1;
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int m = 16 * warp + lane / 4 + 8 * (i >> 1), r = 8 * n + lane % 4 * 2 + (i & 1);
            values[r * STRIDE + m] = sums.total[n][i];
        }
    }
    __syncthreads();
    const int32_t width = p.matrix_rows[0];
    for (int r = warp; r < tile.count; r += MANY_THREADS / 32) {
        uint8_t* record = reinterpret_cast<uint8_t*>(p.out[0]) + row_of(p, tile, r) * record_bytes(width);
        const float value = silu(values[r * STRIDE + lane]) * values[r * STRIDE + 32 + lane];
        quantise_block(value, lane, block, width, record);
        const bool is_last = (block + 1) * BLOCK == width;
        if (is_last && (block & 1) == 0) quantise_block(0.0f, lane, block + 1, width, record);  // the padding
    }
}

template <class Format, bool GATED = false>
__device__ __forceinline__ void product_many(const Product& p) {
    __shared__ __align__(16) ManyShared<Format> s;
    const BlockPlace block = place_of_block();
    const Tile tile = tile_of(p, block.y, MANY_ROWS);
    if (tile.count <= 0) return;
    const OneMatrix matrix = matrix_of(p);
    const int32_t start = block.x * (GATED ? BLOCK : MANY_MATRIX_ROWS);
    if (start >= matrix.rows) return;
    const uint32_t* grid = shared_grid<Format>(p.grid);
    const int tiles = (tile.count + 7) / 8, thread = static_cast<int>(threadIdx.x);
    const int32_t blocks = p.columns / BLOCK, units = (p.columns + UNIT - 1) / UNIT;

    // This thread decodes a unit of one matrix row, and copies a quarter of four rows of activations.
    const int w_row = thread % MANY_MATRIX_ROWS, which = thread / MANY_MATRIX_ROWS;
    const bool is_up = GATED && w_row >= BLOCK;
    const uint8_t* row = (is_up ? p.weights[1] : matrix.weights) + tile.slot * p.slot_bytes +
                         min(start + (is_up ? w_row - BLOCK : w_row), matrix.rows - 1) * p.row_bytes;
    const uint8_t* x[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int32_t at = min(thread / 8 + 16 * i, tile.count - 1);
        x[i] = static_cast<const uint8_t*>(p.x) + x_row_of(p, row_of(p, tile, at)) * p.x_stride;
    }

    ManySums sums;
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sums.chain[n][i] = sums.quad[n][i] = sums.total[n][i] = 0.0f;
    }
    UnitPlace first = {0, 0}, second = {0, 0};  // the two units of a step
    second.step(units, p.lanes);
    typename Format::Raw raw;
    const auto start_unit = [&](bool exists, int32_t u) {  // this thread's, to be decoded in the next step
        if constexpr (UnitBuffer<Format>::IS_USED) {
            constexpr int BYTES = UnitBuffer<Format>::BYTES;
            const int32_t bytes = is_whole<Format>(u, blocks) ? BYTES : BYTES / 2;
            s.raw.start(row + static_cast<int64_t>(u) * BYTES, exists ? bytes : 0);
        } else if (exists) {
            Format::load(row, u, true, raw);
        }
    };
    start_unit(which < units, which ? second.unit : first.unit);
    for (int32_t done = 0; done < units; done += 2) {
        if constexpr (UnitBuffer<Format>::IS_USED) {
            cp_async_wait<0>();
            __syncwarp();
        }
        if (done + which < units) {
            Unit<Format> unit;
            if constexpr (UnitBuffer<Format>::IS_USED) {
                const int32_t u = which ? second.unit : first.unit;
                const uint8_t* from = s.raw.unit(row + static_cast<int64_t>(u) * UnitBuffer<Format>::BYTES);
                Format::load(from, 0, is_whole<Format>(u, blocks), raw);
            }
            Format::decode(raw, grid, unit);
#pragma unroll
            for (int i = 0; i < 16; i += 4) {
                uint4 four;
                four.x = static_cast<uint32_t>(unit.q[i]), four.y = static_cast<uint32_t>(unit.q[i + 1]);
                four.z = static_cast<uint32_t>(unit.q[i + 2]), four.w = static_cast<uint32_t>(unit.q[i + 3]);
                *reinterpret_cast<uint4*>(&s.w[w_row][16 * which + i]) = four;
            }
#pragma unroll
            for (int i = 0; i < Format::SCALES; ++i) {
                s.scales[w_row][Format::SCALES * which + i] = unit.scale[i];
                if constexpr (Format::MINS) s.minima[w_row][Format::SCALES * which + i] = unit.minimum[i];
            }
        }
        const int part = thread % 8, x_which = part / 4;  // 16 of the 128 bytes of two units
        if (done + x_which < units) {
            const int32_t u = x_which ? second.unit : first.unit;
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int32_t r = thread / 8 + 16 * i;
                if (r >= 8 * tiles) break;
                const uint4* from = reinterpret_cast<const uint4*>(x[i] + static_cast<int64_t>(u) * UNIT);
                *reinterpret_cast<uint4*>(&s.x[r][4 * part]) = from[part % 4];
                if (part % 4 == 0) {
                    *reinterpret_cast<uint4*>(&s.infos[r][2 * x_which]) =
                        *reinterpret_cast<const uint4*>(x[i] + static_cast<int64_t>(units) * UNIT + u * 16);
                }
            }
        }
        __syncthreads();
        const UnitPlace now[2] = {first, second};
        first = second;
        first.step(units, p.lanes);
        second = first;
        second.step(units, p.lanes);
        start_unit(done + 2 + which < units, which ? second.unit : first.unit);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            if (done + i >= units) break;
            multiply_block(s, i, 0, tiles, sums);
            if (is_whole<Format>(now[i].unit, blocks)) multiply_block(s, i, 1, tiles, sums);
            if (now[i].unit + p.lanes < units) continue;
            const bool ends_quad = (now[i].chain & 3) == 3 || done + i + 1 == units;
#pragma unroll
            for (int n = 0; n < 8; ++n) {
#pragma unroll
                for (int k = 0; k < 4; ++k) {
                    sums.quad[n][k] += sums.chain[n][k];
                    sums.chain[n][k] = 0.0f;
                    if (ends_quad) {
                        sums.total[n][k] += sums.quad[n][k];
                        sums.quad[n][k] = 0.0f;
                    }
                }
            }
        }
        __syncthreads();
    }

    if constexpr (GATED) {
        static_assert(sizeof(s.w) + sizeof(s.x) >= MANY_ROWS * (MANY_MATRIX_ROWS + 1) * sizeof(float), "no room");
        write_gated(p, tile, sums, block.x, reinterpret_cast<float*>(&s));
        return;
    }
    const int lane = thread % 32, g = lane / 4, t = lane % 4, warp = thread / 32;
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int32_t m = start + 16 * warp + g + 8 * (i >> 1), r = 8 * n + 2 * t + (i & 1);
            if (r < tile.count && m < matrix.rows) {
                matrix.out[static_cast<int64_t>(row_of(p, tile, r)) * matrix.rows + m] = sums.total[n][i];
            }
        }
    }
}
