// Gated DeltaNet (spec 4.4): convolution, gates, the delta rule as a recurrence, gated norm, and commits.
//
// delta_prepare makes a pass's inputs (convolved, normalised, gated) and moves the convolution's history;
// delta_rule carries each head's state through the rows of each sequence; delta_output norms and gates, and
// delta_heads does both for few rows, with the same bits. The state [dk, dv] of a head falls into independent
// columns: 4 warps hold 32 of them in registers, a quarter of the rows in each warp, and read and write memory
// once a pass, however many rows. After each row they also predict for the next row's key, so a row is one walk
// over the registers and one barrier.
//
// The chunked form of the specification is not used: in float32 it takes more multiply-adds than the recurrence (at
// best 4.2 against 3.1 million for a head and 64 rows of 128 x 128), and the recurrence gives the same bits wherever a
// sequence is cut. A commit runs the same code on what the window kept. Long passes come in groups of rows,
// so that what lies between the kernels stays small: a sequence then goes on from the half that it writes.
//
// Limits: head_dim <= 128. Plain twins: `delta_mix` and `delta_commit` of engine/ops/reference_delta.py.
#include "maths.cuh"
#include "pass.cuh"

// The pool of one layer. Mirrored, like DeltaSizes, in engine/ops/cuda_structs.py.
struct DeltaState {
    float* state;         // [slots, 2, v_heads, d, d]
    float* conv;          // [slots, 2, taps - 1, C]
    float* window_conv;   // [slots, W, C]
    float* window_k;      // [slots, W, k_heads, d]
    float* window_v;      // [slots, W, v_heads, d]
    float* window_decay;  // [slots, W, v_heads]
    float* window_beta;   // [slots, W, v_heads]
};

struct DeltaSizes {
    int32_t k_heads;
    int32_t v_heads;
    int32_t head_dim;
    int32_t taps;
    int32_t window;  // W
    __device__ int32_t channels() const { return (2 * k_heads + v_heads) * head_dim; }  // C
};

// Weights and rows of a pass.
struct DeltaInputs {
    const float* conv;   // [C, taps]
    const float* a;      // [v_heads]
    const float* dt;     // [v_heads]
    const float* qkv;    // [R, C]
    const float* alpha;  // [R, v_heads]
    const float* beta;   // [R, v_heads]
    float* mixed;        // [rows of the group, C] after convolution and norms
    float* decay;        // [rows of the group, v_heads]
    float* rate;         // [rows of the group, v_heads]
    int32_t first_row;   // of the group
    int32_t num_rows;    // of the group
};

// Grid (num_rows, 2 k_heads + v_heads), block head_dim rounded up to whole warps: one head of one row.
KERNEL(delta_prepare)(DeltaState pool, DeltaSizes sizes, Pass pass, DeltaInputs in) {
    __shared__ float memory[WARP_SIZE];
    const int32_t row = in.first_row + static_cast<int32_t>(blockIdx.x), head = blockIdx.y, i = threadIdx.x;
    const int32_t d = sizes.head_dim, channels = sizes.channels(), length = sizes.taps - 1;
    const RowPlace place = row_place(pass, row);
    const int32_t channel = head * d + i;
    const int32_t v_head = head - 2 * sizes.k_heads;  // negative for q and k heads
    const bool is_kept = place.count <= sizes.window;
    const int64_t kept = static_cast<int64_t>(place.slot) * sizes.window + place.at;
    float value = 0.0f;
    if (i < d) {
        const float* history = pool.conv + (place.slot * 2 + place.half) * static_cast<int64_t>(length) * channels;
        float* moved = pool.conv + (place.slot * 2 + 1 - place.half) * static_cast<int64_t>(length) * channels;
        const float newest = in.qkv[static_cast<int64_t>(row) * channels + channel];
        float total = 0.0f;
        for (int32_t j = 0; j < sizes.taps; ++j) {
            const int32_t back = length - j;  // rows before this one
            const float input = back <= place.at
                                    ? in.qkv[static_cast<int64_t>(row - back) * channels + channel]
                                    : history_value(history, length, channels, back - place.at, channel);
            total = fmaf(in.conv[channel * sizes.taps + j], input, total);
        }
        value = silu(total);
        move_history(history, moved, length, channels, place, channel, newest);
        if (is_kept) pool.window_conv[kept * channels + channel] = newest;
    }
    if (v_head < 0) {
        const float by = head < sizes.k_heads ? 1.0f / sqrtf(static_cast<float>(d)) : 1.0f;
        const float scale = by / sqrtf(block_sum(value * value, memory) + 1e-6f);
        value *= scale;
    } else if (i == 0) {
        const int64_t at = static_cast<int64_t>(row) * sizes.v_heads + v_head;
        const float decay = in.a[v_head] * softplus(in.alpha[at] + in.dt[v_head]);
        const float rate = sigmoid(in.beta[at]);
        const int64_t to = static_cast<int64_t>(blockIdx.x) * sizes.v_heads + v_head;
        in.decay[to] = decay;
        in.rate[to] = rate;
        if (is_kept) {
            pool.window_decay[kept * sizes.v_heads + v_head] = decay;
            pool.window_beta[kept * sizes.v_heads + v_head] = rate;
        }
    }
    if (i >= d) return;
    in.mixed[static_cast<int64_t>(blockIdx.x) * channels + channel] = value;
    if (!is_kept || head < sizes.k_heads) return;
    if (v_head < 0) {
        pool.window_k[(kept * sizes.k_heads + head - sizes.k_heads) * d + i] = value;
    } else {
        pool.window_v[(kept * sizes.v_heads + v_head) * d + i] = value;
    }
}
EXPORT(delta_prepare)

