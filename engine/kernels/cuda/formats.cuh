// Block formats of weights, decoded to *units* of 64 values: sixteen words of four int8 codes in natural order,
// with float scales (and minima) for each 32 or 16 of them: value = scale * code + minimum.
//
// A format has
//     VALUES, BYTES   of a block as it lies in the file
//     SCALES          2 (one for each 32 values) or 4 (one for each 16) per unit
//     MINS            whether there are minima, as many as scales
//     GRID_WORDS      32-bit words of its codebook, which lies in shared memory; 0 for none
//     Raw             what a unit needs of memory
//     load(row, unit, whole, raw)   reads it; `whole` is false for a last unit of which only 32 values exist
//     decode(raw, grid, unit)
// Loads and decoding are apart so that the next unit can be under way while one is multiplied.
//
// Alignment: rows lie in memory that begins at a multiple of 16 bytes and whose size is rounded up to 16: reads take
// whole aligned pieces. Formats of up to 64 values need addresses of multiples of 4 at most. Layouts: those of the file; plain twin: engine/gguf/blocks.py.
#pragma once
#include "stratum.cuh"

constexpr int UNIT = 64;   // values
constexpr int BLOCK = 32;  // values that share an activation scale

template <class Format>
struct Unit {
    int q[16];
    float scale[Format::SCALES];
    float minimum[Format::MINS ? Format::SCALES : 1];
};

// -- reading ---------------------------------------------------------------------------------------------------

__device__ __forceinline__ uint32_t read_u16(const uint8_t* p) { return *reinterpret_cast<const uint16_t*>(p); }
__device__ __forceinline__ uint32_t read_u32(const uint8_t* p) { return *reinterpret_cast<const uint32_t*>(p); }

// N aligned words from an address that is a multiple of 8 or 16.
template <int N>
__device__ __forceinline__ void read_words8(const uint8_t* p, uint32_t* words) {
#pragma unroll
    for (int i = 0; i < N; i += 2) {
        const uint2 two = *reinterpret_cast<const uint2*>(p + 4 * i);
        words[i] = two.x, words[i + 1] = two.y;
    }
}
template <int N>
__device__ __forceinline__ void read_words16(const uint8_t* p, uint32_t* words) {
#pragma unroll
    for (int i = 0; i < N; i += 4) {
        const uint4 four = *reinterpret_cast<const uint4*>(p + 4 * i);
        words[i] = four.x, words[i + 1] = four.y, words[i + 2] = four.z, words[i + 3] = four.w;
    }
}

// N words from an address that is a multiple of 2: aligned loads, shifted where needed.
template <int N>
__device__ __forceinline__ void read_words2(const uint8_t* p, uint32_t* words) {
    const uint32_t odd = static_cast<uint32_t>(reinterpret_cast<uint64_t>(p)) & 2u;
    const uint32_t* aligned = reinterpret_cast<const uint32_t*>(p - odd);
    uint32_t raw[N + 1];
#pragma unroll
    for (int i = 0; i < N; ++i) raw[i] = aligned[i];
    raw[N] = odd ? aligned[N] : 0;
#pragma unroll
    for (int i = 0; i < N; ++i) words[i] = __funnelshift_r(raw[i], raw[i + 1], odd * 8);
}

// A short block from any address: the aligned words around its N * 4 - 3 or fewer bytes.
template <int N>
struct Window {
    uint32_t words[N];
    uint32_t offset;  // of the block in the first word, bytes
    __device__ __forceinline__ void read(const uint8_t* p) {
        offset = static_cast<uint32_t>(reinterpret_cast<uint64_t>(p)) & 3u;
        const uint32_t* aligned = reinterpret_cast<const uint32_t*>(p - offset);
#pragma unroll
        for (int i = 0; i < N; ++i) words[i] = aligned[i];
    }
    __device__ __forceinline__ uint32_t first_byte() const { return words[0] >> (8 * offset) & 0xffu; }
    __device__ __forceinline__ uint32_t first_short() const { return words[0] >> (8 * offset) & 0xffffu; }
    // The word at byte 4 i + at, at + offset <= 4.
    __device__ __forceinline__ uint32_t word(int i, uint32_t at) const {
        return __byte_perm(words[i], words[i + 1], 0x3210u + 0x1111u * (offset + at));
    }
};

// -- bytes of a word -------------------------------------------------------------------------------------------

constexpr uint32_t EACH = 0x01010101u;

__device__ __forceinline__ uint32_t low_nibbles(uint32_t word) { return word & 0x0f0f0f0fu; }
__device__ __forceinline__ uint32_t high_nibbles(uint32_t word) { return word >> 4 & 0x0f0f0f0fu; }

// Each byte, 0 .. 127, minus a number up to 128: without borrows between bytes.
__device__ __forceinline__ int minus(uint32_t codes, uint32_t number) {
    return static_cast<int>(((codes | 0x80808080u) - EACH * number) ^ 0x80808080u);
}

