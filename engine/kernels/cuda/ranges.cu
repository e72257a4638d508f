// Copies and zeroing of many stretches of memory in one launch: pages, states of slots, rows.
#include "stratum.cuh"

// Mirrored in engine/ops/cuda_ranges.py.
struct Range {
    uint8_t* target;
    const uint8_t* source;  // null: zeros
    int64_t num_bytes;
};

// Grid (any, ranges), block 256. `ranges` lies in the card's memory; targets overlap nothing else.
KERNEL(copy_ranges)(const Range* ranges) {
    const Range range = ranges[blockIdx.y];
    const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
    const uint64_t mixed = reinterpret_cast<uint64_t>(range.target) | reinterpret_cast<uint64_t>(range.source) |
                           static_cast<uint64_t>(range.num_bytes);
    if (mixed % 16 == 0) {
        const uint4* source = reinterpret_cast<const uint4*>(range.source);
        uint4* target = reinterpret_cast<uint4*>(range.target);
        for (int64_t i = first; i < range.num_bytes / 16; i += step) {
            target[i] = source != nullptr ? source[i] : make_uint4(0, 0, 0, 0);
        }
        return;
    }
    for (int64_t i = first; i < range.num_bytes; i += step) {
        range.target[i] = range.source != nullptr ? range.source[i] : static_cast<uint8_t>(0);
    }
}
EXPORT(copy_ranges)

// out[i] = source[rows[i]]. Grid (any, rows), block 256.
KERNEL(take_rows)(const float* source, const int32_t* rows, float* out, int64_t width) {
    const float* from = source + rows[blockIdx.y] * width;
    float* to = out + blockIdx.y * width;
    const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < width; i += step) to[i] = from[i];
}
EXPORT(take_rows)