constexpr int STATE_WARPS = 4;  // that share 32 columns: each holds a quarter of the state's rows
constexpr int STATE_COLUMNS = WARP_SIZE;
constexpr int STAGED_ROWS = 8;  // rows of a sequence whose inputs lie in shared memory at once

// Rows of one sequence and head as the recurrence reads them; strides in floats from row to row.
struct DeltaRows {
    const float* q;  // null in a commit
    const float* k;
    const float* v;
    const float* decay;
    const float* rate;
    int32_t q_stride, k_stride, v_stride, gate_stride;
    int32_t count;
    float* out;  // null in a commit
    const float* z;     // gates beside out: out is normed and gated; null: it is not
    const float* norm;  // [d], with z
    float eps;
    int32_t out_stride;
};

// Norms and gates one row of one head: each lane has the columns lane + 32 j.
template <int TILES>
__device__ __forceinline__ void output_row(const DeltaRows& rows, int32_t d, int32_t row, float (&values)[TILES]) {
    const int lane = lane_index();
    float squares = 0.0f;
#pragma unroll
    for (int j = 0; j < TILES; ++j) squares += warp_sum(values[j] * values[j]);
    const float scale = inverse_rms(squares, d, rows.eps);
    const int64_t at = static_cast<int64_t>(row) * rows.out_stride;
#pragma unroll
    for (int j = 0; j < TILES; ++j) {
        const int32_t i = lane + WARP_SIZE * j;
        if (i < d) rows.out[at + i] = values[j] * scale * rows.norm[i] * sigmoid(rows.z[at + i]);
    }
}

