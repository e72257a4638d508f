// Sparse attention (spec 4.5): each row attends to its chosen blocks and the tail behind the last complete block.
//
// A row's tokens, in ascending order, are cut into parts of 64. A part gives, for each query head, the largest score,
// the sum of exp(score - largest) and that weighted sum of values; parts are joined in order, by the same
// expressions in two ways: attention_parts computes parts in blocks of their own and attention_join joins them
// (few rows: many blocks at once), attention_rows walks through the parts of a row in one block (many rows: nothing is
// stored in between). A row's bits are the same in both.
//
// All query heads of a key-value head share a block, so a key and a value are read once. For scores a warp takes a
// token, lanes its dims; for sums of values a thread takes dims. Variants: page type (a .cu file each), and 4 or 1
// neighbouring dims of a lane (head_dim a multiple of 4, or not). Limits: head_dim <= 256. Plain twin: `attend` in
// engine/ops/reference_attention.py.
#pragma once
#include "kv_pages.cuh"

constexpr int PART_TOKENS = 64;
constexpr int ATTEND_THREADS = 128;
constexpr int ATTEND_WARPS = ATTEND_THREADS / WARP_SIZE;
constexpr int WARP_TOKENS = PART_TOKENS / ATTEND_WARPS;
constexpr int TOGETHER = 4;      // tokens, and heads, whose products share loads
constexpr int MOST_DIMS = 8;     // of a lane
constexpr int VALUE_BATCH = 16;  // tokens whose values a thread has under way; divides PART_TOKENS
constexpr int MOST_HEADS = 64;   // query heads of a key-value head

struct AttendRows {
    const float* queries;   // [rows, heads, head_dim] normed, rotated and scaled
    const int32_t* chosen;  // [rows, top_blocks]; not read for rows that attend to everything
    const float* q;         // [R, heads, 2, head_dim]: the second half of each head is the gate
    float* out;             // [R, heads * head_dim]
    float* sums;            // [rows, most_parts, heads, head_dim]
    float* tops;            // [rows, most_parts, heads]
    float* totals;          // [rows, most_parts, heads]
    int32_t first_row;      // of the pass: row 0 of everything but q and out
    int32_t most_parts;
};

// The tokens of one row.
struct RowTokens {
    const int32_t* chosen;
    const int32_t* table;
    int32_t blocks;      // complete ones
    int32_t num_chosen;  // of them
    int32_t ratio;
    int32_t count;       // tokens
    __device__ __forceinline__ int32_t position(int32_t t) const {
        const int32_t tail = t - num_chosen * ratio;
        if (tail >= 0) return blocks * ratio + tail;
        const int32_t block = t / ratio;
        return (num_chosen < blocks ? chosen[block] : block) * ratio + t % ratio;
    }
};

__device__ __forceinline__ RowTokens tokens_of(const AttentionSizes& sizes, const Pass& pass, const AttendRows& in,
                                               int32_t row) {
    const int32_t at = in.first_row + row, seen = pass.positions[at] + 1;
    RowTokens tokens;
    tokens.chosen = in.chosen + static_cast<int64_t>(row) * sizes.top_blocks;
    tokens.table = pass.page_table + static_cast<int64_t>(pass.row_seq[at]) * pass.max_pages;
    tokens.blocks = seen / sizes.ratio;
    tokens.num_chosen = min(tokens.blocks, sizes.top_blocks);
    tokens.ratio = sizes.ratio;
    tokens.count = tokens.num_chosen * sizes.ratio + seen % sizes.ratio;
    return tokens;
}

__device__ __forceinline__ int32_t padded_heads(int32_t heads) { return (heads + TOGETHER - 1) / TOGETHER * TOGETHER; }

// A block's shared memory.
struct AttendMemory {
    float* weights;  // [PART_TOKENS, padded heads], zero in heads that are none
    float* queries;  // [heads, head_dim]
    float* running;  // [heads, head_dim], attention_rows only
    int32_t* places;      // [PART_TOKENS]
    float* key_scales;    // [PART_TOKENS]
    float* value_scales;  // [PART_TOKENS]
    float* tops;          // [MOST_HEADS]
    float* totals;        // [MOST_HEADS]
};

// Four neighbouring numbers as they lie in memory, and as floats.
template <class T>
struct alignas(4 * sizeof(T)) Four {
    T v[4];
};

