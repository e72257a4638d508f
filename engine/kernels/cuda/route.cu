// The router's choice: the `used` largest logits of each row in descending order, ties to the lower number, with their
// softmax among themselves (= softmax over all, then renormalised). Twin: `route` of engine/ops/reference.py.
//
// logits [num_rows, count] -> ids, weights [num_rows, used]; used <= count. A warp takes a row; dynamic shared memory:
// `count` floats for each warp. A row with a NaN gets weights that are NaN: damage shall not look like numbers.
#include "stratum.cuh"

KERNEL(route)
(const float* logits, int32_t* ids, float* weights, int32_t num_rows, int32_t count, int32_t used) {
    DYNAMIC_SHARED(float, all);
    const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
    const int64_t row = static_cast<int64_t>(blockIdx.x) * (blockDim.x / 32) + warp;
    if (row >= num_rows) return;
    float* mine = all + static_cast<int64_t>(warp) * count;
    const float taken = __uint_as_float(0x7fc00000u), lowest = __uint_as_float(0xff800000u);
    bool bad = false;
    for (int32_t i = lane; i < count; i += 32) {
        const float logit = logits[row * count + i];
        bad = bad || logit != logit;
        mine[i] = logit != logit ? lowest : logit;
    }
    bad = __any_sync(FULL_WARP, bad) != 0;
    // Each lane's best of its own values; only the lane whose best was taken looks again. What is taken is NaN, and so
    // neither larger nor equal.
    float best;
    int32_t at;
    const auto look = [&]() {
        best = lowest, at = count;
#pragma unroll 4
        for (int32_t i = lane; i < count; i += 32) {
            if (mine[i] > best || (mine[i] == best && i < at)) best = mine[i], at = i;
        }
    };
    look();
    float largest = 0.0f, total = 0.0f;
    for (int32_t s = 0; s < used; ++s) {
        float top = best;
        int32_t top_at = at;
        for (int step = 16; step > 0; step /= 2) {
            const float other = __shfl_xor_sync(FULL_WARP, top, step);
            const int32_t other_at = __shfl_xor_sync(FULL_WARP, top_at, step);
            if (other > top || (other == top && other_at < top_at)) top = other, top_at = other_at;
        }
        if (s == 0) largest = top;
        // Equal to the largest: 1, also where both are infinite.
        const float weight = top == largest ? 1.0f : expf(top - largest);
        total += weight;
        if (lane == top_at % 32) {
            mine[top_at] = taken;
            look();
        }
        if (lane == 0) {
            ids[row * used + s] = top_at;
            weights[row * used + s] = weight;
        }
    }
    __syncwarp();
    for (int32_t s = lane; s < used; s += 32) {
        const float weight = weights[row * used + s] / total;
        weights[row * used + s] = bad ? taken : weight;
    }
}
EXPORT(route)
