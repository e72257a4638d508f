// Any block format to signed bytes with scales: for matrix products of formats without a fast source
// and for reading rows of tables. Plain loops; layouts: spec/qwen4exp.md section 8, twin:
// engine/gguf/blocks.py, whose floats `row_to_floats` gives bit for bit.
#pragma once
#include "formats.h"

extern "C" const u8* stratum_iq2_xs_grid;   // [512, 8], set from Python; null until then
extern "C" const u8* stratum_sign_patterns;  // [128]

namespace STRATUM_ISA {

// A decoded row of `supers` times 256 values; what the row lacks of the last super is 0.
struct DecodedRow {
  i8* weights;     // [supers, 8, 32]
  float* scale;    // [supers, 8, 2]: of each 16 values
  float* minimum;  // [supers, 2, 8]: added to each value; first halves of 8 blocks, then second halves
  static i64 bytes(i64 columns) { return ceil_div(columns, 256) * (256 + 128); }
  static DecodedRow at(u8* memory, i64 columns) {
    const i64 supers = ceil_div(columns, 256);
    float* floats = (float*)(memory + supers * 256);
    return {(i8*)memory, floats, floats + supers * 16};
  }
  // Block number b: scales and minima of its two halves.
  void set(i64 b, float scale0, float scale1, float min0, float min1) const {
    scale[2 * b] = scale0;
    scale[2 * b + 1] = scale1;
    minimum[b / 8 * 16 + b % 8] = min0;
    minimum[b / 8 * 16 + 8 + b % 8] = min1;
  }
  void set(i64 b, float s, float m) const { set(b, s, s, m, m); }
};

static inline u32 read_word(const u8* p) {
  u32 word;
  __builtin_memcpy(&word, p, 4);
  return word;
}

// Nibbles of 16 bytes, low ones first, with a fifth bit from `high` (0 for 4-bit formats).
static inline void nibbles_to(const u8* qs, u32 high, int subtract, i8* w) {
  for (int j = 0; j < 16; ++j) {
    w[j] = (i8)(((qs[j] & 15) | ((high >> j) & 1) << 4) - subtract);
    w[j + 16] = (i8)((qs[j] >> 4 | ((high >> (j + 16)) & 1) << 4) - subtract);
  }
}

static inline void super_q2_k(const u8* p, i8* w, i64 b, const DecodedRow& row) {
  const float d = read_half(p + 80), dmin = read_half(p + 82);
  for (int half = 0; half < 2; ++half) {
    for (int plane = 0; plane < 4; ++plane) {
      const u8* scales = p + 8 * half + 2 * plane;
      for (int l = 0; l < 32; ++l) {
        w[128 * half + 32 * plane + l] = (i8)((p[16 + 32 * half + l] >> 2 * plane) & 3);
      }
      row.set(b + 4 * half + plane, d * (float)(scales[0] & 15), d * (float)(scales[1] & 15),
              -(dmin * (float)(scales[0] >> 4)), -(dmin * (float)(scales[1] >> 4)));
    }
  }
}

static inline void super_q3_k(const u8* p, i8* w, i64 b, const DecodedRow& row) {
  const float d = read_half(p + 108);
  const u8* packed = p + 96;
  float scale[16];
  for (int g = 0; g < 16; ++g) {
    const int low = g < 8 ? packed[g] & 15 : packed[g - 8] >> 4;
    scale[g] = d * (float)((low | ((packed[8 + g % 4] >> 2 * (g / 4)) & 3) << 4) - 32);
  }
  for (int half = 0; half < 2; ++half) {
    for (int plane = 0; plane < 4; ++plane) {
      for (int l = 0; l < 32; ++l) {
        const int low = (p[32 + 32 * half + l] >> 2 * plane) & 3;
        const int high = (p[l] >> (4 * half + plane)) & 1;
        w[128 * half + 32 * plane + l] = (i8)(low - (high ? 0 : 4));
      }
      const int group = 8 * half + 2 * plane;
      row.set(b + 4 * half + plane, scale[group], scale[group + 1], 0.0f, 0.0f);
    }
  }
}

static inline void super_iq2_xs(const u8* p, i8* w, i64 b, const DecodedRow& row) {
  const float d = read_half(p);
  for (int g = 0; g < 8; ++g) {
    for (int l = 0; l < 4; ++l) {
      const u8* at = p + 2 + 2 * (4 * g + l);
      const int q = at[0] | at[1] << 8;
      const u8* magnitude = stratum_iq2_xs_grid + (q & 511) * 8;
      const int signs = stratum_sign_patterns[q >> 9];
      for (int j = 0; j < 8; ++j) {
        w[32 * g + 8 * l + j] = (i8)((signs >> j & 1) ? -(int)magnitude[j] : (int)magnitude[j]);
      }
    }
    const int s = p[66 + g];
    row.set(b + g, d * (0.5f + (float)(s & 15)) * 0.25f, d * (0.5f + (float)(s >> 4)) * 0.25f, 0.0f,
            0.0f);
  }
}

static inline void super_iq4_xs(const u8* p, i8* w, i64 b, const DecodedRow& row) {
  static const i8 table[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                               1,    13,   25,  38,  53,  69,  89,  113};
  const float d = read_half(p);
  const int high = p[2] | p[3] << 8;
  for (int g = 0; g < 8; ++g) {
    const u8* qs = p + 8 + 16 * g;
    for (int j = 0; j < 16; ++j) {
      w[32 * g + j] = table[qs[j] & 15];
      w[32 * g + 16 + j] = table[qs[j] >> 4];
    }
    const int scale = (p[4 + g / 2] >> 4 * (g % 2) & 15) | (high >> 2 * g & 3) << 4;
    row.set(b + g, d * (float)(scale - 32), 0.0f);
  }
}

static inline void blocks_q4_q5(const u8* p, i64 type, i8* w, i64 b, const DecodedRow& row) {
  const float d = read_half(p);
  switch (type) {
    case kQ4_0:
      nibbles_to(p + 2, 0, 8, w);
      row.set(b, d, 0.0f);
      break;
    case kQ4_1:
      nibbles_to(p + 4, 0, 0, w);
      row.set(b, d, read_half(p + 2));
      break;
    case kQ5_0:
      nibbles_to(p + 6, read_word(p + 2), 16, w);
      row.set(b, d, 0.0f);
      break;
    default:
      nibbles_to(p + 8, read_word(p + 4), 0, w);
      row.set(b, d, read_half(p + 2));
      break;
  }
}

// The blocks of a source as a decoded row (its minima, if any, are one per block).
template <class Source>
static inline void decode_source(const u8* p, i64 blocks, const DecodedRow& row) {
  Source source;
  source.row = p;
  for (i64 s = 0; s * kSuper < blocks; ++s) {
    const i64 here = least(kSuper, blocks - s * kSuper);
    source.super(s, here);
    alignas(32) float mins[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    if constexpr (Source::kMins) _mm256_store_ps(mins, source.mins_first());
    for (i64 u = 0; u * kUnitBlocks < here; ++u) {
      const Unit unit = source.unit(u, here);
      store_bytes(row.weights + s * 256 + u * kUnitBytes, unit.w);
      alignas(64) float lanes[W];
      store(lanes, unit.s, Full{});
      for (i64 b = 0; b < kUnitBlocks; ++b) {
        const i64 in_super = u * kUnitBlocks + b;
        row.set(s * kSuper + in_super, lanes[8 * b], lanes[8 * b + 4], mins[in_super],
                mins[in_super]);
      }
    }
  }
}

static inline void decode_supers(const u8* p, i64 type, i64 blocks, const DecodedRow& row) {
  for (i64 b = 0; b < blocks; b += kSuper) {
    i8* w = row.weights + b * kBlock;
    switch (type) {
      case kQ2_K: super_q2_k(p + b / 8 * 84, w, b, row); break;
      case kQ3_K: super_q3_k(p + b / 8 * 110, w, b, row); break;
      case kIQ2_XS: super_iq2_xs(p + b / 8 * 74, w, b, row); break;
      default: super_iq4_xs(p + b / 8 * 136, w, b, row); break;
    }
  }
}

// Decodes a row of `columns` values of a quantised type.
STRATUM_COLD void decode_row(const u8* p, i64 type, i64 columns, const DecodedRow& row) {
  const i64 blocks = columns / kBlock;
  for (i64 b = blocks; b < ceil_div(blocks, kSuper) * kSuper; ++b) {
    __builtin_memset(row.weights + b * kBlock, 0, kBlock);
    row.set(b, 0.0f, 0.0f);
  }
  switch (type) {
    case kQ8_0: return decode_source<SourceQ8_0>(p, blocks, row);
    case kQ4_K: return decode_source<SourceQ4_K>(p, blocks, row);
    case kQ5_K: return decode_source<SourceQ5_K>(p, blocks, row);
    case kQ6_K: return decode_source<SourceQ6_K>(p, blocks, row);
    case kQ2_0: return decode_source<SourceQ2_0>(p, blocks, row);
    case kIQ4_NL: return decode_source<SourceIQ4_NL>(p, blocks, row);
    case kQ4_0:
    case kQ4_1:
    case kQ5_0:
    case kQ5_1: {
      const i64 bytes = type == kQ4_0 ? 18 : type == kQ4_1 ? 20 : type == kQ5_0 ? 22 : 24;
      for (i64 b = 0; b < blocks; ++b) {
        blocks_q4_q5(p + b * bytes, type, row.weights + b * kBlock, b, row);
      }
      return;
    }
    default: return decode_supers(p, type, blocks, row);
  }
}

// The row as floats. `memory` holds DecodedRow::bytes(columns); unused for float types.
STRATUM_COLD void row_to_floats(const u8* p, i64 type, i64 columns, u8* memory, float* out) {
  if (type == kF32) {
    __builtin_memcpy(out, p, (size_t)columns * 4);
    return;
  }
  if (type == kF16 || type == kBF16) {
    const u16* halves = (const u16*)p;
    each_vector(columns, [&](i64 i, auto lanes) {
      store(out + i, type == kF16 ? load(halves + i, lanes) : load_brain(halves + i, lanes), lanes);
    });
    return;
  }
  const DecodedRow row = DecodedRow::at(memory, columns);
  decode_row(p, type, columns, row);
  for (i64 b = 0; b < columns / kBlock; ++b) {
    for (i64 j = 0; j < kBlock; ++j) {
      const i64 half = j / 16;
      out[b * kBlock + j] = row.scale[2 * b + half] * (float)row.weights[b * kBlock + j] +
                            row.minimum[b / 8 * 16 + half * 8 + b % 8];
    }
  }
}

}  // namespace STRATUM_ISA