__device__ __forceinline__ float2 load_two(const float* from) { return *reinterpret_cast<const float2*>(from); }
__device__ __forceinline__ float2 load_two(const uint16_t* from) {
    const uint32_t bits = *reinterpret_cast<const uint32_t*>(from);
    return make_float2(half_to_float(static_cast<uint16_t>(bits & 0xffffu)),
                       half_to_float(static_cast<uint16_t>(bits >> 16)));
}
__device__ __forceinline__ float2 load_two(const int8_t* from) {
    const char2 x = *reinterpret_cast<const char2*>(from);
    return make_float2(x.x, x.y);
}

// A lane's dims of a vector of d numbers: V neighbours, 32 * V further V more, and so on; zero behind the end.
template <int V, class T>
struct Dims {
    T v[MOST_DIMS];
    __device__ __forceinline__ void load(const T* from, int32_t d) {
#pragma unroll
        for (int j = 0; j < MOST_DIMS / V; ++j) {
            const int32_t i = (j * WARP_SIZE + lane_index()) * V;
            if constexpr (V == 4) {
                Four<T> four = {};
                if (i < d) four = *reinterpret_cast<const Four<T>*>(from + i);
#pragma unroll
                for (int k = 0; k < 4; ++k) v[4 * j + k] = four.v[k];
            } else {
                v[j] = i < d ? from[i] : T(0);
            }
        }
    }
    __device__ __forceinline__ float operator[](int i) const { return Stored<T>::load(v[i]); }
};

// Lanes of the upper half of each 2 N keep the upper N sums of both, the others the lower ones.
template <int N>
__device__ __forceinline__ void halve_sums(float (&sums)[16]) {
    const bool is_upper = (lane_index() & N) != 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        const float keep = is_upper ? sums[i + N] : sums[i], send = is_upper ? sums[i] : sums[i + N];
        sums[i] = keep + __shfl_xor_sync(FULL_WARP, send, N);
    }
}

// Sums over the lanes of 16 numbers each: the one of index lane % 16. Each is added up in the same order.
__device__ __forceinline__ float sum_sixteen(float (&sums)[16]) {
    halve_sums<8>(sums);
    halve_sums<4>(sums);
    halve_sums<2>(sums);
    halve_sums<1>(sums);
    return sums[0] + __shfl_xor_sync(FULL_WARP, sums[0], 16);
}

// Scores of the part's `count` tokens for all heads, -infinity behind them.
template <class T, int V>
__device__ __forceinline__ void score_tokens(const KvPages& pages, int32_t d, int32_t width, int32_t kv_head,
                                             int32_t heads, int32_t count, const AttendMemory& m) {
    const int32_t lane = lane_index(), padded = padded_heads(heads);
    const int32_t begin = warp_index() * WARP_TOKENS;
    Dims<V, T> coming[TOGETHER];  // keys of the next tokens, on their way
    const auto fetch = [&](int32_t group) {
#pragma unroll
        for (int t = 0; t < TOGETHER; ++t) {
            const int32_t place = m.places[min(group + t, count - 1)];
            coming[t].load(at_place<T>(pages, pages.keys, pages.far_keys, place, width) + kv_head * d, d);
        }
    };
    fetch(begin);
    for (int32_t group = begin; group < begin + WARP_TOKENS; group += TOGETHER) {
        float keys[TOGETHER][MOST_DIMS];
#pragma unroll
        for (int t = 0; t < TOGETHER; ++t) {
#pragma unroll
            for (int i = 0; i < MOST_DIMS; ++i) keys[t][i] = coming[t][i];
        }
        if (group + TOGETHER < begin + WARP_TOKENS && group + TOGETHER < count) fetch(group + TOGETHER);
        for (int32_t first = 0; first < heads; first += TOGETHER) {
            float sums[TOGETHER * TOGETHER];
#pragma unroll
            for (int h = 0; h < TOGETHER; ++h) {
                Dims<V, float> query;
                query.load(m.queries + min(first + h, heads - 1) * d, d);
#pragma unroll
                for (int t = 0; t < TOGETHER; ++t) {
                    float sum = query[0] * keys[t][0];
#pragma unroll
                    for (int i = 1; i < MOST_DIMS; ++i) sum = fmaf(query[i], keys[t][i], sum);
                    sums[t * TOGETHER + h] = sum;
                }
            }
            const float score = sum_sixteen(sums);
            const int32_t token = group + lane % 16 / TOGETHER, head = first + lane % TOGETHER;
            if (lane < 16 && head < heads) {
                const float scale = sizeof(T) == 1 ? m.key_scales[token] : 1.0f;
                m.weights[token * padded + head] = token < count ? score * scale : -__int_as_float(0x7f800000);
            }
        }
    }
}

