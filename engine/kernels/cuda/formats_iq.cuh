// The IQ formats of 256 values: rows of a codebook with signs and scales. Included by formats.cuh; plain twin:
// engine/gguf/blocks_iq.py. Codebooks come from Python (engine/ops/cuda_codebooks.py): rows of eight or four
// magnitudes as bytes; the rows of IQ1 as eight numbers of 2 bits, -1, 0 and 1 being 0, 1 and 2.
#pragma once

// Seven sign bits and the eighth, which makes their number even.
__device__ __forceinline__ uint32_t eight_signs(uint32_t seven) {
    const uint32_t bits = seven & 127u;
    return bits | (static_cast<uint32_t>(__popc(bits)) & 1u) << 7;
}

// Eight values: a row of two words.
__device__ __forceinline__ void grid_row8(const uint32_t* grid, uint32_t row, uint32_t signs, int* q) {
    const uint2 magnitudes = *reinterpret_cast<const uint2*>(grid + 2 * row);
    q[0] = with_signs(magnitudes.x, signs);
    q[1] = with_signs(magnitudes.y, signs >> 4);
}

__device__ __forceinline__ uint32_t byte_of(uint32_t word, int i) { return word >> (8 * i) & 0xffu; }

// d * unit * (2 s + 1)
__device__ __forceinline__ float odd_scale(float d, uint32_t s) { return d * static_cast<float>(2 * s + 1); }

// d; per block four codebook rows, then four sign codes of 7 bits and a scale in a word
struct FormatIQ2_XXS {
    static constexpr int VALUES = 256, BYTES = 66, SCALES = 2, GRID_WORDS = 512;
    static constexpr bool MINS = false;
    struct Raw {
        uint32_t words[4];
        uint32_t d;
    };
    static __device__ __forceinline__ void load(const uint8_t* row, int unit, bool, Raw& raw) {
        const uint8_t* p = super_of<BYTES>(row, unit);
        read_words2<4>(p + 2 + 16 * (unit & 3), raw.words);
        raw.d = read_u16(p);
    }
    static __device__ __forceinline__ void decode(const Raw& raw, const uint32_t* grid, Unit<FormatIQ2_XXS>& unit) {
        const float d = half_of(raw.d) * 0.125f;
#pragma unroll
        for (int m = 0; m < 2; ++m) {
            const uint32_t rows = raw.words[2 * m], tail = raw.words[2 * m + 1];
            unit.scale[m] = odd_scale(d, tail >> 28);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                grid_row8(grid, byte_of(rows, i), eight_signs(tail >> (7 * i)), unit.q + 8 * m + 2 * i);
            }
        }
    }
};

// Scales of 4 bits for each 16 values, two bytes for a unit.
template <class Format>
__device__ __forceinline__ void set_odd_scales(Unit<Format>& unit, float d, uint32_t four_nibbles) {
#pragma unroll
    for (int i = 0; i < 4; ++i) unit.scale[i] = odd_scale(d, four_nibbles >> (4 * i) & 15u);
}

// d; 32 shorts: a codebook row of 9 bits and a sign code of 7; 16 scales of 4 bits
struct FormatIQ2_XS {
    static constexpr int VALUES = 256, BYTES = 74, SCALES = 4, GRID_WORDS = 1024;
    static constexpr bool MINS = false;
    struct Raw {
        uint32_t words[4];
        uint32_t d, scales;
    };
    static __device__ __forceinline__ void load(const uint8_t* row, int unit, bool, Raw& raw) {
        const uint8_t* p = super_of<BYTES>(row, unit);
        read_words2<4>(p + 2 + 16 * (unit & 3), raw.words);
        raw.d = read_u16(p);
        raw.scales = read_u16(p + 66 + 2 * (unit & 3));
    }
    static __device__ __forceinline__ void decode(const Raw& raw, const uint32_t* grid, Unit<FormatIQ2_XS>& unit) {
        set_odd_scales(unit, half_of(raw.d) * 0.125f, raw.scales);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const uint32_t code = raw.words[i / 2] >> (16 * (i & 1)) & 0xffffu;
            grid_row8(grid, code & 511u, eight_signs(code >> 9), unit.q + 2 * i);
        }
    }
};

