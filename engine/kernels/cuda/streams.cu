// Residual streams and norms (spec 4.1-4.3): filling, adding, RMS norm, and the gated residual mix around its
// matrix products.
//
// A mix is: hc_norm (which first adds what the layer before left, computes the injection where its matrix is
// float32), down and other products, hc_low, up, hc_output. Streams are [R, hc, H] float32; every kernel
// takes all rows of a pass, one row of blocks for each. Plain twins: the methods of the same names, and `hc_mix`,
// in engine/ops/reference.py.
#include "maths.cuh"

// streams[r, s] = x[r] for every stream. Grid (columns / 256, R).
KERNEL(fill_streams)(const float* x, float* streams, int32_t num_streams, int32_t hidden) {
    const int32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= hidden) return;
    const int64_t row = blockIdx.y;
    const float value = x[row * hidden + i];
    for (int32_t s = 0; s < num_streams; ++s) streams[(row * num_streams + s) * hidden + i] = value;
}
EXPORT(fill_streams)

// streams[r, s] += x[r] for every stream. Grid (columns / 256, R).
KERNEL(add_to_streams)(const float* x, float* streams, int32_t num_streams, int32_t hidden) {
    const int32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= hidden) return;
    const int64_t row = blockIdx.y;
    const float value = x[row * hidden + i];
    for (int32_t s = 0; s < num_streams; ++s) streams[(row * num_streams + s) * hidden + i] += value;
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

// streams[r, s] += inject[r, s] * (y[r] + late[r]); late may be null. Grid (columns / 256, R).
KERNEL(hc_combine)(float* streams, const float* inject, const float* y, const float* late, int32_t num_streams,
                   int32_t hidden) {
    const int32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= hidden) return;
    const int64_t row = blockIdx.y;
    for (int32_t s = 0; s < num_streams; ++s) {
        const int64_t stream = row * num_streams + s;
        float* value = streams + stream * hidden + i;
        *value = combined(*value, inject[stream], y, late, row * hidden + i);
    }
}
EXPORT(hc_combine)

constexpr int MOST_INJECTED = 8;  // streams whose injection hc_norm computes itself

// The begin of a mix. Grid (R), block num_streams * (whole warps for each stream), at most 1024 threads.
struct HcNorm {
    float* streams;            // [R, hc, H]; changed where y is given
    const float* last_inject;  // [R, hc] of the part before, or null with y
    const float* y;            // [R, H] result of the part before that was not added yet, or null
    const float* late;         // [R, H] added to y first, or null
    const float* norm;         // [hc, H]
    const float* inject_rows;  // [hc, hc * H] float32, or null: then `inject` stays as it is; hc <= 8
    float* normed;             // [R, hc, H]
    float* inject;             // [R, hc]: 2 sigmoid(inject_rows @ normed / hc)
    int32_t num_streams;
    int32_t hidden;
    float eps;
};

KERNEL_BOUNDED(hc_norm, 1024)(HcNorm p) {
    __shared__ float memory[WARP_SIZE * MOST_INJECTED];
    const int32_t hidden = p.hidden, hc = p.num_streams, width = hc * hidden;
    const int64_t row = blockIdx.x;
    const int32_t threads = blockDim.x / hc, stream = threadIdx.x / threads, first = threadIdx.x % threads;
    float* values = p.streams + row * width + stream * hidden;
    const float last = p.y != nullptr ? p.last_inject[row * hc + stream] : 0.0f;

    float squares = 0.0f;
    for (int32_t i = first; i < hidden; i += threads) {
        float value = values[i];
        if (p.y != nullptr) {
            value = combined(value, last, p.y, p.late, row * hidden + i);
            values[i] = value;
        }
        squares = fmaf(value, value, squares);
    }
    squares = warp_sum(squares);
    if (lane_index() == 0) memory[warp_index()] = squares;
    __syncthreads();
    const int32_t warps = threads / WARP_SIZE;
    float total = 0.0f;
    for (int32_t w = stream * warps; w < (stream + 1) * warps; ++w) total += memory[w];
    const float scale = inverse_rms(total, hidden, p.eps);

    float products[MOST_INJECTED];
#pragma unroll
    for (int j = 0; j < MOST_INJECTED; ++j) products[j] = 0.0f;
    for (int32_t i = first; i < hidden; i += threads) {
        const int32_t column = stream * hidden + i;
        const float value = values[i] * scale * p.norm[column];
        p.normed[row * width + column] = value;
        if (p.inject_rows == nullptr) continue;
#pragma unroll
        for (int j = 0; j < MOST_INJECTED; ++j) {
            if (j < hc) products[j] = fmaf(p.inject_rows[static_cast<int64_t>(j) * width + column], value, products[j]);
        }
    }
    if (p.inject_rows == nullptr) return;
    block_sums<MOST_INJECTED>(products, memory);
#pragma unroll
    for (int j = 0; j < MOST_INJECTED; ++j) {
        if (j < hc && threadIdx.x == 0) {
            p.inject[row * hc + j] = 2.0f * sigmoid(products[j] / static_cast<float>(hc));
        }
    }
}
EXPORT(hc_norm)

// low = silu(low / hc) in place, over all R * rank values.
KERNEL(hc_low)(float* low, int32_t count, int32_t num_streams) {
    const int32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) low[i] = silu(low[i] / static_cast<float>(num_streams));
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
