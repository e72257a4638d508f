// Which rows of activations meet which matrix, in one launch of a product.
//
// Plain: one matrix, rows 0 .. num_rows - 1. Experts: the pairs (row r, choice s), numbered r * per_row + s, each with
// a slot that holds its expert's matrices, or a negative number: nobody computes it. They are grouped by slot on the
// device (experts.cu) into *tiles* of some pairs of one slot:
//     tiles[0] number of tiles, tiles[1] number of pairs; from tiles[4] on: slot, first, count, 0 of each tile
//     pairs[first .. first + count - 1]: the pairs of a tile
// or, without grouping, each pair is a tile: `slots` of the pairs in the order of their numbers.
#pragma once
#include "stratum.cuh"

// The parameters of a product. blockIdx.z chooses one of several matrices of one format that read the same rows.
constexpr int MOST_MATRICES = 6;

struct Product {
    const uint8_t* weights[MOST_MATRICES];  // of slot 0
    float* out[MOST_MATRICES];              // row or pair r at r * (matrix rows)
    int32_t matrix_rows[MOST_MATRICES];
    const void* x;              // records (activations.cuh), or floats; row r at r * x_stride
    const uint32_t* grid;       // the format's codebook in global memory, or null
    const int32_t* tiles;       // null: plain, or each pair a tile
    const int32_t* pairs;       // null without `tiles`
    const int32_t* slots;       // null: plain
    int64_t slot_bytes;         // from slot to slot
    int64_t row_bytes;          // of a matrix row
    int64_t x_stride;           // bytes, or floats
    int32_t columns;
    int32_t num_rows;    // of activations, or of pairs
    int32_t per_row;     // pairs that read one row of x: 1 where each has its own
    int32_t block_rows;  // matrix rows that a block computes
    int32_t lanes;       // that share a matrix row (chains, products.cuh)
};

// The matrix of a block.
struct OneMatrix {
    const uint8_t* weights;  // of slot 0
    float* out;
    int32_t rows;
};
__device__ __forceinline__ OneMatrix matrix_of(const Product& p) {
    return {p.weights[blockIdx.z], p.out[blockIdx.z], p.matrix_rows[blockIdx.z]};
}

struct Tile {
    int32_t slot;
    int32_t first;
    int32_t count;  // 0: nothing to do
};

__device__ __forceinline__ int32_t num_pairs_of(const int32_t* tiles) { return tiles[1]; }

// The tile of index `at`; `size` rows at most.
__device__ __forceinline__ Tile tile_of(const Product& p, int32_t at, int32_t size) {
    if (p.tiles != nullptr) {
        if (at >= p.tiles[0]) return {0, 0, 0};
        const int32_t* tile = p.tiles + 4 + 4 * at;
        return {tile[0], tile[1], tile[2]};
    }
    if (p.slots != nullptr) {
        const int32_t slot = p.slots[at];
        return {slot, at, slot < 0 ? 0 : 1};
    }
    const int32_t first = at * size;
    return {0, first, min(size, p.num_rows - first)};
}

// The row or pair at place i of a tile, and where its activations lie.
__device__ __forceinline__ int32_t row_of(const Product& p, const Tile& tile, int32_t i) {
    return p.pairs == nullptr ? tile.first + i : p.pairs[tile.first + i];
}
__device__ __forceinline__ int64_t x_row_of(const Product& p, int32_t row) {
    return p.per_row == 1 ? row : row / p.per_row;
}