// d; 32 low bytes of codebook rows; 32 bytes of signs; 8 bytes with bits 8 and 9; 16 scales of 4 bits
struct FormatIQ2_S {
    static constexpr int VALUES = 256, BYTES = 82, SCALES = 4, GRID_WORDS = 2048;
    static constexpr bool MINS = false;
    struct Raw {
        uint32_t low[2];
        uint32_t signs[2];
        uint32_t d, high, scales;
    };
    static __device__ __forceinline__ void load(const uint8_t* row, int unit, bool, Raw& raw) {
        const uint8_t* p = super_of<BYTES>(row, unit);
        const int quarter = unit & 3;
        read_words2<2>(p + 2 + 8 * quarter, raw.low);
        read_words2<2>(p + 34 + 8 * quarter, raw.signs);
        raw.d = read_u16(p);
        raw.high = read_u16(p + 66 + 2 * quarter);
        raw.scales = read_u16(p + 74 + 2 * quarter);
    }
    static __device__ __forceinline__ void decode(const Raw& raw, const uint32_t* grid, Unit<FormatIQ2_S>& unit) {
        set_odd_scales(unit, half_of(raw.d) * 0.125f, raw.scales);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const uint32_t row = byte_of(raw.low[i / 4], i & 3) | (raw.high >> (2 * i) & 3u) << 8;
            grid_row8(grid, row, byte_of(raw.signs[i / 4], i & 3), unit.q + 2 * i);
        }
    }
};

// d; 64 codebook rows of 4 values; per block a word of four sign codes and a scale
struct FormatIQ3_XXS {
    static constexpr int VALUES = 256, BYTES = 98, SCALES = 2, GRID_WORDS = 256;
    static constexpr bool MINS = false;
    struct Raw {
        uint32_t rows[4];
        uint32_t tails[2];
        uint32_t d;
    };
    static __device__ __forceinline__ void load(const uint8_t* row, int unit, bool, Raw& raw) {
        const uint8_t* p = super_of<BYTES>(row, unit);
        read_words2<4>(p + 2 + 16 * (unit & 3), raw.rows);
        read_words2<2>(p + 66 + 8 * (unit & 3), raw.tails);
        raw.d = read_u16(p);
    }
    static __device__ __forceinline__ void decode(const Raw& raw, const uint32_t* grid, Unit<FormatIQ3_XXS>& unit) {
        const float d = half_of(raw.d) * 0.25f;
#pragma unroll
        for (int m = 0; m < 2; ++m) {
            unit.scale[m] = odd_scale(d, raw.tails[m] >> 28);
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                const uint32_t signs = eight_signs(raw.tails[m] >> (7 * (i / 2))) >> (4 * (i & 1));
                unit.q[8 * m + i] = with_signs(grid[byte_of(raw.rows[2 * m + i / 4], i & 3)], signs);
            }
        }
    }
};

// d; 64 low bytes of codebook rows of 4 values; 8 bytes with bit 8 of the rows; 32 bytes of signs; 8 scales of 4 bits
struct FormatIQ3_S {
    static constexpr int VALUES = 256, BYTES = 110, SCALES = 2, GRID_WORDS = 512;
    static constexpr bool MINS = false;
    struct Raw {
        uint32_t rows[4];
        uint32_t signs[2];
        uint32_t d, high, scales;
    };
    static __device__ __forceinline__ void load(const uint8_t* row, int unit, bool, Raw& raw) {
        const uint8_t* p = super_of<BYTES>(row, unit);
        const int quarter = unit & 3;
        read_words2<4>(p + 2 + 16 * quarter, raw.rows);
        read_words2<2>(p + 74 + 8 * quarter, raw.signs);
        raw.d = read_u16(p);
        raw.high = read_u16(p + 66 + 2 * quarter);
        raw.scales = p[106 + quarter];
    }
    static __device__ __forceinline__ void decode(const Raw& raw, const uint32_t* grid, Unit<FormatIQ3_S>& unit) {
        const float d = half_of(raw.d);
        unit.scale[0] = odd_scale(d, raw.scales & 15u);
        unit.scale[1] = odd_scale(d, raw.scales >> 4);
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            const uint32_t row = byte_of(raw.rows[i / 4], i & 3) | (raw.high >> i & 1u) << 8;
            unit.q[i] = with_signs(grid[row], raw.signs[i / 8] >> (4 * (i & 7)));
        }
    }
};

// Eight values 8 g + shift of a row g of IQ1, shift being 1 or -1: eighths of the values.
__device__ __forceinline__ void grid_row1(const uint32_t* grid, uint32_t row, bool is_minus, int* q) {
    const uint32_t pairs = grid[row >> 1] >> (16 * (row & 1));  // eight numbers of 2 bits in the lower half
    const uint32_t table = is_minus ? 0x0007fff7u : 0x000901f9u;
    uint32_t nibbles = __byte_perm(pairs, 0, 0x4140);
    nibbles = (nibbles | nibbles << 4) & 0x0f0f0f0fu;
    nibbles = (nibbles | nibbles << 2) & 0x33333333u;
    q[0] = static_cast<int>(__byte_perm(table, 0, nibbles & 0xffffu));
    q[1] = static_cast<int>(__byte_perm(table, 0, nibbles >> 16));
}