// Scores become weights exp(score - largest); the largest and the sum of the weights of each head.
template <class T>
__device__ __forceinline__ void weigh_tokens(int32_t heads, const AttendMemory& m) {
    const int32_t lane = lane_index(), padded = padded_heads(heads);
    for (int32_t head = warp_index(); head < heads; head += ATTEND_WARPS) {
        float* first = m.weights + lane * padded + head;
        float* second = first + WARP_SIZE * padded;
        const float top = warp_max(fmaxf(*first, *second));
        const float a = expf(*first - top), b = expf(*second - top);
        const float total = warp_sum(a + b);
        *first = sizeof(T) == 1 ? a * m.value_scales[lane] : a;
        *second = sizeof(T) == 1 ? b * m.value_scales[lane + WARP_SIZE] : b;
        if (lane == 0) {
            m.tops[head] = top;
            m.totals[head] = total;
        }
    }
}

// Weighted sums of values of P neighbouring dims for HEADS heads (a multiple of 4) from `head` on.
template <class T, int P, int HEADS>
__device__ __forceinline__ void sum_values(const KvPages& pages, int32_t width, int32_t offset, int32_t head,
                                           int32_t padded, int32_t count, const AttendMemory& m,
                                           float (&sums)[HEADS][P]) {
#pragma unroll
    for (int h = 0; h < HEADS; ++h) {
#pragma unroll
        for (int p = 0; p < P; ++p) sums[h][p] = 0.0f;
    }
    // Values are on their way together. Tokens behind the end have weight 0, and are the last one again.
    for (int32_t first = 0; first < count; first += VALUE_BATCH) {
        float values[VALUE_BATCH][P];
#pragma unroll
        for (int t = 0; t < VALUE_BATCH; ++t) {
            const int32_t place = m.places[min(first + t, count - 1)];
            const T* from = at_place<T>(pages, pages.values, pages.far_values, place, width) + offset;
            if constexpr (P == 2) {
                const float2 two = load_two(from);
                values[t][0] = two.x;
                values[t][1] = two.y;
            } else {
                values[t][0] = Stored<T>::load(*from);
            }
        }
#pragma unroll
        for (int t = 0; t < VALUE_BATCH; ++t) {
            const float* weights = m.weights + (first + t) * padded + head;
#pragma unroll
            for (int h = 0; h < HEADS; h += 4) {
                const float4 w = *reinterpret_cast<const float4*>(weights + h);
#pragma unroll
                for (int p = 0; p < P; ++p) {
                    sums[h][p] = fmaf(w.x, values[t][p], sums[h][p]);
                    sums[h + 1][p] = fmaf(w.y, values[t][p], sums[h + 1][p]);
                    sums[h + 2][p] = fmaf(w.z, values[t][p], sums[h + 2][p]);
                    sums[h + 3][p] = fmaf(w.w, values[t][p], sums[h + 3][p]);
                }
            }
        }
    }
}

// Calls `use(head, dim, sum)` for this thread's dims and all heads.
template <class T, int V, class Use>
__device__ __forceinline__ void each_sum(const KvPages& pages, int32_t d, int32_t width, int32_t kv_head,
                                         int32_t heads, int32_t count, const AttendMemory& m, Use use) {
    constexpr int P = V == 4 ? 2 : 1;
    const int32_t padded = padded_heads(heads);
    for (int32_t dim = threadIdx.x * P; dim < d; dim += ATTEND_THREADS * P) {
        const int32_t offset = kv_head * d + dim;
        int32_t head = 0;
        for (; head + 12 <= heads; head += 12) {
            float sums[12][P];
            sum_values<T, P, 12>(pages, width, offset, head, padded, count, m, sums);
#pragma unroll
            for (int h = 0; h < 12; ++h) {
#pragma unroll
                for (int p = 0; p < P; ++p) use(head + h, dim + p, sums[h][p]);
            }
        }
        for (; head < heads; head += 4) {
            float sums[4][P];
            sum_values<T, P, 4>(pages, width, offset, head, padded, count, m, sums);
#pragma unroll
            for (int h = 0; h < 4; ++h) {
#pragma unroll
                for (int p = 0; p < P; ++p) {
                    if (head + h < heads) use(head + h, dim + p, sums[h][p]);
                }
            }
        }
    }
}

