// The injection of a mix: 2 sigmoid(inject_rows @ normed / hc), from the sums that hc_norm left for each stream.
#pragma once
#include "maths.cuh"

constexpr int MOST_INJECTED = 8;  // streams for which hc_norm sums the products itself

// Number i of inject [R, hc]: the streams' parts in order.
__device__ __forceinline__ float injection(const float* partials, int32_t i, int32_t num_streams) {
    const int32_t row = i / num_streams, target = i % num_streams;
    const float* parts = partials + static_cast<int64_t>(row) * num_streams * num_streams;
    float total = 0.0f;
    for (int32_t s = 0; s < num_streams; ++s) total += parts[s * num_streams + target];
    return 2.0f * sigmoid(total / static_cast<float>(num_streams));
}