// Carries TILES * 32 columns from `start` on of one head's state [d, d] through the rows. PART = rows of the state
// that one warp holds: 4 * PART >= d. Block: TILES * STATE_WARPS warps. Norm and gate only where TILES holds all columns.
template <int PART, int TILES>
__device__ __forceinline__ void delta_columns(const DeltaRows& rows, int32_t d, int32_t start, const float* from,
                                              float* to) {
    constexpr int DIM = STATE_WARPS * PART;
    __shared__ __align__(16) float keys[STAGED_ROWS + 1][DIM];  // one more: of the row that comes next
    __shared__ __align__(16) float queries[STAGED_ROWS][DIM];
    constexpr int COLUMNS = TILES * STATE_COLUMNS;
    __shared__ float values[STAGED_ROWS][COLUMNS];
    __shared__ float keeps[STAGED_ROWS], rates[STAGED_ROWS];
    __shared__ float predicted[2][STATE_WARPS][COLUMNS], read[2][STATE_WARPS][COLUMNS];
    const int warp = warp_index() % STATE_WARPS, first = warp * PART;
    const int lane = warp_index() / STATE_WARPS * STATE_COLUMNS + lane_index();  // column of the block
    const int32_t column = start + lane;
    const bool is_inside = column < d;

    float state[PART];
#pragma unroll
    for (int i = 0; i < PART; ++i) {
        const int32_t at = first + i;
        state[i] = is_inside && at < d ? from[static_cast<int64_t>(at) * d + column] : 0.0f;
    }

    for (int32_t done = 0; done < rows.count; done += STAGED_ROWS) {
        const int32_t staged = min(STAGED_ROWS, rows.count - done);
        const int32_t with_next = min(STAGED_ROWS + 1, rows.count - done);
        __syncthreads();  // everybody is done with the rows before
        for (int32_t j = threadIdx.x; j < with_next * DIM; j += blockDim.x) {
            const int32_t r = j / DIM, i = j % DIM;
            const int64_t row = done + r;
            keys[r][i] = i < d ? rows.k[row * rows.k_stride + i] : 0.0f;
            if (r < staged) queries[r][i] = i < d && rows.q != nullptr ? rows.q[row * rows.q_stride + i] : 0.0f;
        }
        for (int32_t j = threadIdx.x; j < staged * COLUMNS; j += blockDim.x) {
            const int32_t r = j / COLUMNS, i = start + j % COLUMNS;
            values[r][j % COLUMNS] = i < d ? rows.v[static_cast<int64_t>(done + r) * rows.v_stride + i] : 0.0f;
        }
        if (threadIdx.x < static_cast<unsigned>(staged)) {
            const int64_t row = done + static_cast<int32_t>(threadIdx.x);
            keeps[threadIdx.x] = expf(rows.decay[row * rows.gate_stride]);
            rates[threadIdx.x] = rows.rate[row * rows.gate_stride];
        }
        __syncthreads();
        if (done == 0) {
            float even = 0.0f, odd = 0.0f;
#pragma unroll
            for (int i = 0; i < PART; i += 2) {
                even = fmaf(keys[0][first + i], state[i], even);
                odd = fmaf(keys[0][first + i + 1], state[i + 1], odd);
            }
            predicted[0][warp][lane] = even + odd;
            __syncthreads();
        }
        for (int32_t r = 0; r < staged; ++r) {
            const int now = (done + r) & 1, next = now ^ 1;
            const float keep = keeps[r];
            float known = predicted[now][0][lane];
#pragma unroll
            for (int w = 1; w < STATE_WARPS; ++w) known += predicted[now][w][lane];
            const float change = rates[r] * (values[r][lane] - keep * known);
            const float* next_key = keys[min(r + 1, with_next - 1)];  // behind the last row nobody asks
            float read_even = 0.0f, read_odd = 0.0f, even = 0.0f, odd = 0.0f;
#pragma unroll
            for (int i = 0; i < PART; i += 2) {
                const int at = first + i;
                state[i] = fmaf(keys[r][at], change, keep * state[i]);
                state[i + 1] = fmaf(keys[r][at + 1], change, keep * state[i + 1]);
                read_even = fmaf(queries[r][at], state[i], read_even);
                read_odd = fmaf(queries[r][at + 1], state[i + 1], read_odd);
                even = fmaf(next_key[at], state[i], even);
                odd = fmaf(next_key[at + 1], state[i + 1], odd);
            }
            predicted[next][warp][lane] = even + odd;
            read[now][warp][lane] = read_even + read_odd;
            __syncthreads();
            if (rows.z != nullptr) {
                // One warp a row, in turn: it is back at the next row's barrier before `read` is written again.
                if (warp_index() == (done + r) % (TILES * STATE_WARPS)) {
                    float totals[TILES];
#pragma unroll
                    for (int j = 0; j < TILES; ++j) {
                        const int at = STATE_COLUMNS * j + lane_index();
                        totals[j] = read[now][0][at];
#pragma unroll
                        for (int w = 1; w < STATE_WARPS; ++w) totals[j] += read[now][w][at];
                    }
                    output_row<TILES>(rows, d, done + r, totals);
                }
            } else if (rows.out != nullptr && warp == 0 && is_inside) {
                float total = read[now][0][lane];
#pragma unroll
                for (int w = 1; w < STATE_WARPS; ++w) total += read[now][w][lane];
                rows.out[static_cast<int64_t>(done + r) * rows.out_stride + column] = total;
            }
        }
    }

#pragma unroll
    for (int i = 0; i < PART; ++i) {
        const int32_t at = first + i;
        if (is_inside && at < d) to[static_cast<int64_t>(at) * d + column] = state[i];
    }
}