// Places, scores and weights of one part: after it the weights, tops and totals are there for all threads.
template <class T, int V>
__device__ __forceinline__ void weigh_part(const KvPages& pages, const AttentionSizes& sizes, const RowTokens& tokens,
                                           int32_t kv_head, int32_t start, int32_t count, const AttendMemory& m) {
    const int32_t heads = sizes.heads / sizes.kv_heads, d = sizes.head_dim, i = threadIdx.x;
    if (i < count) {
        const int32_t place = token_place(pages, tokens.table, tokens.position(start + i));
        m.places[i] = place;
        if (sizeof(T) == 1) {
            m.key_scales[i] = scale_at(pages, pages.key_scales, pages.far_key_scales, place, sizes.kv_heads)[kv_head];
            m.value_scales[i] =
                scale_at(pages, pages.value_scales, pages.far_value_scales, place, sizes.kv_heads)[kv_head];
        }
    } else if (i < PART_TOKENS) {
        m.key_scales[i] = m.value_scales[i] = 0.0f;
    }
    __syncthreads();
    score_tokens<T, V>(pages, d, sizes.kv_heads * d, kv_head, heads, count, m);
    __syncthreads();
    weigh_tokens<T>(heads, m);
    __syncthreads();
}

// Divides shared memory, brings the queries, clears the weights of heads that are none.
__device__ __forceinline__ AttendMemory attend_memory(float* dynamic, int32_t* places, float* scales, float* stats,
                                                      const AttentionSizes& sizes, const float* queries) {
    const int32_t heads = sizes.heads / sizes.kv_heads, padded = padded_heads(heads);
    AttendMemory m;
    m.weights = dynamic;
    m.queries = dynamic + PART_TOKENS * padded;
    m.running = m.queries + heads * sizes.head_dim;
    m.places = places;
    m.key_scales = scales;
    m.value_scales = scales + PART_TOKENS;
    m.tops = stats;
    m.totals = stats + MOST_HEADS;
    for (int32_t i = threadIdx.x; i < heads * sizes.head_dim; i += ATTEND_THREADS) m.queries[i] = queries[i];
    for (int32_t i = threadIdx.x; i < PART_TOKENS * padded; i += ATTEND_THREADS) m.weights[i] = 0.0f;
    return m;  // the next barrier comes before the first read
}

#define ATTEND_SHARED                               \
    DYNAMIC_SHARED(float, dynamic);                 \
    __shared__ int32_t shared_places[PART_TOKENS];  \
    __shared__ float shared_scales[2 * PART_TOKENS]; \
    __shared__ float shared_stats[2 * MOST_HEADS]

// Grid (most_parts, kv_heads, rows), block 128; dynamic shared memory as attend_memory divides it, without `running`.
template <class T, int V>
__device__ __forceinline__ void attention_parts(const KvPages& pages, const AttentionSizes& sizes, const Pass& pass,
                                                const AttendRows& in) {
    ATTEND_SHARED;
    const int32_t part = blockIdx.x, kv_head = blockIdx.y, row = blockIdx.z;
    const int32_t heads = sizes.heads / sizes.kv_heads, d = sizes.head_dim, start = part * PART_TOKENS;
    const RowTokens tokens = tokens_of(sizes, pass, in, row);
    if (start >= tokens.count) return;
    const int32_t count = min(PART_TOKENS, tokens.count - start);
    const int64_t first_head = static_cast<int64_t>(row) * sizes.heads + kv_head * heads;
    const AttendMemory m = attend_memory(dynamic, shared_places, shared_scales, shared_stats, sizes,
                                         in.queries + first_head * d);
    weigh_part<T, V>(pages, sizes, tokens, kv_head, start, count, m);
    const int64_t at = (static_cast<int64_t>(row) * in.most_parts + part) * sizes.heads + kv_head * heads;
    if (static_cast<int32_t>(threadIdx.x) < heads) {
        in.tops[at + threadIdx.x] = m.tops[threadIdx.x];
        in.totals[at + threadIdx.x] = m.totals[threadIdx.x];
    }
    float* sums = in.sums + at * d;
    each_sum<T, V>(pages, d, sizes.kv_heads * d, kv_head, heads, count, m,
                   [sums, d](int32_t head, int32_t dim, float sum) { sums[head * d + dim] = sum; });
}

