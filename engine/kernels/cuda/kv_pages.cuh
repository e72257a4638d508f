// Pages of keys and values, and the sizes of sparse attention, as kernels see them (engine/ops/pools.py).
//
// A token lies at its place, page * page_tokens + offset. Pages from `num_near` on lie in other memory (host memory
// that the card reads over the bus). Keys and values are float32, float16 or int8 with one float32 scale for each
// token and head; index keys are float32 beside float32 keys, else float16.
#pragma once
#include "maths.cuh"
#include "pass.cuh"

// Mirrored, like AttentionSizes, in engine/ops/cuda_structs.py. Null where a type has no scales, or nothing is far.
struct KvPages {
    uint8_t* keys;          // [num_near, page_tokens, kv_heads, head_dim]
    uint8_t* values;        // the same
    float* key_scales;      // [num_near, page_tokens, kv_heads]
    float* value_scales;    // the same
    uint8_t* index_raw;     // [num_near, page_tokens, index_dim]
    uint8_t* index_pooled;  // [all pages, page_tokens / ratio, index_dim]
    uint8_t* far_keys;      // the same of the pages from num_near on
    uint8_t* far_values;
    float* far_key_scales;
    float* far_value_scales;
    uint8_t* far_index_raw;
    int32_t page_tokens;
    int32_t num_near;  // pages
};

struct AttentionSizes {
    int32_t heads;
    int32_t kv_heads;
    int32_t head_dim;     // <= 256
    int32_t index_heads;
    int32_t index_dim;    // <= 256
    int32_t rope_dim;     // even, <= both dims
    int32_t ratio;        // tokens of a block
    int32_t top_blocks;
    float eps;
    __device__ int32_t index_stride() const { return (index_dim + 3) / 4 * 4; }  // of a rotated index query
};

template <class T>
struct Stored;  // how numbers of a page's type are read and written

template <>
struct Stored<float> {
    using Index = float;
    static __device__ __forceinline__ float load(float x) { return x; }
    static __device__ __forceinline__ float store(float x) { return x; }
};

template <>
struct Stored<uint16_t> {
    using Index = uint16_t;
    static __device__ __forceinline__ float load(uint16_t x) { return half_to_float(x); }
    static __device__ __forceinline__ uint16_t store(float x) { return float_to_half(x); }
};

template <>
struct Stored<int8_t> {
    using Index = uint16_t;
    static __device__ __forceinline__ float load(int8_t x) { return static_cast<float>(x); }
};

// Place of a position of a sequence whose row of the page table is given.
__device__ __forceinline__ int32_t token_place(const KvPages& pages, const int32_t* table, int32_t position) {
    return table[position / pages.page_tokens] * pages.page_tokens + position % pages.page_tokens;
}

// The `size` numbers that belong to a place, in near or far memory.
template <class T>
__device__ __forceinline__ T* at_place(const KvPages& pages, uint8_t* near_base, uint8_t* far_base, int32_t place,
                                       int32_t size) {
    const int32_t num_near = pages.num_near * pages.page_tokens;
    T* base = reinterpret_cast<T*>(place < num_near ? near_base : far_base);
    return base + static_cast<int64_t>(place < num_near ? place : place - num_near) * size;
}

__device__ __forceinline__ float* scale_at(const KvPages& pages, float* near_base, float* far_base, int32_t place,
                                           int32_t size) {
    return at_place<float>(pages, reinterpret_cast<uint8_t*>(near_base), reinterpret_cast<uint8_t*>(far_base), place,
                           size);
}
