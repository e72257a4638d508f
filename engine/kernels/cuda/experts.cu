// What experts need beside products: slots of the chosen experts, grouping by slot, the weighted sum, the shared expert.
//
// Twins: `experts` and `shared_expert` of engine/ops/reference.py. Tiles: tiles.cuh.
#include "stratum.cuh"

// slots[i] = table[ids[i]]; -1 for negative ids (choices that are left out).
KERNEL(expert_slots)(const int32_t* ids, const int32_t* table, int32_t* slots, int32_t count) {
    const int32_t i = static_cast<int32_t>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= count) return;
    slots[i] = ids[i] < 0 ? -1 : table[ids[i]];
}
EXPORT(expert_slots)

// Groups `count` pairs by slot into tiles of `size` pairs; those with a slot below 0 are left out. Two ways, one block
// each.

// A few pairs (windows of decoding), a thread each, at most 256: everybody counts those before it.
KERNEL(group_few_experts)
(const int32_t* slots, int32_t* tiles, int32_t* pairs, int32_t count, int32_t size) {
    __shared__ int32_t slot_of[256], is_first[256];  // of each pair; whether it is the first of a tile
    __shared__ int32_t totals[2];
    const int32_t i = static_cast<int32_t>(threadIdx.x), mine = i < count ? slots[i] : -1;
    slot_of[i] = mine;
    if (i < 2) totals[i] = 0;
    __syncthreads();
    int32_t place = 0, within = 0, same = 0;  // pairs before this one, of its slot, and all of its slot
    for (int32_t j = 0; j < count; ++j) {
        const int32_t slot = slot_of[j];
        const bool is_same = slot == mine;
        place += slot >= 0 && (slot < mine || (is_same && j < i));
        within += is_same && j < i;
        same += is_same;
    }
    const bool starts_tile = mine >= 0 && within % size == 0;
    is_first[i] = starts_tile;
    if (mine >= 0) {
        pairs[place] = i;
        atomicAdd(&totals[1], 1);
        if (starts_tile) atomicAdd(&totals[0], 1);
    }
    __syncthreads();
    if (i < 2) tiles[i] = totals[i];
    if (!starts_tile) return;
    int32_t index = 0;
    for (int32_t j = 0; j < count; ++j) {
        index += is_first[j] != 0 && (slot_of[j] < mine || (slot_of[j] == mine && j < i));
    }
    int32_t* tile = tiles + 4 + 4 * index;
    tile[0] = mine, tile[1] = place, tile[2] = min(size, same - within), tile[3] = 0;
}
EXPORT(group_few_experts)

// Any number, by a counting sort. Dynamic shared memory: an int for each slot. The order of a slot's pairs is any:
// results do not depend on it.
KERNEL(group_experts)
(const int32_t* slots, int32_t* tiles, int32_t* pairs, int32_t count, int32_t num_slots, int32_t size) {
    DYNAMIC_SHARED(int32_t, place);  // counts, then where the next pair of a slot goes
    const int32_t thread = static_cast<int32_t>(threadIdx.x), threads = static_cast<int32_t>(blockDim.x);
    for (int32_t s = thread; s < num_slots; s += threads) place[s] = 0;
    __syncthreads();
    for (int32_t i = thread; i < count; i += threads) {
        if (slots[i] >= 0) atomicAdd(&place[slots[i]], 1);
    }
    __syncthreads();
    if (thread < 32) {
        int32_t pairs_before = 0, tiles_before = 0;
        for (int32_t base = 0; base < num_slots; base += 32) {
            const int32_t s = base + thread, mine = s < num_slots ? place[s] : 0;
            const int32_t mine_tiles = (mine + size - 1) / size;
            int32_t pairs_up_to = mine, tiles_up_to = mine_tiles;
            for (int step = 1; step < 32; step *= 2) {
                const int32_t more = __shfl_up_sync(FULL_WARP, pairs_up_to, step);
                const int32_t more_tiles = __shfl_up_sync(FULL_WARP, tiles_up_to, step);
                if (thread >= step) pairs_up_to += more, tiles_up_to += more_tiles;
            }
            const int32_t first = pairs_before + pairs_up_to - mine;
            const int32_t first_tile = tiles_before + tiles_up_to - mine_tiles;
            for (int32_t t = 0; t < mine_tiles; ++t) {
                int32_t* tile = tiles + 4 + 4 * (first_tile + t);
                tile[0] = s, tile[1] = first + t * size, tile[2] = min(size, mine - t * size), tile[3] = 0;
            }
            if (s < num_slots) place[s] = first;
            pairs_before += __shfl_sync(FULL_WARP, pairs_up_to, 31);
            tiles_before += __shfl_sync(FULL_WARP, tiles_up_to, 31);
        }
        if (thread == 0) tiles[0] = tiles_before, tiles[1] = pairs_before;
    }
    __syncthreads();
    for (int32_t i = thread; i < count; i += threads) {
        if (slots[i] >= 0) pairs[atomicAdd(&place[slots[i]], 1)] = i;
    }
}
EXPORT(group_experts)

// out[r] = sum of weights[r, s] * y[r, s] in the order of s, of those with a slot in `slots` or `more_slots`; plus
// host[r], what another place computed. y [rows, used, width]; `more_slots` and `host` may be null.
KERNEL(sum_experts)
(const float* y, const int32_t* slots, const int32_t* more_slots, const float* weights, const float* host, float* out,
 int32_t used, int32_t width) {
    const int32_t i = static_cast<int32_t>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= width) return;
    const int64_t row = blockIdx.y;
    float total = 0.0f;
    for (int32_t s = 0; s < used; ++s) {
        const int64_t pair = row * used + s;
        if (slots[pair] >= 0 || (more_slots != nullptr && more_slots[pair] >= 0)) {
            total = fmaf(weights[pair], y[pair * width + i], total);
        }
    }
    out[row * width + i] = host == nullptr ? total : total + host[row * width + i];
}
EXPORT(sum_experts)

// out[r] += sigmoid(router . x[r]) * y[r]; a block of 256 threads for each row. x [rows, columns], y, out [rows, width].
KERNEL(add_shared_expert)
(const float* router, const float* x, const float* y, float* out, int32_t columns, int32_t width) {
    __shared__ float sums[8];
    const int64_t row = blockIdx.x;
    const int32_t thread = static_cast<int32_t>(threadIdx.x);
    float sum = 0.0f;
    for (int32_t k = thread; k < columns; k += 256) sum = fmaf(router[k], x[row * columns + k], sum);
    sum = warp_sum(sum);
    if (thread % 32 == 0) sums[thread / 32] = sum;
    __syncthreads();
    float score = 0.0f;
    for (int i = 0; i < 8; ++i) score += sums[i];
    const float share = 1.0f / (1.0f + expf(-score));
    for (int32_t i = thread; i < width; i += 256) {
        out[row * width + i] = fmaf(share, y[row * width + i], out[row * width + i]);
    }
}
EXPORT(add_shared_expert)