// The factors of what is joined so far, and of a further part.
struct Factors {
    float before;
    float part;
};

__device__ __forceinline__ Factors factors_of(float top_before, float top_part) {
    const float top = fmaxf(top_before, top_part);
    return {expf(top_before - top), expf(top_part - top)};
}

__device__ __forceinline__ float joined(float before, float part, Factors factors) {
    return fmaf(before, factors.before, part * factors.part);
}

__device__ __forceinline__ float gated(float sum, float total, float gate) { return sum / total * sigmoid(gate); }

// Grid (kv_heads, rows), block 128; dynamic shared memory as attend_memory divides it.
template <class T, int V>
__device__ __forceinline__ void attention_rows(const KvPages& pages, const AttentionSizes& sizes, const Pass& pass,
                                               const AttendRows& in) {
    ATTEND_SHARED;
    __shared__ float top_before[MOST_HEADS], total_before[MOST_HEADS], befores[MOST_HEADS], factors[MOST_HEADS];
    const int32_t kv_head = blockIdx.x, row = blockIdx.y, i = threadIdx.x;
    const int32_t heads = sizes.heads / sizes.kv_heads, d = sizes.head_dim;
    const RowTokens tokens = tokens_of(sizes, pass, in, row);
    const int64_t first_head = static_cast<int64_t>(row) * sizes.heads + kv_head * heads;
    const AttendMemory m = attend_memory(dynamic, shared_places, shared_scales, shared_stats, sizes,
                                         in.queries + first_head * d);
    for (int32_t j = i; j < heads * d; j += ATTEND_THREADS) m.running[j] = 0.0f;
    if (i < MOST_HEADS) {
        top_before[i] = -__int_as_float(0x7f800000);
        total_before[i] = 0.0f;
    }
    float* running = m.running;
    for (int32_t start = 0; start < tokens.count; start += PART_TOKENS) {
        const int32_t count = min(PART_TOKENS, tokens.count - start);
        __syncthreads();  // everybody is done with the part before
        weigh_part<T, V>(pages, sizes, tokens, kv_head, start, count, m);
        if (i < heads) {
            const Factors f = factors_of(top_before[i], m.tops[i]);
            befores[i] = f.before;
            factors[i] = f.part;
            top_before[i] = fmaxf(top_before[i], m.tops[i]);
            total_before[i] = joined(total_before[i], m.totals[i], f);
        }
        __syncthreads();
        each_sum<T, V>(pages, d, sizes.kv_heads * d, kv_head, heads, count, m,
                       [running, d](int32_t head, int32_t dim, float sum) {
                           const Factors f = {befores[head], factors[head]};
                           running[head * d + dim] = joined(running[head * d + dim], sum, f);
                       });
    }
    __syncthreads();
    const int64_t out_head = static_cast<int64_t>(in.first_row + row) * sizes.heads + kv_head * heads;
    for (int32_t j = i; j < heads * d; j += ATTEND_THREADS) {
        const int32_t head = j / d, dim = j % d;
        const float gate = in.q[((out_head + head) * 2 + 1) * d + dim];
        in.out[(out_head + head) * d + dim] = gated(running[j], total_before[head], gate);
    }
}

#define ATTENTION_KERNELS(type, name, V)                                                                         \
    KERNEL_BOUNDED(attention_parts_##name, ATTEND_THREADS)                                                      \
    (KvPages pages, AttentionSizes sizes, Pass pass, AttendRows in) {                                           \
        attention_parts<type, V>(pages, sizes, pass, in);                                                       \
    }                                                                                                            \
    KERNEL_BOUNDED(attention_rows_##name, ATTEND_THREADS)                                                       \
    (KvPages pages, AttentionSizes sizes, Pass pass, AttendRows in) {                                           \
        attention_rows<type, V>(pages, sizes, pass, in);                                                        \
    }
