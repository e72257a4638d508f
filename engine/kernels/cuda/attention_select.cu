// Sparse attention (spec 4.5): scores of blocks, and the choice of the best ones, exactly.
//
// Only rows with more complete blocks than they may attend to are looked at. A score is the sum over index heads, in
// order, of relu(query . key), each product summed over the dims in order: so its bits depend on nothing else.
// Plain twin: `_select_blocks` in reference_attention.py.
#include "kv_pages.cuh"
#include "largest.cuh"

constexpr int SCORED_KEYS = 32;   // blocks of a tile: one lane computes one
constexpr int SCORED_ROWS = 16;   // rows that share a loaded tile, when they are of one sequence
constexpr int INDEX_HEADS = 4;    // taken at once

// Complete blocks that a row sees.
__device__ __forceinline__ int32_t num_blocks(const Pass& pass, const AttentionSizes& sizes, int32_t row) {
    return (pass.positions[row] + 1) / sizes.ratio;
}

// Brings the pooled keys of blocks first .. first + SCORED_KEYS - 1 (those below `blocks`) of one sequence into shared
// memory, float32, [SCORED_KEYS][stride], zero behind index_dim.
template <class Index>
__device__ __forceinline__ void load_keys(const KvPages& pages, const AttentionSizes& sizes, const int32_t* table,
                                          int32_t first, int32_t blocks, int32_t stride, float* keys) {
    const int32_t per_page = pages.page_tokens / sizes.ratio, dim = sizes.index_dim;
    for (int32_t key = warp_index(); key < SCORED_KEYS; key += num_warps()) {
        const int32_t block = first + key;
        if (block >= blocks) break;
        const int64_t place = static_cast<int64_t>(table[block / per_page]) * per_page + block % per_page;
        const Index* from = reinterpret_cast<const Index*>(pages.index_pooled) + place * dim;
        float* to = keys + key * stride;
        if (sizeof(Index) == 2 && dim % 2 == 0) {
            const uint32_t* pairs = reinterpret_cast<const uint32_t*>(from);
            for (int32_t i = lane_index(); i < dim / 2; i += WARP_SIZE) {
                const uint32_t pair = pairs[i];
                to[2 * i] = half_to_float(static_cast<uint16_t>(pair & 0xffffu));
                to[2 * i + 1] = half_to_float(static_cast<uint16_t>(pair >> 16));
            }
        } else {
            for (int32_t i = lane_index(); i < dim; i += WARP_SIZE) to[i] = Stored<Index>::load(from[i]);
        }
        for (int32_t i = dim + lane_index(); i < sizes.index_stride(); i += WARP_SIZE) to[i] = 0.0f;
    }
}

// Scores a key against the index heads of one row. `query` [heads, stride] is padded with zeros as the key is.
__device__ __forceinline__ float score_key(const AttentionSizes& sizes, const float* query, const float* key) {
    const int32_t stride = sizes.index_stride();
    float total = 0.0f;
    for (int32_t first = 0; first < sizes.index_heads; first += INDEX_HEADS) {
        float sums[INDEX_HEADS] = {0.0f, 0.0f, 0.0f, 0.0f};
        const int32_t last = sizes.index_heads - 1;
        const float* heads[INDEX_HEADS];
#pragma unroll
        for (int h = 0; h < INDEX_HEADS; ++h) heads[h] = query + static_cast<int64_t>(min(first + h, last)) * stride;
        for (int32_t i = 0; i < stride; i += 4) {
            const float4 k = *reinterpret_cast<const float4*>(key + i);
#pragma unroll
            for (int h = 0; h < INDEX_HEADS; ++h) {
                const float4 q = *reinterpret_cast<const float4*>(heads[h] + i);
                sums[h] = fmaf(q.w, k.w, fmaf(q.z, k.z, fmaf(q.y, k.y, fmaf(q.x, k.x, sums[h]))));
            }
        }
#pragma unroll
        for (int h = 0; h < INDEX_HEADS; ++h) {
            if (first + h <= last) total += fmaxf(sums[h], 0.0f);  // +0 for NaN, too: keys stay ordered
        }
    }
    return total;
}

