// The n-gram layer (spec 4.7): gating the n-gram value into the streams, and its dilated convolution.
//
// ple_gate makes the gated values and the scales of the convolution's inputs, ple_add makes those, convolves, adds and
// moves the history. D = hc * H. Plain twins: `ple_mix` and `ple_commit` of engine/ops/reference.py.
#include "maths.cuh"
#include "pass.cuh"

// The pool of one layer. Mirrored, like PleSizes, in engine/ops/cuda_structs.py.
struct PleState {
    float* conv;    // [slots, 2, length, D], length = (taps - 1) * dilation
    float* window;  // [slots, W, D]
};

struct PleSizes {
    int32_t num_streams;
    int32_t hidden;
    int32_t taps;
    int32_t dilation;
    int32_t window;  // W
    float eps;
    __device__ int32_t width() const { return num_streams * hidden; }    // D
    __device__ int32_t length() const { return (taps - 1) * dilation; }  // of the history
};

// Grid (R, hc). key [R, D] becomes the gated value; scales [R, hc] = 1 / rms of it.
KERNEL(ple_gate)(PleSizes sizes, const float* streams, const float* value, const float* norm_key,
                 const float* norm_query, float* key, float* scales) {
    __shared__ float memory[4 * WARP_SIZE];
    const int32_t hidden = sizes.hidden, stream = blockIdx.y;
    const int64_t row = blockIdx.x, at = row * sizes.width() + static_cast<int64_t>(stream) * hidden;
    const int64_t weight = static_cast<int64_t>(stream) * hidden, from = row * hidden;
    float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};  // squares of key, of query, of value; product of the weighted two
    for (int32_t i = threadIdx.x; i < hidden; i += blockDim.x) {
        const float k = key[at + i], q = streams[at + i], v = value[from + i];
        sums[0] = fmaf(k, k, sums[0]);
        sums[1] = fmaf(q, q, sums[1]);
        sums[2] = fmaf(v, v, sums[2]);
        sums[3] = fmaf(k * norm_key[weight + i], q * norm_query[weight + i], sums[3]);
    }
    block_sums<4>(sums, memory);
    const float scale_key = inverse_rms(sums[0], hidden, sizes.eps);
    const float scale_query = inverse_rms(sums[1], hidden, sizes.eps);
    const float score = sums[3] * scale_key * scale_query / sqrtf(static_cast<float>(hidden));
    const float strength = sqrtf(fmaxf(fabsf(score), 1e-6f));
    // sign(0) = 0, and what is no number stays none
    const float gate = sigmoid(score > 0.0f ? strength : score < 0.0f ? -strength : 0.0f * score);
    if (threadIdx.x == 0) {
        scales[row * sizes.num_streams + stream] = inverse_rms(sums[2] * gate * gate, hidden, sizes.eps);
    }
    for (int32_t i = threadIdx.x; i < hidden; i += blockDim.x) key[at + i] = gate * value[from + i];
}
EXPORT(ple_gate)

// streams += gated + silu(convolution of gated * scales * norm_conv); the history's other half and the window.
// conv_weights [D, taps]. Grid (D / 256, R).
KERNEL(ple_add)(PleState pool, PleSizes sizes, Pass pass, const float* conv_weights, const float* norm_conv,
                const float* gated, const float* scales, float* streams) {
    const int32_t channel = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    const int32_t width = sizes.width(), length = sizes.length();
    if (channel >= width) return;
    const RowPlace place = row_place(pass, row);
    const float* history = pool.conv + (place.slot * 2 + place.half) * static_cast<int64_t>(length) * width;
    float* moved = pool.conv + (place.slot * 2 + 1 - place.half) * static_cast<int64_t>(length) * width;
    const int64_t at = static_cast<int64_t>(row) * width + channel;
    const int32_t stream = channel / sizes.hidden;
    const float norm = norm_conv[channel];
    const auto input_of = [=](int32_t back) {  // of the row `back` rows before this one, in this pass
        const float scale = scales[static_cast<int64_t>(row - back) * sizes.num_streams + stream];
        return gated[at - static_cast<int64_t>(back) * width] * scale * norm;
    };
    float total = 0.0f;
    for (int32_t j = 0; j < sizes.taps; ++j) {
        const int32_t back = (sizes.taps - 1 - j) * sizes.dilation;
        const float input = back <= place.at ? input_of(back)
                                             : history_value(history, length, width, back - place.at, channel);
        total = fmaf(conv_weights[channel * sizes.taps + j], input, total);
    }
    streams[at] += gated[at] + silu(total);
    const float own = input_of(0);
    move_history(history, moved, length, width, place, channel, own);
    if (place.count <= sizes.window) {
        pool.window[(static_cast<int64_t>(place.slot) * sizes.window + place.at) * width + channel] = own;
    }
}
EXPORT(ple_add)

// The history after only the first `tokens` rows of a slot's last pass: slot, half, tokens for each commit, in the
// card's memory; commits of no tokens are passed over. Grid (D / 256, commits).
KERNEL(ple_commit)(PleState pool, PleSizes sizes, const int32_t* commits) {
    const int32_t channel = blockIdx.x * blockDim.x + threadIdx.x;
    const int32_t width = sizes.width(), length = sizes.length();
    const int32_t slot = commits[3 * blockIdx.y], half = commits[3 * blockIdx.y + 1];
    const int32_t tokens = commits[3 * blockIdx.y + 2];
    if (channel >= width || tokens <= 0) return;
    const float* from = pool.conv + (slot * 2 + half) * static_cast<int64_t>(length) * width;
    float* to = pool.conv + (slot * 2 + 1 - half) * static_cast<int64_t>(length) * width;
    const float* window = pool.window + static_cast<int64_t>(slot) * sizes.window * width;
    for (int32_t j = 0; j < length; ++j) {
        const int64_t row = tokens - length + j;
        to[static_cast<int64_t>(j) * width + channel] =
            row >= 0 ? window[row * width + channel] : from[(length + row) * width + channel];
    }
}
EXPORT(ple_commit)