// The eight nibbles of a word as entries of a table of 16 bytes: of the low nibbles of its bytes, and of the high.
__device__ __forceinline__ void look_up_nibbles(const uint32_t table[4], uint32_t word, int& low, int& high) {
    const uint32_t index = word & 0x77777777u, upper = word >> 1 & 0x44444444u;
    uint32_t four[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const uint32_t a = __byte_perm(table[0], table[1], index >> (16 * i));
        const uint32_t b = __byte_perm(table[2], table[3], index >> (16 * i));
        four[i] = __byte_perm(a, b, (0x3210u + (upper >> (16 * i))) & 0xffffu);
    }
    low = static_cast<int>(__byte_perm(four[0], four[1], 0x6420));
    high = static_cast<int>(__byte_perm(four[0], four[1], 0x7531));
}

// Four bits, the lowest first, as bytes of 0 or 1.
__device__ __forceinline__ uint32_t bits_to_bytes(uint32_t four) { return (four & 15u) * 0x00204081u & EACH; }

// Bytes of at least 1 with the signs of four bits (one: negative).
__device__ __forceinline__ int with_signs(uint32_t magnitudes, uint32_t four) {
    const uint32_t negative = bits_to_bytes(four);
    return static_cast<int>((magnitudes ^ negative * 0xffu) + negative);
}

__device__ __forceinline__ float half_of(uint32_t bits) { return half_to_float(static_cast<uint16_t>(bits)); }

// -- blocks of 32 ----------------------------------------------------------------------------------------------

// Two blocks make a unit; a second one that does not exist is the first again, and nobody multiplies it.
template <class Block>
struct TwoBlocks {
    static constexpr int VALUES = 32, BYTES = Block::BYTES, SCALES = 2, GRID_WORDS = 0;
    static constexpr bool MINS = Block::MINS;
    struct Raw {
        Block blocks[2];
    };
    static __device__ __forceinline__ void load(const uint8_t* row, int unit, bool whole, Raw& raw) {
        const uint8_t* p = row + static_cast<int64_t>(unit) * (2 * BYTES);
        raw.blocks[0].read(p);
        raw.blocks[1].read(whole ? p + BYTES : p);
    }
    static __device__ __forceinline__ void decode(const Raw& raw, const uint32_t*, Unit<TwoBlocks>& unit) {
#pragma unroll
        for (int b = 0; b < 2; ++b) {
            raw.blocks[b].codes(unit.q + 8 * b);
            unit.scale[b] = raw.blocks[b].scale();
            if constexpr (MINS) unit.minimum[b] = raw.blocks[b].minimum();
        }
    }
};

// d; 32 signed bytes
struct BlockQ8_0 : Window<9> {
    static constexpr int BYTES = 34;
    static constexpr bool MINS = false;
    __device__ __forceinline__ float scale() const { return half_of(first_short()); }
    __device__ __forceinline__ void codes(int* q) const {
#pragma unroll
        for (int i = 0; i < 8; ++i) q[i] = static_cast<int>(word(i, 2));
    }
};

// d; 16 bytes of nibbles minus 8: values 0..15 low, 16..31 high
struct BlockQ4_0 : Window<5> {
    static constexpr int BYTES = 18;
    static constexpr bool MINS = false;
    __device__ __forceinline__ float scale() const { return half_of(first_short()); }
    __device__ __forceinline__ void codes(int* q) const {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const uint32_t packed = word(i, 2);
            q[i] = minus(low_nibbles(packed), 8);
            q[4 + i] = minus(high_nibbles(packed), 8);
        }
    }
};

// d; 16 bytes of nibbles that index a table
struct BlockIQ4_NL : Window<5> {
    static constexpr int BYTES = 18;
    static constexpr bool MINS = false;
    __device__ __forceinline__ float scale() const { return half_of(first_short()); }
    __device__ __forceinline__ void codes(int* q) const {
        const uint32_t table[4] = {0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u};
#pragma unroll
        for (int i = 0; i < 4; ++i) look_up_nibbles(table, word(i, 2), q[i], q[4 + i]);
    }
};

// e: the scale is 2^(e - 128); 16 bytes of nibbles: 4-bit floats, doubled to be whole
struct BlockMXFP4 : Window<5> {
    static constexpr int BYTES = 17;
    static constexpr bool MINS = false;
    __device__ __forceinline__ float scale() const {
        const uint32_t e = first_byte();  // below 2 the scale is no normal number
        return __uint_as_float(e < 2 ? 0x200000u << e : (e - 1) << 23);
    }
    __device__ __forceinline__ void codes(int* q) const {
        const uint32_t table[4] = {0x03020100u, 0x0c080604u, 0xfdfeff00u, 0xf4f8fafcu};
#pragma unroll
        for (int i = 0; i < 4; ++i) look_up_nibbles(table, word(i, 1), q[i], q[4 + i]);
    }
};

