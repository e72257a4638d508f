// The K formats: blocks of 256 values, four units each, with quantised scales. Included by formats.cuh; plain twin:
// engine/gguf/blocks_k.py.
#pragma once

// Where a unit's block begins, and which quarter of it the unit is.
template <int BYTES>
__device__ __forceinline__ const uint8_t* super_of(const uint8_t* row, int unit) {
    return row + static_cast<int64_t>(unit >> 2) * BYTES;
}

// d; dmin; eight pairs (scale, minimum) of 6 bits in 12 bytes; (fifth bits of the blocks, 32 bytes;) 128 bytes of
// nibbles: per 32 bytes two blocks, low nibbles then high ones.
template <bool FIVE>
struct FormatQ45_K {
    static constexpr int VALUES = 256, BYTES = FIVE ? 176 : 144, SCALES = 2, GRID_WORDS = 0;
    static constexpr bool MINS = true;
    struct Raw {
        uint32_t head[4];
        uint32_t codes[8];
        uint32_t fifth[FIVE ? 8 : 1];
        int quarter;
    };
    static __device__ __forceinline__ void load(const uint8_t* row, int unit, bool, Raw& raw) {
        const uint8_t* p = super_of<BYTES>(row, unit);
        raw.quarter = unit & 3;
        read_words16<8>(p + (FIVE ? 48 : 16) + 32 * raw.quarter, raw.codes);
        read_words16<4>(p, raw.head);
        if constexpr (FIVE) read_words16<8>(p + 16, raw.fifth);
    }
    static __device__ __forceinline__ void decode(const Raw& raw, const uint32_t*, Unit<FormatQ45_K>& unit) {
        const uint32_t a = raw.head[1], b = raw.head[2], c = raw.head[3];
        const bool first = raw.quarter < 2;
        const uint32_t scales = first ? a & 0x3f3f3f3fu : (c & 0x0f0f0f0fu) | (a >> 2 & 0x30303030u);
        const uint32_t minima = first ? b & 0x3f3f3f3fu : (c >> 4 & 0x0f0f0f0fu) | (b >> 2 & 0x30303030u);
        const int shift = 16 * (raw.quarter & 1);
        const float d = half_of(raw.head[0] & 0xffffu), least = -half_of(raw.head[0] >> 16);
#pragma unroll
        for (int m = 0; m < 2; ++m) {
            unit.scale[m] = d * static_cast<float>(scales >> (shift + 8 * m) & 0xffu);
            unit.minimum[m] = least * static_cast<float>(minima >> (shift + 8 * m) & 0xffu);
        }
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            uint32_t low = low_nibbles(raw.codes[i]), high = high_nibbles(raw.codes[i]);
            if constexpr (FIVE) {
                const uint32_t bits = raw.fifth[i] >> (2 * raw.quarter);
                low |= (bits & EACH) << 4;
                high |= (bits >> 1 & EACH) << 4;
            }
            unit.q[i] = static_cast<int>(low);
            unit.q[8 + i] = static_cast<int>(high);
        }
    }
};
using FormatQ4_K = FormatQ45_K<false>;
using FormatQ5_K = FormatQ45_K<true>;

// Four scales for each unit: of 16 bytes of scales those from 4 * quarter on.
template <class Format>
__device__ __forceinline__ void set_scales(Unit<Format>& unit, float d, uint32_t four_signed) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        unit.scale[i] = d * static_cast<float>(static_cast<int8_t>(four_signed >> (8 * i)));
    }
}

// 16 bytes of scale and minimum, 4 bits each; 64 bytes: per half of 128 values four planes of 2 bits in 32 bytes;
// d; dmin
struct FormatQ2_K {
    static constexpr int VALUES = 256, BYTES = 84, SCALES = 4, GRID_WORDS = 0;
    static constexpr bool MINS = true;
    struct Raw {
        uint32_t codes[8];
        uint32_t scales, d;
        int quarter;
    };
    static __device__ __forceinline__ void load(const uint8_t* row, int unit, bool, Raw& raw) {
        const uint8_t* p = super_of<BYTES>(row, unit);
        raw.quarter = unit & 3;
#pragma unroll
        for (int i = 0; i < 8; ++i) raw.codes[i] = read_u32(p + 16 + 32 * (raw.quarter >> 1) + 4 * i);
        raw.scales = read_u32(p + 4 * raw.quarter);
        raw.d = read_u32(p + 80);
    }
    static __device__ __forceinline__ void decode(const Raw& raw, const uint32_t*, Unit<FormatQ2_K>& unit) {
        set_scales(unit, half_of(raw.d & 0xffffu), low_nibbles(raw.scales));
        const float least = -half_of(raw.d >> 16);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            unit.minimum[i] = least * static_cast<float>(raw.scales >> (8 * i + 4) & 15u);
        }
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const uint32_t planes = raw.codes[i] >> (4 * (raw.quarter & 1));
            unit.q[i] = static_cast<int>(planes & 0x03030303u);
            unit.q[8 + i] = static_cast<int>(planes >> 2 & 0x03030303u);
        }
    }
};

