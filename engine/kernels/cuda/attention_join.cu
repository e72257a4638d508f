// Puts the parts of rows together that attention_parts_* computed (attention.cuh).
#include "attention.cuh"

constexpr int JOIN_BATCH = 12;       // parts whose sums are on their way together
constexpr int JOINED_AT_ONCE = 128;  // parts whose factors are made together

// Joins a row's parts. Grid (heads, rows), block 128.
KERNEL_BOUNDED(attention_join, ATTEND_THREADS)(AttentionSizes sizes, Pass pass, AttendRows in) {
    __shared__ float tops[JOINED_AT_ONCE], befores[JOINED_AT_ONCE], factors[JOINED_AT_ONCE], part_totals[JOINED_AT_ONCE];
    const int32_t head = blockIdx.x, row = blockIdx.y, d = sizes.head_dim, i = threadIdx.x;
    const RowTokens tokens = tokens_of(sizes, pass, in, row);
    const int32_t parts = (tokens.count + PART_TOKENS - 1) / PART_TOKENS;
    float running[2] = {0.0f, 0.0f};  // head_dim <= 256
    float total = 0.0f, top = -__int_as_float(0x7f800000);
    for (int32_t first = 0; first < parts; first += JOINED_AT_ONCE) {
        const int32_t count = min(JOINED_AT_ONCE, parts - first);
        const int64_t at = (static_cast<int64_t>(row) * in.most_parts + first) * sizes.heads + head;
        __syncthreads();
        if (i < count) {
            tops[i] = in.tops[at + static_cast<int64_t>(i) * sizes.heads];
            part_totals[i] = in.totals[at + static_cast<int64_t>(i) * sizes.heads];
        }
        __syncthreads();
        if (i < count) {
            float before = top;
            for (int32_t p = 0; p < i; ++p) before = fmaxf(before, tops[p]);
            const Factors f = factors_of(before, tops[i]);
            befores[i] = f.before;
            factors[i] = f.part;
        }
        __syncthreads();
        for (int32_t p = 0; p < count; ++p) {
            top = fmaxf(top, tops[p]);
            total = joined(total, part_totals[p], {befores[p], factors[p]});
        }
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            const int32_t dim = i + j * ATTEND_THREADS;
            if (dim >= d) break;
            for (int32_t start = 0; start < count; start += JOIN_BATCH) {
                float sums[JOIN_BATCH];
#pragma unroll
                for (int p = 0; p < JOIN_BATCH; ++p) {
                    const int64_t part = at + static_cast<int64_t>(min(start + p, count - 1)) * sizes.heads;
                    sums[p] = in.sums[part * d + dim];
                }
#pragma unroll
                for (int p = 0; p < JOIN_BATCH; ++p) {
                    if (start + p >= count) break;
                    running[j] = joined(running[j], sums[p], {befores[start + p], factors[start + p]});
                }
            }
        }
    }
    const int64_t out_head = static_cast<int64_t>(in.first_row + row) * sizes.heads + head;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
        const int32_t dim = i + j * ATTEND_THREADS;
        if (dim < d) in.out[out_head * d + dim] = gated(running[j], total, in.q[(out_head * 2 + 1) * d + dim]);
    }
}
EXPORT(attention_join)
