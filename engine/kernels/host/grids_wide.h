// IQ2 and IQ3 for 512-bit vectors: codebooks as tables of bytes that lie in vector registers or the
// first-level cache, 64 look-ups at once. Included by grids.h; narrower variants load rows one by one.
//
// A table has two columns of a byte for each row: values 0..3 and 4..7 of an IQ2 row, 2 bits each, or
// values 0, 1 and 2, 3 of an IQ3 row, 4 bits each. The number is the magnitude's among the few that a
// codebook has. Results are planes: vector p holds values 4 k + p of each half.
#pragma once

// Table entries at `at` + 128 * (the bits of high, lowest first, from bit 7 of `at` on).
template <int n>
static inline Ints look_up_many(const u8* table, Ints at, const Bits* high) {
  if constexpr (n == 1) {
    return _mm512_permutex2var_epi8(load_ints(table), at, load_ints(table + 64));
  } else {
    const Ints low = look_up_many<n / 2>(table, at, high);
    const Ints up = look_up_many<n / 2>(table + n * 64, at, high);
    constexpr int bit = n == 2 ? 0 : (n == 4 ? 1 : 2);
    return _mm512_mask_blend_epi8(high[bit], low, up);
  }
}

// Byte k of lane i: byte `from(half of lane i, k)` of a vector.
struct ByteOrder {
  alignas(64) u8 at[64];
};
template <class F>
static constexpr ByteOrder byte_order(const F& from) {
  constexpr int half_of[16] = {0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15};
  ByteOrder order = {};
  for (int i = 0; i < 64; ++i) order.at[i] = (u8)from(half_of[i / 4], i % 4);
  return order;
}
static inline Ints in_order(const ByteOrder& order, Ints v) {
  return _mm512_permutexvar_epi8(load_ints(order.at), v);
}

// Sign bits in bytes of 8 values, byte 2 h and 2 h + 1 of half h.
static constexpr ByteOrder kSignOrder = byte_order([](int h, int k) { return 2 * h + k / 2; });
static inline Ints signs_in_order(__m256i signs) {
  return in_order(kSignOrder, _mm512_castsi256_si512(signs));
}

// Words with four codes of 7 bits at the bottom, to sign bits in bytes.
static inline __m256i signs_of_words(__m256i words) {
  const __m256i offset = _mm256_set1_epi64x(0x352e2720150e0700ll);
  const __m256i seven = _mm256_and_si256(_mm256_multishift_epi64_epi8(offset, words),
                                         _mm256_set1_epi8(0x7f));
  return with_eighth_sign(seven);
}

// Levels by number, with the signs of plane p. A code is 128 + level, and its negative as a byte is
// 128 - level.
template <int p>
static inline Ints signed_levels(__m128i levels, Ints numbers, Ints signs) {
  const Ints bit = _mm512_set1_epi16((short)(1 << p | 16 << (8 + p)));
  const __m128i codes = _mm_add_epi8(_mm_set1_epi8((char)0x80), levels);
  const Ints plus = _mm512_shuffle_epi8(_mm512_broadcast_i32x4(codes), numbers);
  return _mm512_mask_sub_epi8(plus, _mm512_test_epi8_mask(signs, bit), no_ints(), plus);
}