// What norms and gates; null for delta_rule.
struct DeltaGate {
    const float* z;     // [R, v_heads * d]
    const float* norm;  // [d]
    float eps;
};

// Tile `tile` of TILES * 32 columns of one head of one sequence. `out` [R, v_heads * d].
template <int PART, int TILES>
__device__ __forceinline__ void delta_rule(const DeltaState& pool, const DeltaSizes& sizes, const Pass& pass,
                                           const DeltaInputs& in, const DeltaGate& gate, float* out, int32_t head,
                                           int32_t tile, int32_t sequence) {
    const int32_t d = sizes.head_dim, k_head = head % sizes.k_heads;
    const int64_t channels = sizes.channels(), heads = sizes.v_heads;
    const int32_t begin = pass.seq_start[sequence], end = pass.seq_start[sequence + 1];
    const int32_t first = max(begin, in.first_row);
    DeltaRows rows;
    rows.count = min(end, in.first_row + in.num_rows) - first;
    if (rows.count <= 0) return;
    const int64_t at = first - in.first_row, out_at = first * heads * d + head * d;
    rows.q = in.mixed + at * channels + k_head * d;
    rows.k = rows.q + sizes.k_heads * d;
    rows.v = in.mixed + at * channels + (2 * sizes.k_heads + head) * d;
    rows.decay = in.decay + at * heads + head;
    rows.rate = in.rate + at * heads + head;
    rows.q_stride = rows.k_stride = rows.v_stride = sizes.channels();
    rows.gate_stride = sizes.v_heads;
    rows.out = out + out_at;
    rows.z = gate.z != nullptr ? gate.z + out_at : nullptr;
    rows.norm = gate.norm;
    rows.eps = gate.eps;
    rows.out_stride = sizes.v_heads * d;
    const int64_t size = static_cast<int64_t>(d) * d, half = pass.seq_half[sequence];
    const int64_t read_half = begin >= in.first_row ? half : 1 - half;
    float* base = pool.state + (pass.seq_slot[sequence] * 2 * heads + head) * size;
    delta_columns<PART, TILES>(rows, d, tile * TILES * STATE_COLUMNS, base + read_half * heads * size,
                               base + (1 - half) * heads * size);
}

// What to commit: the first `tokens` rows of the last pass of a slot whose committed half is `half`.
struct DeltaCommit {
    int32_t slot;
    int32_t half;
    int32_t tokens;
};