// 32 bytes of third bits, one bit of each byte for each block; 64 bytes as in Q2_K; 16 scales of 6 bits, minus 32,
// in 12 bytes; d; codes minus 4
struct FormatQ3_K {
    static constexpr int VALUES = 256, BYTES = 110, SCALES = 4, GRID_WORDS = 0;
    static constexpr bool MINS = false;
    struct Raw {
        uint32_t third[8];
        uint32_t codes[8];
        uint32_t scales[3];
        uint32_t d;
        int quarter;
    };
    static __device__ __forceinline__ void load(const uint8_t* row, int unit, bool, Raw& raw) {
        const uint8_t* p = super_of<BYTES>(row, unit);
        raw.quarter = unit & 3;
        read_words2<8>(p + 32 + 32 * (raw.quarter >> 1), raw.codes);
        read_words2<8>(p, raw.third);
        read_words2<3>(p + 96, raw.scales);
        raw.d = read_u16(p + 108);
    }
    static __device__ __forceinline__ void decode(const Raw& raw, const uint32_t*, Unit<FormatQ3_K>& unit) {
        const uint32_t nibbles = raw.quarter & 1 ? raw.scales[1] : raw.scales[0];
        const uint32_t low = raw.quarter & 2 ? high_nibbles(nibbles) : low_nibbles(nibbles);
        const uint32_t scales = low | (raw.scales[2] >> (2 * raw.quarter) & 0x03030303u) << 4;
        set_scales(unit, half_of(raw.d), static_cast<uint32_t>(minus(scales, 32)));
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const uint32_t planes = raw.codes[i] >> (4 * (raw.quarter & 1));
            const uint32_t bits = raw.third[i] >> (2 * raw.quarter);
            unit.q[i] = minus((planes & 0x03030303u) | (bits & EACH) << 2, 4);
            unit.q[8 + i] = minus((planes >> 2 & 0x03030303u) | (bits >> 1 & EACH) << 2, 4);
        }
    }
};

// 128 bytes of nibbles, 64 of bit pairs, 16 signed scales, d: per half of 128 values four blocks, which share 64
// bytes of nibbles and 32 of pairs; minus 32
struct FormatQ6_K {
    static constexpr int VALUES = 256, BYTES = 210, SCALES = 4, GRID_WORDS = 0;
    static constexpr bool MINS = false;
    struct Raw {
        uint32_t low[16];
        uint32_t high[8];
        uint32_t scales[1];
        uint32_t d;
        int quarter;
    };
    static __device__ __forceinline__ void load(const uint8_t* row, int unit, bool, Raw& raw) {
        const uint8_t* p = super_of<BYTES>(row, unit);
        raw.quarter = unit & 3;
        read_words2<16>(p + 64 * (raw.quarter >> 1), raw.low);
        read_words2<8>(p + 128 + 32 * (raw.quarter >> 1), raw.high);
        read_words2<1>(p + 192 + 4 * raw.quarter, raw.scales);
        raw.d = read_u16(p + 208);
    }
    static __device__ __forceinline__ void decode(const Raw& raw, const uint32_t*, Unit<FormatQ6_K>& unit) {
        set_scales(unit, half_of(raw.d), raw.scales[0]);
        const int odd = raw.quarter & 1;
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            const uint32_t pairs = raw.high[i & 7] >> (4 * odd + (i < 8 ? 0 : 2)) & 0x03030303u;
            unit.q[i] = minus(low_nibbles(raw.low[i] >> (4 * odd)) | pairs << 4, 32);
        }
    }
};
