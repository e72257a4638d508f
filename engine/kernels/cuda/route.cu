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
    float largest = 0.0f, total = 0.0f;
    for (int32_t s = 0; s < used; ++s) {
        float best = lowest;
        int32_t at = count;
        for (int32_t i = lane; i < count; i += 32) {  // what is taken is NaN, and so neither larger nor equal
            if (mine[i] > best || (mine[i] == best && i < at)) best = mine[i], at = i;
        }
        for (int step = 16; step > 0; step /= 2) {
            const float other = __shfl_xor_sync(FULL_WARP, best, step);
            const int32_t other_at = __shfl_xor_sync(FULL_WARP, at, step);
            if (other > best || (other == best && other_at < at)) best = other, at = other_at;
        }
        if (s == 0) largest = best;
        // Equal to the largest: 1, also where both are infinite.
        const float weight = best == largest ? 1.0f : expf(best - largest);
        total += weight;
        if (lane == at % 32) mine[at] = taken;
        if (lane == 0) {
            ids[row * used + s] = at;
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