// Grid (v_heads * ceil(d / 32) + 1, commits, layers), block 128: the last block in x moves the convolution's history.
// `layers` and `commits` are in the card's memory; commits of no tokens are passed over.
template <int PART>
__device__ __forceinline__ void delta_commit(const DeltaState* layers, const DeltaCommit* commits,
                                             const DeltaSizes& sizes) {
    const DeltaCommit commit = commits[blockIdx.y];
    if (commit.tokens <= 0) return;
    const DeltaState pool = layers[blockIdx.z];
    const int32_t d = sizes.head_dim, tiles = (d + STATE_COLUMNS - 1) / STATE_COLUMNS, heads = sizes.v_heads;
    const int64_t kept = static_cast<int64_t>(commit.slot) * sizes.window;
    if (static_cast<int32_t>(blockIdx.x) == heads * tiles) {
        const int32_t channels = sizes.channels(), length = sizes.taps - 1;
        float* base = pool.conv + commit.slot * 2 * static_cast<int64_t>(length) * channels;
        const float* from = base + static_cast<int64_t>(commit.half) * length * channels;
        float* to = base + static_cast<int64_t>(1 - commit.half) * length * channels;
        for (int32_t c = threadIdx.x; c < channels; c += blockDim.x) {
            for (int32_t j = 0; j < length; ++j) {
                const int32_t row = commit.tokens - length + j;
                to[j * channels + c] = row >= 0 ? pool.window_conv[(kept + row) * channels + c]
                                                : from[(length + row) * channels + c];
            }
        }
        return;
    }
    const int32_t head = blockIdx.x / tiles, start = blockIdx.x % tiles * STATE_COLUMNS;
    DeltaRows rows;
    rows.count = commit.tokens;
    rows.q = rows.z = rows.norm = nullptr;
    rows.out = nullptr;
    rows.eps = 0.0f;
    rows.q_stride = rows.out_stride = 0;
    rows.k = pool.window_k + (kept * sizes.k_heads + head % sizes.k_heads) * d;
    rows.v = pool.window_v + (kept * heads + head) * d;
    rows.decay = pool.window_decay + kept * heads + head;
    rows.rate = pool.window_beta + kept * heads + head;
    rows.k_stride = sizes.k_heads * d;
    rows.v_stride = heads * d;
    rows.gate_stride = heads;
    const int64_t size = static_cast<int64_t>(d) * d;
    float* base = pool.state + (static_cast<int64_t>(commit.slot) * 2 * heads + head) * size;
    delta_columns<PART, 1>(rows, d, start, base + commit.half * heads * size, base + (1 - commit.half) * heads * size);
}

// delta_rule: grid (v_heads * ceil(d / 32), S), block 128, `out` before norm and gate.
// delta_heads: grid (v_heads, S), block 4 * dim, `out` after them.
#define DELTA_KERNELS(dim)                                                                                           \
    KERNEL_BOUNDED(delta_rule_d##dim, 128)                                                                          \
    (DeltaState pool, DeltaSizes sizes, Pass pass, DeltaInputs in, float* out) {                                    \
        const int32_t tiles = (sizes.head_dim + STATE_COLUMNS - 1) / STATE_COLUMNS;                                 \
        delta_rule<(dim) / STATE_WARPS, 1>(pool, sizes, pass, in, DeltaGate{}, out, blockIdx.x / tiles,             \
                                           blockIdx.x % tiles, blockIdx.y);                                         \
    }                                                                                                                \
    KERNEL_BOUNDED(delta_heads_d##dim, 4 * (dim))                                                                   \
    (DeltaState pool, DeltaSizes sizes, Pass pass, DeltaInputs in, DeltaGate gate, float* out) {                    \
        delta_rule<(dim) / STATE_WARPS, (dim) / STATE_COLUMNS>(pool, sizes, pass, in, gate, out, blockIdx.x, 0,     \
                                                               blockIdx.y);                                        \
    }                                                                                                                \
    KERNEL_BOUNDED(delta_commit_d##dim, 128)                                                                        \
    (const DeltaState* layers, const DeltaCommit* commits, DeltaSizes sizes) {                                      \
        delta_commit<(dim) / STATE_WARPS>(layers, commits, sizes);                                                  \
    }

DELTA_KERNELS(32)
EXPORT(delta_rule_d32)
EXPORT(delta_heads_d32)
EXPORT(delta_commit_d32)
DELTA_KERNELS(64)
EXPORT(delta_rule_d64)
EXPORT(delta_heads_d64)
EXPORT(delta_commit_d64)
DELTA_KERNELS(128)
EXPORT(delta_rule_d128)
EXPORT(delta_heads_d128)
EXPORT(delta_commit_d128)

// out = rms(out; norm) * sigmoid(z) for each head, in place. Grid (R, v_heads), block as delta_prepare.
KERNEL(delta_output)(float* out, const float* z, const float* norm, int32_t d, float eps) {
    __shared__ float memory[WARP_SIZE];
    const int32_t i = threadIdx.x;
    const int64_t at = (static_cast<int64_t>(blockIdx.x) * gridDim.y + blockIdx.y) * d + i;
    const float value = i < d ? out[at] : 0.0f;
    const float scale = inverse_rms(block_sum(value * value, memory), d, eps);
    if (i < d) out[at] = value * scale * norm[i] * sigmoid(z[at]);
}
EXPORT(delta_output)
