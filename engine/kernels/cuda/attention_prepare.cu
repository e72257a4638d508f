// Sparse attention (spec 4.5), before the attending: keys and values into their pages, index keys pooled, queries.
//
// One block for each row and job: a key-value head (norm, rotation, storing of key and value), the index key
// (stored raw; where the row completes a block, also the mean of the block's raw keys, normed, rotated, stored), a
// query head, an index query head. Jobs do not read what others of the same launch write, so a launch may
// hold any range of them. Plain twins: `append_keys` and the first lines of `attend` in reference_attention.py.
#include "kv_pages.cuh"

struct PrepareInputs {
    const float* k;             // [R, kv_heads * head_dim]
    const float* v;             // [R, kv_heads * head_dim]
    const float* index_k;       // [R, index_dim]
    const float* q;             // [R, heads * 2 * head_dim], per head q then gate
    const float* index_q;       // [R, index_heads * index_dim]
    const float* k_norm;        // [head_dim]
    const float* q_norm;        // [head_dim]
    const float* index_k_norm;  // [index_dim]
    const float* index_q_norm;  // [index_dim]
    float* queries;             // [R, heads, head_dim] out, times 1 / sqrt(head_dim)
    float* index_queries;       // [R, index_heads, index_stride] out, zero behind index_dim
    int32_t first_job;          // of kv_heads + 1 + heads + index_heads; gridDim.y of them
    int32_t first_row;          // of gridDim.x rows; row 0 of queries and index_queries
};

// x / rms(x) * weight, rotated by the row's angles: this thread's number. `x` is 0 in threads from n on. `row` has
// room for n floats, `memory` for a warp's.
__device__ __forceinline__ float norm_rotate(float x, const float* weight, int32_t n, float eps, const float* cos,
                                             const float* sin, int32_t half, float* row, float* memory) {
    const int32_t i = threadIdx.x;
    const float scale = inverse_rms(block_sum(x * x, memory), n, eps);
    const float normed = i < n ? x * scale * weight[i] : 0.0f;
    if (i < n) row[i] = normed;
    __syncthreads();
    if (i < half) return row[i] * cos[i] - row[i + half] * sin[i];
    if (i < 2 * half) return row[i] * cos[i - half] + row[i - half] * sin[i - half];
    return normed;
}

constexpr float INT8_TOP = 127.0f;

// Stores n numbers, one of each thread.
template <class T>
__device__ __forceinline__ void store_head(float x, int32_t n, T* to, float*, float*) {
    if (static_cast<int32_t>(threadIdx.x) < n) to[threadIdx.x] = Stored<T>::store(x);
}

template <>
__device__ __forceinline__ void store_head<int8_t>(float x, int32_t n, int8_t* to, float* scale, float* memory) {
    const bool is_inside = static_cast<int32_t>(threadIdx.x) < n;
    // A maximum drops NaN, and an int8 cannot be one: the scale tells of it.
    const bool is_bad = __syncthreads_or(is_inside && x != x) != 0;
    const float largest = block_max(is_inside ? fabsf(x) : 0.0f, memory);
    const float inverse = largest > 0.0f ? INT8_TOP / largest : 0.0f;
    if (is_inside) to[threadIdx.x] = static_cast<int8_t>(__float2int_rn(x * inverse));
    if (threadIdx.x == 0) *scale = is_bad ? __int_as_float(0x7fc00000) : largest / INT8_TOP;
}