// The values of all halves from lanes with 16 numbers of 2 bits.
STRATUM_INLINE static void planes_of_pairs(Ints pairs, Ints signs, Ints codes[4]) {
  const __m128i levels = _mm_setr_epi8(8, 25, 43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
  const Ints three = bytes1(3);
  codes[0] = signed_levels<0>(levels, iand(pairs, three), signs);
  codes[1] = signed_levels<1>(levels, iand(shr<2>(pairs), three), signs);
  codes[2] = signed_levels<2>(levels, iand(shr<4>(pairs), three), signs);
  codes[3] = signed_levels<3>(levels, iand(shr<6>(pairs), three), signs);
}

// The same from bytes with two numbers of 4 bits: byte k of a lane has values 4 k, 4 k + 1 in `first`,
// the next two in `second`.
STRATUM_INLINE static void planes_of_nibbles(Ints first, Ints second, __m128i levels, Ints signs,
                                             Ints codes[4]) {
  const Ints fifteen = bytes1(15);
  codes[0] = signed_levels<0>(levels, iand(first, fifteen), signs);
  codes[1] = signed_levels<1>(levels, iand(shr<4>(first), fifteen), signs);
  codes[2] = signed_levels<2>(levels, iand(second, fifteen), signs);
  codes[3] = signed_levels<3>(levels, iand(shr<4>(second), fifteen), signs);
}

// Both columns of `n` times 128 rows, for bytes that come in pairs of the same row.
template <int n>
static inline Ints both_columns(const u8* table, Ints at, const Bits* high) {
  return _mm512_mask_blend_epi8(0xaaaaaaaaaaaaaaaaull, look_up_many<n>(table, at, high),
                                look_up_many<n>(table + n * 128, at, high));
}

// d; per block four codebook rows, then four sign codes and a scale in a word
struct SourceIQ2_XXS {
  STRATUM_TRAITS(false, true, 0, 63, true);
  const u8* row;
  const u8* here;
  __m256i words;
  void super(i64 s, i64, u8*) { here = row + s * 66; }
  STRATUM_INLINE void tile(i64, Ints codes[4]) {
    static constexpr ByteOrder rows =
        byte_order([](int h, int k) { return h / 2 * 8 + h % 2 * 2 + k / 2; });
    const Ints all = load_ints(here + 2);
    words = _mm512_cvtepi64_epi32(_mm512_srli_epi64(all, 32));
    const Ints at = in_order(rows, all);
    const Bits high[1] = {_mm512_movepi8_mask(at)};
    planes_of_pairs(both_columns<2>(stratum_codebooks.iq2_xxs_codes, at, high),
                    signs_in_order(signs_of_words(words)), codes);
  }
  Vec scales(i64 part) const { return odd_scales_of_words(here, 0.125f, words, part); }
  Vec mins(i64) const { return zero(); }
};

// d; 32 shorts: a codebook row of 9 bits and a sign code; 16 scales of 4 bits
struct SourceIQ2_XS {
  STRATUM_TRAITS(false, true, 0, 63, true);
  const u8* row;
  const u8* here;
  void super(i64 s, i64, u8*) { here = row + s * 74; }
  STRATUM_INLINE void tile(i64, Ints codes[4]) {
    static constexpr ByteOrder rows = byte_order([](int h, int k) { return 4 * h + k / 2 * 2; });
    static constexpr ByteOrder tops = byte_order([](int h, int k) { return 4 * h + k / 2 * 2 + 1; });
    const Ints all = load_ints(here + 2);
    const Ints at = in_order(rows, all), top = in_order(tops, all);
    const Bits high[2] = {_mm512_movepi8_mask(at), _mm512_test_epi8_mask(top, bytes1(1))};
    const __m256i seven = _mm512_cvtepi16_epi8(_mm512_srli_epi16(all, 9));
    planes_of_pairs(both_columns<4>(stratum_codebooks.iq2_xs_codes, at, high),
                    signs_in_order(with_eighth_sign(seven)), codes);
  }
  Vec scales(i64 part) const {
    return odd_scales_of_halves(read_half(here) * 0.125f, nibble_pairs(here + 66), part);
  }
  Vec mins(i64) const { return zero(); }
};

// d; qs[32]; signs[32]; qh[8] with bits 8 and 9 of the codebook rows; 16 scales of 4 bits
struct SourceIQ2_S {
  STRATUM_TRAITS(false, true, 0, 63, true);
  const u8* row;
  const u8* here;
  void super(i64 s, i64, u8*) { here = row + s * 82; }
  STRATUM_INLINE void tile(i64, Ints codes[4]) {
    static constexpr ByteOrder rows = byte_order([](int h, int k) { return 2 * h + k / 2; });
    static constexpr ByteOrder tops = byte_order([](int h, int) { return h / 2; });
    const Ints all = load_ints(here + 2);  // rows and signs
    const Ints at = in_order(rows, all);
    const Ints top = in_order(tops, _mm512_castsi128_si512(_mm_loadl_epi64((__m128i*)(here + 66))));
    // In even halves bits 0..3 belong to the two rows, in odd ones 4..7.
    const Ints eight = _mm512_setr_epi32(
        0x04040101, 0x04040101, 0x04040101, 0x04040101, 0x40401010, 0x40401010, 0x40401010,
        0x40401010, 0x04040101, 0x04040101, 0x04040101, 0x04040101, 0x40401010, 0x40401010,
        0x40401010, 0x40401010);
    const Bits high[3] = {_mm512_movepi8_mask(at), _mm512_test_epi8_mask(top, eight),
                          _mm512_test_epi8_mask(top, add_bytes(eight, eight))};
    const __m256i signs = _mm512_extracti64x4_epi64(all, 1);
    planes_of_pairs(both_columns<8>(stratum_codebooks.iq2_s_codes, at, high), signs_in_order(signs),
                    codes);
  }
  Vec scales(i64 part) const {
    return odd_scales_of_halves(read_half(here) * 0.125f, nibble_pairs(here + 74), part);
  }
  Vec mins(i64) const { return zero(); }
};

// d; 64 rows of 4 values; per block a word of four sign codes and a scale
struct SourceIQ3_XXS {
  STRATUM_TRAITS(false, true, 0, 63, true);
  const u8* row;
  const u8* here;
  __m256i words;
  void super(i64 s, i64, u8*) { here = row + s * 98; }
  STRATUM_INLINE void tile(i64, Ints codes[4]) {
    const u8* table = stratum_codebooks.iq3_xxs_codes;
    const Ints at = halves_to_lanes(load_ints(here + 2));
    const Bits high[1] = {_mm512_movepi8_mask(at)};
    words = _mm256_loadu_si256((const __m256i*)(here + 66));
    planes_of_nibbles(look_up_many<2>(table, at, high), look_up_many<2>(table + 256, at, high),
                      _mm_setr_epi8(4, 12, 20, 28, 36, 44, 52, 62, 0, 0, 0, 0, 0, 0, 0, 0),
                      signs_in_order(signs_of_words(words)), codes);
  }
  Vec scales(i64 part) const { return odd_scales_of_words(here, 0.25f, words, part); }
  Vec mins(i64) const { return zero(); }
};

// d; qs[64]; qh[8] with bit 8 of the rows; signs[32]; 8 scales of 4 bits
struct SourceIQ3_S {
  STRATUM_TRAITS(false, true, 0, 31, true);
  const u8* row;
  const u8* here;
  void super(i64 s, i64, u8*) { here = row + s * 110; }
  STRATUM_INLINE void tile(i64, Ints codes[4]) {
    const u8* table = stratum_codebooks.iq3_s_codes;
    const Ints at = load_ints(here + 2);
    Bits high[2] = {_mm512_movepi8_mask(at), 0};
    __builtin_memcpy(high + 1, here + 66, 8);
    const Ints first = halves_to_lanes(look_up_many<4>(table, at, high));
    const Ints second = halves_to_lanes(look_up_many<4>(table + 512, at, high));
    planes_of_nibbles(first, second,
                      _mm_setr_epi8(1, 3, 5, 7, 9, 11, 13, 15, 0, 0, 0, 0, 0, 0, 0, 0),
                      signs_in_order(_mm256_loadu_si256((const __m256i*)(here + 74))), codes);
  }
  Vec scales(i64 part) const {
    return odd_scales_of_blocks(here, 1.0f, nibbles_to_bytes(read_word(here + 106)), part);
  }
  Vec mins(i64) const { return zero(); }
};