// Grid (any, ceil(rows / SCORED_ROWS)), block 128, SCORED_KEYS * (stride + 4) floats of dynamic shared memory. Rows first_row .. first_row + num_rows - 1 of the pass;
// index_queries [num_rows, heads, stride]; scores [num_rows, scores_stride].
template <class Index>
__device__ __forceinline__ void attention_scores(const KvPages& pages, const AttentionSizes& sizes, const Pass& pass,
                                                 const float* index_queries, float* scores, int32_t scores_stride,
                                                 int32_t first_row, int32_t num_rows) {
    DYNAMIC_SHARED(float, keys);
    const int32_t key_stride = sizes.index_stride() + 4;  // lanes read 16 bytes each without bank conflicts
    const int32_t query_size = sizes.index_heads * sizes.index_stride();
    const int32_t group = blockIdx.y * SCORED_ROWS, end = min(group + SCORED_ROWS, num_rows);
    for (int32_t row = group; row < end;) {
        const int32_t sequence = pass.row_seq[first_row + row];
        int32_t stop = row + 1;
        while (stop < end && pass.row_seq[first_row + stop] == sequence) ++stop;
        const int32_t blocks = num_blocks(pass, sizes, first_row + stop - 1);  // the most of these rows
        const int32_t* table = pass.page_table + static_cast<int64_t>(sequence) * pass.max_pages;
        for (int32_t tile = blockIdx.x * SCORED_KEYS; blocks > sizes.top_blocks && tile < blocks;
             tile += gridDim.x * SCORED_KEYS) {
            __syncthreads();
            load_keys<Index>(pages, sizes, table, tile, blocks, key_stride, keys);
            __syncthreads();
            const int32_t block = tile + lane_index();
            for (int32_t r = row + warp_index(); r < stop; r += num_warps()) {
                const int32_t own = num_blocks(pass, sizes, first_row + r);
                if (own <= sizes.top_blocks || block >= own) continue;
                scores[static_cast<int64_t>(r) * scores_stride + block] =
                    score_key(sizes, index_queries + static_cast<int64_t>(r) * query_size,
                              keys + lane_index() * key_stride);
            }
        }
        row = stop;
    }
}

KERNEL_BOUNDED(attention_scores_f32, 128)(KvPages pages, AttentionSizes sizes, Pass pass, const float* index_queries,
                                          float* scores, int32_t scores_stride, int32_t first_row, int32_t num_rows) {
    attention_scores<float>(pages, sizes, pass, index_queries, scores, scores_stride, first_row, num_rows);
}
EXPORT(attention_scores_f32)
KERNEL_BOUNDED(attention_scores_f16, 128)(KvPages pages, AttentionSizes sizes, Pass pass, const float* index_queries,
                                          float* scores, int32_t scores_stride, int32_t first_row, int32_t num_rows) {
    attention_scores<uint16_t>(pages, sizes, pass, index_queries, scores, scores_stride, first_row, num_rows);
}
EXPORT(attention_scores_f16)

// chosen [num_rows, top_blocks]: numbers of the blocks that a row attends to, ascending, -1 behind them.
// Grid (num_rows), block 32 .. 1024, a power of two.
KERNEL(attention_select)(AttentionSizes sizes, Pass pass, const float* scores, int32_t scores_stride, int32_t* chosen,
                         int32_t first_row) {
    __shared__ LargestMemory memory;
    const int32_t blocks = num_blocks(pass, sizes, first_row + static_cast<int32_t>(blockIdx.x));
    const int32_t top = sizes.top_blocks;
    int32_t* to = chosen + static_cast<int64_t>(blockIdx.x) * top;
    if (blocks <= top) {
        for (int32_t i = threadIdx.x; i < top; i += blockDim.x) to[i] = i < blocks ? i : -1;
        return;
    }
    const float* own = scores + static_cast<int64_t>(blockIdx.x) * scores_stride;
    // Scores are not negative: their bits are ordered as they are.
    const auto key = [own](int32_t i) { return __float_as_uint(own[i]); };
    const Threshold threshold = find_threshold(blocks, top, memory, key);
    take_largest(blocks, threshold, memory, key, [to](int32_t n, int32_t i) { to[n] = i; });
}
EXPORT(attention_select)
