// Activations to 8-bit blocks (activations.cuh), plain or as silu(gate) * up, once for all matrices that read them.
//
// Rows are those of a list (`pairs`, of which `tiles[1]` count; see tiles.cuh) or, when it is null, 0 .. num_rows - 1;
// row r is read from, and written to, place r. A warp takes blocks of 32, one after another. Twin: quantise_row of
// engine/kernels/host/activations.h.
#include "activations.cuh"
#include "tiles.cuh"

namespace {

// Calls f(row, block) for the blocks of this warp; f(.., -1) never happens.
template <class F>
__device__ __forceinline__ void each_block(const int32_t* tiles, const int32_t* pairs, int32_t num_rows,
                                           int32_t columns, const F& f) {
    const int32_t count = pairs == nullptr ? num_rows : num_pairs_of(tiles);
    const int32_t blocks = (columns + 63) / 64 * 2;
    const int64_t warps = static_cast<int64_t>(gridDim.x) * (blockDim.x / 32);
    int64_t item = static_cast<int64_t>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
    for (; item < static_cast<int64_t>(count) * blocks; item += warps) {
        const int32_t i = static_cast<int32_t>(item / blocks), block = static_cast<int32_t>(item % blocks);
        f(pairs == nullptr ? i : pairs[i], block);
    }
}

}  // namespace

// x [num_rows, columns], rows x_stride floats apart -> records.
KERNEL(quantise_rows)
(const float* x, int64_t x_stride, uint8_t* records, int32_t num_rows, int32_t columns) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    each_block(nullptr, nullptr, num_rows, columns, [&](int32_t row, int32_t block) {
        const int32_t k = block * 32 + lane;
        const float value = k < columns ? x[row * x_stride + k] : 0.0f;
        quantise_block(value, lane, block, columns, records + row * record_bytes(columns));
    });
}
EXPORT(quantise_rows)

// silu(gate) * up, both [.., columns] -> records.
KERNEL(gated_quantise_rows)
(const float* gate, const float* up, uint8_t* records, const int32_t* tiles, const int32_t* pairs, int32_t num_rows,
 int32_t columns) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    each_block(tiles, pairs, num_rows, columns, [&](int32_t row, int32_t block) {
        const int32_t k = block * 32 + lane;
        const int64_t at = static_cast<int64_t>(row) * columns + k;
        const float value = k < columns ? silu(gate[at]) * up[at] : 0.0f;
        quantise_block(value, lane, block, columns, records + row * record_bytes(columns));
    });
}
EXPORT(gated_quantise_rows)

// gate = silu(gate) * up, for matrices that take floats.
KERNEL(gated_rows)
(float* gate, const float* up, const int32_t* tiles, const int32_t* pairs, int32_t num_rows, int32_t columns) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    each_block(tiles, pairs, num_rows, columns, [&](int32_t row, int32_t block) {
        const int32_t k = block * 32 + lane;
        const int64_t at = static_cast<int64_t>(row) * columns + k;
        if (k < columns) gate[at] = silu(gate[at]) * up[at];
    });
}
EXPORT(gated_rows)
