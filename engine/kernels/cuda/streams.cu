// Residual streams and norms (spec 4.1-4.3): filling, adding, RMS norm, and the gated residual mix around its
// matrix products.
//
// A mix is: hc_norm, which first adds what the layer before left, writes 8-bit records for the products and sums
// for the injection; the down product (products.cuh); then hc_up of hc_up.cuh or, where that has no variant for the
// matrix or there are many rows, hc_low, the up product and hc_output, with the same bits. Streams are [R, hc, H]
// float32. Plain twins: the methods of the same names, and `hc_mix`, in engine/ops/reference.py.
#include "activations.cuh"
#include "hc_inject.cuh"
#include "maths.cuh"

// streams[r, s] = x[r] for every stream. Grid (columns / 256, R, hc).
KERNEL(fill_streams)(const float* x, float* streams, int32_t num_streams, int32_t hidden) {
    const int32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= hidden) return;
    const int64_t row = blockIdx.y;
    streams[(row * num_streams + blockIdx.z) * hidden + i] = x[row * hidden + i];
}
EXPORT(fill_streams)

// streams[r, s] += x[r] for every stream. Grid (columns / 256, R, hc).
KERNEL(add_to_streams)(const float* x, float* streams, int32_t num_streams, int32_t hidden) {
    const int32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= hidden) return;
    const int64_t row = blockIdx.y;
    streams[(row * num_streams + blockIdx.z) * hidden + i] += x[row * hidden + i];
}
EXPORT(add_to_streams)

// out = x / rms(x) * weight over rows of n values. Grid (R), the block's size depends on n alone. out may be x.
KERNEL(rms_norm)(const float* x, const float* weight, float* out, int32_t n, float eps) {
    __shared__ float memory[WARP_SIZE];
    const int64_t start = static_cast<int64_t>(blockIdx.x) * n;
    float squares = 0.0f;
    for (int32_t i = threadIdx.x; i < n; i += blockDim.x) {
        const float value = x[start + i];
        squares = fmaf(value, value, squares);
    }
    const float scale = inverse_rms(block_sum(squares, memory), n, eps);
    for (int32_t i = threadIdx.x; i < n; i += blockDim.x) out[start + i] = x[start + i] * scale * weight[i];
}
EXPORT(rms_norm)

// What a layer's part adds to a stream: `inject * (y + late)`, where `late` is null or came from another processor.
__device__ __forceinline__ float combined(float stream, float inject, const float* y, const float* late, int64_t at) {
    const float value = late != nullptr ? y[at] + late[at] : y[at];
    return fmaf(inject, value, stream);
}

// streams[r, s] += inject[r, s] * (y[r] + late[r]); late may be null. Grid (columns / 256, R, hc).
KERNEL(hc_combine)(float* streams, const float* inject, const float* y, const float* late, int32_t num_streams,
                   int32_t hidden) {
    const int32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= hidden) return;
    const int64_t row = blockIdx.y, stream = row * num_streams + blockIdx.z;
    float* value = streams + stream * hidden + i;
    *value = combined(*value, inject[stream], y, late, row * hidden + i);
}
EXPORT(hc_combine)

constexpr int NORM_BATCH = 5;  // values that a thread of hc_norm has under way

// The begin of a mix. Grid (R, hc), block a size that depends on `hidden` alone.
struct HcNorm {
    float* streams;            // [R, hc, H]; changed where y is given
    const float* last_inject;  // [R, hc] of the part before, or null with y
    const float* y;            // [R, H] result of the part before that was not added yet, or null
    const float* late;         // [R, H] added to y first, or null
    const float* norm;         // [hc, H]
    const float* inject_rows;  // [hc, hc * H] float32, or null; hc <= MOST_INJECTED
    float* normed;             // [R, hc, H]
    uint8_t* records;          // of normed as rows of hc * H (activations.cuh), or null; H a multiple of 64
    float* partials;           // [R, hc, hc]: for each stream its part of inject_rows @ normed, with inject_rows
    int32_t num_streams;
    int32_t hidden;
    float eps;
};

