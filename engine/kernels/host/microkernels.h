// The two micro-kernels of matrix products: for weights as tiles of codes, and for float weights.
//
// A super of weights is decoded once into registers and multiplied with up to four rows of
// activations. For a given pair (matrix row, activation row) the operations and their order are the
// same for all M and R: results do not depend on what else is computed. int32 sums inside a half of
// 16 values, float32 sums across supers in ascending order, lane by lane; then the lanes.
#pragma once
#include "decode.h"

namespace STRATUM_ISA {

// What sources of one class have apart: where their activations lie and their offset (bytes.h).
struct CodeOrder {
  i64 activations;  // offset in a record
  int offset;       // log2
};
// Formats have a minimum or an offset, unless their codes are signed.
template <class Source>
static constexpr bool has_offset() {
  return !Source::kMins && !(Source::kSigned && kSignedShift < 0);
}
template <class Source>
static inline CodeOrder order_of() {
  return {Source::kPlanes ? QuantisedRow::kPlanes : QuantisedRow::kRuns, Source::kOffset};
}

// Micro-kernels leave vectors whose lanes are still to be summed, for M matrix rows and R activation
// rows at sums[r * stride + m]; the sums across lanes are taken for several calls at once.

// Rows of a matrix whose sums are taken at once, a multiple of M. From four sums on they stay in
// registers.
template <int M, int R>
constexpr int rows_at_once() {
  return M * R >= 4 ? M : W / (M * R) * M;
}

// Bytes that will be needed soon, to be fetched a few cache lines at a time: weights that are read
// slowly, for several rows of activations, are no stream that the processor foresees. To the
// second-level cache: in the first one they would drive out the activations.
struct Fetch {
  const u8* at;
  const u8* end;
  i64 each;  // bytes
  void some() {
    const u8* stop = at + least(each, end - at);
    STRATUM_ROLLED
    for (; at < stop; at += 64) _mm_prefetch((const char*)at, _MM_HINT_T1);
  }
};

// The end of a tile: the first `valid` of `rows` rows.
STRATUM_COLD void store_some(const float* all, i64 rows, i64 valid, i64 num_r, float* out, i64 stride) {
  for (i64 r = 0; r < num_r; ++r) {
    for (i64 m = 0; m < valid; ++m) out[r * stride + m] = all[r * rows + m];
  }
}

// The sums of `valid` of the vectors sums[r * rows + m], m < rows, to out[r * stride + m], r < num_r,
// which is R, or 3 of 4.
template <int rows, int R>
STRATUM_INLINE static void store_sums(const Vec* sums, i64 valid, i64 num_r, float* out, i64 stride) {
  alignas(64) float all[(rows * R + W - 1) / W * W];
  sums_of<rows * R>(sums, all);
  if (__builtin_expect(valid < rows, 0)) return store_some(all, rows, valid, num_r, out, stride);
  STRATUM_UNROLLED
  for (int r = 0; r < R; ++r) {
    if (r == 3 && num_r == 3) return;
    __builtin_memcpy(out + r * stride, all + r * rows, rows * sizeof(float));
  }
}
template <int rows, int R>
STRATUM_COLD void store_sums_of_memory(const Vec* sums, i64 valid, i64 num_r, float* out, i64 stride) {
  store_sums<rows, R>(sums, valid, num_r, out, stride);
}

// Scales, of which those of the first `blocks` blocks of a super count.
#if defined(STRATUM_WIDE)
static inline Vec scales_of_blocks(Vec scales, i64 blocks) {
  const u32 near = (1u << least(blocks, 4)) - 1, far = (1u << most(0, least(blocks, 8) - 4)) - 1;
  return _mm512_maskz_mov_ps((__mmask16)(near * 0x11 | far * 0x1100), scales);
}
#endif

// M matrix rows times R activation rows. kFetch: each super fetches some of what comes later. kOpen: what
// follows the rows may be read, so that a last super that they do not fill is none to be copied.
template <class Source, int M, int R, bool kFetch, bool kOpen = false>
static inline void multiply_tiles(Source* source, i64 blocks, CodeOrder order,
                                  const QuantisedRow* x, u8* tails, Fetch* fetch, Vec* sums,
                                  int stride) {
  Vec total[M][R];
  STRATUM_UNROLLED
  for (int m = 0; m < M; ++m) {
    STRATUM_UNROLLED
    for (int r = 0; r < R; ++r) total[m][r] = zero();
  }
  STRATUM_ROLLED
  for (i64 s = 0; s * kSuper < blocks; ++s) {
    STRATUM_UNROLLED
    for (int m = 0; m < M; ++m) {
      if constexpr (kOpen) {
        source[m].open(s);
      } else {
        source[m].super(s, blocks - s * kSuper, tails + m * kTailBytes);
      }
    }
    if constexpr (kFetch) fetch->some();
    STRATUM_UNROLLED
    for (i64 part = 0; part < kParts; ++part) {
      Ints codes[M][4];
      Vec scales[M], mins[M];
      STRATUM_UNROLLED
      for (int m = 0; m < M; ++m) {
        source[m].tile(part, codes[m]);
        scales[m] = source[m].scales(part);
        if constexpr (Source::kMins) mins[m] = source[m].mins(part);
        if constexpr (kOpen) {  // activations are zero there, but another row's scale may be no number
          scales[m] = scales_of_blocks(scales[m], blocks - s * kSuper);
          if constexpr (Source::kMins) mins[m] = scales_of_blocks(mins[m], blocks - s * kSuper);
        }
      }
      STRATUM_UNROLLED
      for (int r = 0; r < R; ++r) {
        const u8* record = x[r].memory + s * QuantisedRow::kRecord + part * 32;
        const Vec d = load((const float*)(record + QuantisedRow::kScales), Full{});
        Ints minus = no_ints();
        if constexpr (has_offset<Source>()) {
          minus = scaled_by_2(load_ints(record + QuantisedRow::kSums), order.offset);
        }
        STRATUM_UNROLLED
        for (int m = 0; m < M; ++m) {
          const Ints sums = dot4<Source::kSigned, Source::kLargest>(minus, codes[m],
                                                                    record + order.activations);
          total[m][r] = fma(to_floats(sums), mul(scales[m], d), total[m][r]);
        }
        if constexpr (Source::kMins) {
          const Vec totals = load((const float*)(record + QuantisedRow::kTotals), Full{});
          STRATUM_UNROLLED
          for (int m = 0; m < M; ++m) total[m][r] = fma(mins[m], totals, total[m][r]);
        }
      }
    }
  }
  STRATUM_UNROLLED
  for (int r = 0; r < R; ++r) {
    STRATUM_UNROLLED
    for (int m = 0; m < M; ++m) sums[r * stride + m] = total[m][r];
  }
}

struct LoadF32 {
  const float* p;
  template <class Lanes>
  Vec at(i64 i, Lanes lanes) const {
    return load(p + i, lanes);
  }
};
struct LoadF16 {
  const u16* p;
  template <class Lanes>
  Vec at(i64 i, Lanes lanes) const {
    return load(p + i, lanes);
  }
};
struct LoadBF16 {
  const u16* p;
  template <class Lanes>
  Vec at(i64 i, Lanes lanes) const {
    return load_brain(p + i, lanes);
  }
};

// `ahead`: bytes from here to the same place of the next matrix rows, which are fetched meanwhile; see
// Fetch. One row of activations with one matrix row at a time is a stream, and needs none.
template <class Source, int M, int R>
static inline void multiply_floats(const Source* w, i64 columns, const float* const* x, i64 ahead,
                                   Vec* sums, int stride) {
  Vec even[M][R], odd[M][R];
  STRATUM_UNROLLED
  for (int m = 0; m < M; ++m) {
    STRATUM_UNROLLED
    for (int r = 0; r < R; ++r) even[m][r] = odd[m][r] = zero();
  }
  const auto step = [&](i64 i, auto lanes, Vec(*to)[R]) {
    Vec k[M];
    STRATUM_UNROLLED
    for (int m = 0; m < M; ++m) {
      k[m] = w[m].at(i, lanes);
      if (M * R > 1) _mm_prefetch((const char*)(w[m].p + i) + ahead, _MM_HINT_T1);
    }
    STRATUM_UNROLLED
    for (int r = 0; r < R; ++r) {
      const Vec v = load(x[r] + i, lanes);
      STRATUM_UNROLLED
      for (int m = 0; m < M; ++m) to[m][r] = fma(k[m], v, to[m][r]);
    }
  };
  i64 i = 0;
  for (; i + 2 * W <= columns; i += 2 * W) {
    step(i, Full{}, even);
    step(i + W, Full{}, odd);
  }
  if (i + W <= columns) {
    step(i, Full{}, even);
    i += W;
  }
  if (i < columns) step(i, part(columns - i), odd);
  STRATUM_UNROLLED
  for (int r = 0; r < R; ++r) {
    STRATUM_UNROLLED
    for (int m = 0; m < M; ++m) sums[r * stride + m] = add(even[m][r], odd[m][r]);
  }
}

}  // namespace STRATUM_ISA