// Block: head_dim or index_dim, the larger, rounded up to whole warps.
template <class T>
__device__ __forceinline__ void attention_prepare(const KvPages& pages, const AttentionSizes& sizes, const Pass& pass,
                                                  const PrepareInputs& in) {
    using Index = typename Stored<T>::Index;
    __shared__ float rotated[256];
    __shared__ float memory[WARP_SIZE];
    const int32_t row = in.first_row + static_cast<int32_t>(blockIdx.x), i = threadIdx.x;
    const int32_t d = sizes.head_dim, dim = sizes.index_dim;
    const int32_t half = sizes.rope_dim / 2;
    const float *cos = pass.rope_cos + row * half, *sin = pass.rope_sin + row * half;
    const int32_t* table = pass.page_table + static_cast<int64_t>(pass.row_seq[row]) * pass.max_pages;
    const int32_t position = pass.positions[row];
    int32_t job = in.first_job + blockIdx.y;

    if (job < sizes.kv_heads) {
        const int32_t place = token_place(pages, table, position);
        const int64_t from = (static_cast<int64_t>(row) * sizes.kv_heads + job) * d;
        const int32_t width = sizes.kv_heads * d;
        const float key = norm_rotate(i < d ? in.k[from + i] : 0.0f, in.k_norm, d, sizes.eps, cos, sin, half, rotated,
                                      memory);
        float* key_scale = scale_at(pages, pages.key_scales, pages.far_key_scales, place, sizes.kv_heads) + job;
        float* value_scale = scale_at(pages, pages.value_scales, pages.far_value_scales, place, sizes.kv_heads) + job;
        store_head<T>(key, d, at_place<T>(pages, pages.keys, pages.far_keys, place, width) + job * d, key_scale,
                      memory);
        store_head<T>(i < d ? in.v[from + i] : 0.0f, d,
                      at_place<T>(pages, pages.values, pages.far_values, place, width) + job * d, value_scale, memory);
        return;
    }
    job -= sizes.kv_heads;
    if (job == 0) {
        const int64_t from = static_cast<int64_t>(row) * dim;
        const int32_t place = token_place(pages, table, position);
        if (i < dim) {
            at_place<Index>(pages, pages.index_raw, pages.far_index_raw, place, dim)[i] =
                Stored<Index>::store(in.index_k[from + i]);
        }
        if (position % sizes.ratio != sizes.ratio - 1) return;
        // Rows of this pass may not be stored yet: they are read from the inputs, rounded as they are stored.
        const int32_t before = position - pass.seq_length[pass.row_seq[row]];  // rows of this pass before this one
        float total = 0.0f;
        for (int32_t back = sizes.ratio - 1; back >= 0 && i < dim; --back) {
            if (back <= before) {
                total += Stored<Index>::load(Stored<Index>::store(in.index_k[from - static_cast<int64_t>(back) * dim + i]));
            } else {
                total += Stored<Index>::load(
                    at_place<Index>(pages, pages.index_raw, pages.far_index_raw, place - back, dim)[i]);
            }
        }
        const float mean = total / static_cast<float>(sizes.ratio);
        const float pooled = norm_rotate(mean, in.index_k_norm, dim, sizes.eps, pass.block_rope_cos + row * half,
                                         pass.block_rope_sin + row * half, half, rotated, memory);
        Index* to = reinterpret_cast<Index*>(pages.index_pooled) + static_cast<int64_t>(place / sizes.ratio) * dim;
        if (i < dim) to[i] = Stored<Index>::store(pooled);
        return;
    }
    job -= 1;
    const int64_t out_row = blockIdx.x;
    if (job < sizes.heads) {
        const int64_t from = (static_cast<int64_t>(row) * sizes.heads + job) * 2 * d;
        const float query = norm_rotate(i < d ? in.q[from + i] : 0.0f, in.q_norm, d, sizes.eps, cos, sin, half,
                                        rotated, memory);
        const float scale = 1.0f / sqrtf(static_cast<float>(d));
        if (i < d) in.queries[(out_row * sizes.heads + job) * d + i] = query * scale;
        return;
    }
    job -= sizes.heads;
    const int64_t from = (static_cast<int64_t>(row) * sizes.index_heads + job) * dim;
    const float query = norm_rotate(i < dim ? in.index_q[from + i] : 0.0f, in.index_q_norm, dim, sizes.eps, cos, sin,
                                    half, rotated, memory);
    const int32_t stride = sizes.index_stride();
    float* to = in.index_queries + (out_row * sizes.index_heads + job) * stride;
    if (i < stride) to[i] = i < dim ? query : 0.0f;
}

KERNEL(attention_prepare_f32)(KvPages pages, AttentionSizes sizes, Pass pass, PrepareInputs in) {
    attention_prepare<float>(pages, sizes, pass, in);
}
EXPORT(attention_prepare_f32)
KERNEL(attention_prepare_f16)(KvPages pages, AttentionSizes sizes, Pass pass, PrepareInputs in) {
    attention_prepare<uint16_t>(pages, sizes, pass, in);
}
EXPORT(attention_prepare_f16)
KERNEL(attention_prepare_i8)(KvPages pages, AttentionSizes sizes, Pass pass, PrepareInputs in) {
    attention_prepare<int8_t>(pages, sizes, pass, in);
}
EXPORT(attention_prepare_i8)