KERNEL_BOUNDED(hc_norm, 256)(HcNorm p) {
    __shared__ float memory[WARP_SIZE * MOST_INJECTED];
    const int32_t hidden = p.hidden, hc = p.num_streams, width = hc * hidden, stream = blockIdx.y;
    const int64_t row = blockIdx.x;
    float* values = p.streams + row * width + static_cast<int64_t>(stream) * hidden;
    const float last = p.y != nullptr ? p.last_inject[row * hc + stream] : 0.0f;

    // Loads of a batch come before its stores, which the compiler must take for aliases.
    float squares = 0.0f;
    for (int32_t start = threadIdx.x; start < hidden; start += NORM_BATCH * blockDim.x) {
        float batch[NORM_BATCH];
#pragma unroll
        for (int j = 0; j < NORM_BATCH; ++j) {
            const int32_t i = start + j * static_cast<int32_t>(blockDim.x);
            batch[j] = 0.0f;
            if (i >= hidden) continue;
            batch[j] = p.y == nullptr ? values[i] : combined(values[i], last, p.y, p.late, row * hidden + i);
        }
#pragma unroll
        for (int j = 0; j < NORM_BATCH; ++j) {
            const int32_t i = start + j * static_cast<int32_t>(blockDim.x);
            if (i < hidden && p.y != nullptr) values[i] = batch[j];
            squares = fmaf(batch[j], batch[j], squares);
        }
    }
    const float scale = inverse_rms(block_sum(squares, memory), hidden, p.eps);

    float products[MOST_INJECTED];
#pragma unroll
    for (int j = 0; j < MOST_INJECTED; ++j) products[j] = 0.0f;
    uint8_t* record = p.records != nullptr ? p.records + row * record_bytes(width) : nullptr;
    for (int32_t start = threadIdx.x; start < hidden; start += NORM_BATCH * blockDim.x) {
        float batch[NORM_BATCH];
#pragma unroll
        for (int j = 0; j < NORM_BATCH; ++j) {
            const int32_t i = start + j * static_cast<int32_t>(blockDim.x);
            batch[j] = 0.0f;
            if (i >= hidden) continue;
            const int32_t column = stream * hidden + i;
            batch[j] = values[i] * scale * p.norm[column];
            if (p.inject_rows == nullptr) continue;
#pragma unroll
            for (int t = 0; t < MOST_INJECTED; ++t) {
                if (t < hc) {
                    products[t] = fmaf(p.inject_rows[static_cast<int64_t>(t) * width + column], batch[j], products[t]);
                }
            }
        }
#pragma unroll
        for (int j = 0; j < NORM_BATCH; ++j) {
            const int32_t i = start + j * static_cast<int32_t>(blockDim.x);
            if (i >= hidden) break;
            const int32_t column = stream * hidden + i;
            p.normed[row * width + column] = batch[j];
            // H is a multiple of 64 then: a warp holds one whole block.
            if (record != nullptr) quantise_block(batch[j], lane_index(), column / 32, width, record);
        }
    }
    if (p.inject_rows == nullptr) return;
    block_sums<MOST_INJECTED>(products, memory);
#pragma unroll
    for (int j = 0; j < MOST_INJECTED; ++j) {
        if (j < hc && threadIdx.x == 0) p.partials[(row * hc + stream) * hc + j] = products[j];
    }
}
EXPORT(hc_norm)

// low = silu(low / hc) in place, over all R * rank values; where inject is not null, inject [R, hc] of the partials.
KERNEL(hc_low)(float* low, int32_t count, int32_t num_streams, const float* partials, float* inject, int32_t num_rows) {
    const int32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) low[i] = silu(low[i] / static_cast<float>(num_streams));
    if (inject != nullptr && i < num_rows * num_streams) inject[i] = injection(partials, i, num_streams);
}
EXPORT(hc_low)

// inject = 2 sigmoid(raw / hc) over all R * hc values; raw = the injection's product.
KERNEL(hc_inject)(const float* raw, float* inject, int32_t count, int32_t num_streams) {
    const int32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) inject[i] = 2.0f * sigmoid(raw[i] / static_cast<float>(num_streams));
}
EXPORT(hc_inject)

// x[r] = sum over streams of sigmoid(gates) * normed, / hc. gates, normed [R, hc, H]. Grid (columns / 256, R).
KERNEL(hc_output)(const float* gates, const float* normed, float* x, int32_t num_streams, int32_t hidden) {
    const int32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= hidden) return;
    const int64_t row = blockIdx.y;
    float total = 0.0f;
    for (int32_t s = 0; s < num_streams; ++s) {
        const int64_t at = (row * num_streams + s) * hidden + i;
        total = fmaf(sigmoid(gates[at]), normed[at], total);
    }
    x[row * hidden + i] = total / static_cast<float>(num_streams);
}
EXPORT(hc_output)