// d; 32 low bytes of codebook rows; per block a short: bits 8..10 of four rows, a scale of 3 bits, the shift's sign
struct FormatIQ1_S {
    static constexpr int VALUES = 256, BYTES = 50, SCALES = 2, GRID_WORDS = 1024;
    static constexpr bool MINS = false;
    struct Raw {
        uint32_t rows[2];
        uint32_t high[1];
        uint32_t d;
    };
    static __device__ __forceinline__ void load(const uint8_t* row, int unit, bool, Raw& raw) {
        const uint8_t* p = super_of<BYTES>(row, unit);
        read_words2<2>(p + 2 + 8 * (unit & 3), raw.rows);
        read_words2<1>(p + 34 + 4 * (unit & 3), raw.high);
        raw.d = read_u16(p);
    }
    static __device__ __forceinline__ void decode(const Raw& raw, const uint32_t* grid, Unit<FormatIQ1_S>& unit) {
        const float d = half_of(raw.d) * 0.125f;
#pragma unroll
        for (int m = 0; m < 2; ++m) {
            const uint32_t high = raw.high[0] >> (16 * m);
            unit.scale[m] = odd_scale(d, high >> 12 & 7u);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const uint32_t row = byte_of(raw.rows[m], i) | (high >> (3 * i) & 7u) << 8;
                grid_row1(grid, row, (high & 0x8000u) != 0, unit.q + 8 * m + 2 * i);
            }
        }
    }
};

// 32 low bytes of codebook rows; 16 bytes: per row a nibble of bits 8..10 and the sign of its shift; four shorts:
// each four scales of 3 bits, and a nibble of the float16 scale d. Blocks lie at multiples of 8.
struct FormatIQ1_M {
    static constexpr int VALUES = 256, BYTES = 56, SCALES = 4, GRID_WORDS = 1024;
    static constexpr bool MINS = false;
    struct Raw {
        uint32_t rows[2];
        uint32_t scales[2];
        uint32_t high;
        int quarter;
    };
    static __device__ __forceinline__ void load(const uint8_t* row, int unit, bool, Raw& raw) {
        const uint8_t* p = super_of<BYTES>(row, unit);
        raw.quarter = unit & 3;
        read_words8<2>(p + 8 * raw.quarter, raw.rows);
        read_words8<2>(p + 48, raw.scales);
        raw.high = read_u32(p + 32 + 4 * raw.quarter);
    }
    static __device__ __forceinline__ void decode(const Raw& raw, const uint32_t* grid, Unit<FormatIQ1_M>& unit) {
        const uint32_t a = raw.scales[0], b = raw.scales[1];
        const uint32_t bits = (a >> 12 & 15u) | (a >> 28) << 4 | (b >> 12 & 15u) << 8 | (b >> 28) << 12;
        const float d = half_of(bits) * 0.125f;
        const uint32_t scales = (raw.quarter & 2 ? b : a) >> (16 * (raw.quarter & 1));
#pragma unroll
        for (int i = 0; i < 4; ++i) unit.scale[i] = odd_scale(d, scales >> (3 * i) & 7u);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const uint32_t nibble = raw.high >> (4 * i) & 15u;
            const uint32_t row = byte_of(raw.rows[i / 4], i & 3) | (nibble & 7u) << 8;
            grid_row1(grid, row, (nibble & 8u) != 0, unit.q + 2 * i);
        }
    }
};

// d; bit pairs of the scales in a short, their nibbles in 4 bytes, minus 32; per block 16 bytes of nibbles that index
// a table. Blocks lie at multiples of 8.
struct FormatIQ4_XS {
    static constexpr int VALUES = 256, BYTES = 136, SCALES = 2, GRID_WORDS = 0;
    static constexpr bool MINS = false;
    struct Raw {
        uint32_t head[2];
        uint32_t codes[8];
        int quarter;
    };
    static __device__ __forceinline__ void load(const uint8_t* row, int unit, bool, Raw& raw) {
        const uint8_t* p = super_of<BYTES>(row, unit);
        raw.quarter = unit & 3;
        read_words8<8>(p + 8 + 32 * raw.quarter, raw.codes);
        read_words8<2>(p, raw.head);
    }
    static __device__ __forceinline__ void decode(const Raw& raw, const uint32_t*, Unit<FormatIQ4_XS>& unit) {
        const uint32_t table[4] = {0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u};
        const float d = half_of(raw.head[0] & 0xffffu);
#pragma unroll
        for (int m = 0; m < 2; ++m) {
            const uint32_t low = raw.head[1] >> (8 * raw.quarter + 4 * m) & 15u;
            const uint32_t high = raw.head[0] >> (16 + 4 * raw.quarter + 2 * m) & 3u;
            unit.scale[m] = d * static_cast<float>(static_cast<int>(low | high << 4) - 32);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                look_up_nibbles(table, raw.codes[4 * m + i], unit.q[8 * m + i], unit.q[8 * m + 4 + i]);
            }
        }
    }
};