// d; 32 fifth bits; 16 bytes of nibbles; minus 16
struct BlockQ5_0 : Window<6> {
    static constexpr int BYTES = 22;
    static constexpr bool MINS = false;
    __device__ __forceinline__ float scale() const { return half_of(first_short()); }
    __device__ __forceinline__ void codes(int* q) const {
        const uint32_t fifth = word(0, 2);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const uint32_t packed = word(i + 1, 2);
            q[i] = minus(low_nibbles(packed) | bits_to_bytes(fifth >> (4 * i)) << 4, 16);
            q[4 + i] = minus(high_nibbles(packed) | bits_to_bytes(fifth >> (16 + 4 * i)) << 4, 16);
        }
    }
};

// d; m; 16 bytes of nibbles. Rows of whole blocks keep these at multiples of 4.
struct BlockQ4_1 {
    static constexpr int BYTES = 20;
    static constexpr bool MINS = true;
    uint32_t words[5];
    __device__ __forceinline__ void read(const uint8_t* p) {
#pragma unroll
        for (int i = 0; i < 5; ++i) words[i] = read_u32(p + 4 * i);
    }
    __device__ __forceinline__ float scale() const { return half_of(words[0] & 0xffffu); }
    __device__ __forceinline__ float minimum() const { return half_of(words[0] >> 16); }
    __device__ __forceinline__ void codes(int* q) const {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            q[i] = static_cast<int>(low_nibbles(words[i + 1]));
            q[4 + i] = static_cast<int>(high_nibbles(words[i + 1]));
        }
    }
};

// d; m; 32 fifth bits; 16 bytes of nibbles. These too lie at multiples of 4.
struct BlockQ5_1 {
    static constexpr int BYTES = 24;
    static constexpr bool MINS = true;
    uint32_t words[6];
    __device__ __forceinline__ void read(const uint8_t* p) {
#pragma unroll
        for (int i = 0; i < 6; ++i) words[i] = read_u32(p + 4 * i);
    }
    __device__ __forceinline__ float scale() const { return half_of(words[0] & 0xffffu); }
    __device__ __forceinline__ float minimum() const { return half_of(words[0] >> 16); }
    __device__ __forceinline__ void codes(int* q) const {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const uint32_t packed = words[i + 2], fifth = words[1];
            q[i] = static_cast<int>(low_nibbles(packed) | bits_to_bytes(fifth >> (4 * i)) << 4);
            q[4 + i] = static_cast<int>(high_nibbles(packed) | bits_to_bytes(fifth >> (16 + 4 * i)) << 4);
        }
    }
};

using FormatQ8_0 = TwoBlocks<BlockQ8_0>;
using FormatQ4_0 = TwoBlocks<BlockQ4_0>;
using FormatQ4_1 = TwoBlocks<BlockQ4_1>;
using FormatQ5_0 = TwoBlocks<BlockQ5_0>;
using FormatQ5_1 = TwoBlocks<BlockQ5_1>;
using FormatIQ4_NL = TwoBlocks<BlockIQ4_NL>;
using FormatMXFP4 = TwoBlocks<BlockMXFP4>;

// -- blocks of 64 ----------------------------------------------------------------------------------------------

// Sixteen 2-bit codes of a word as entries of a table of four bytes.
__device__ __forceinline__ void look_up_pairs(uint32_t table, uint32_t word, int* q) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        uint32_t nibbles = __byte_perm(word, 0, i ? 0x4342 : 0x4140);  // eight codes, 2 bits to a nibble
        nibbles = (nibbles | nibbles << 4) & 0x0f0f0f0fu;
        nibbles = (nibbles | nibbles << 2) & 0x33333333u;
        q[2 * i] = static_cast<int>(__byte_perm(table, 0, nibbles & 0xffffu));
        q[2 * i + 1] = static_cast<int>(__byte_perm(table, 0, nibbles >> 16));
    }
}

// d; 16 bytes of four 2-bit codes each: levels -1, 0, 1, 2
struct FormatQ2_0 {
    static constexpr int VALUES = 64, BYTES = 18, SCALES = 2, GRID_WORDS = 0;
    static constexpr bool MINS = false;
    using Raw = Window<5>;
    static __device__ __forceinline__ void load(const uint8_t* row, int unit, bool, Raw& raw) {
        raw.read(row + static_cast<int64_t>(unit) * BYTES);
    }
    static __device__ __forceinline__ void decode(const Raw& raw, const uint32_t*, Unit<FormatQ2_0>& unit) {
#pragma unroll
        for (int i = 0; i < 4; ++i) look_up_pairs(0x020100ffu, raw.word(i, 2), unit.q + 4 * i);
        unit.scale[0] = unit.scale[1] = half_of(raw.first_short());
    }
};

#include "formats_k.cuh"
#include "formats_iq.cuh"
