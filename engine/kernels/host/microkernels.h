// The two micro-kernels of matrix products: for weights as signed bytes, and for float weights.
//
// A block of weights is decoded once into registers and multiplied with up to four rows of
// activations. For a given pair (matrix row, activation row) the operations and their order are the
// same for all M and R: results do not depend on what else is computed. int32 sums inside a block of
// 32, float32 sums across blocks in ascending order, lane by lane; then the lanes.
#pragma once
#include "activations.h"

namespace STRATUM_ISA {

// M matrix rows times R activation rows. Only the first `valid` of the matrix rows are wanted: at the
// end of a tile the others repeat the last one, so that no further kernels are needed there.
template <class Source, int M, int R>
static inline void multiply_units(Source* source, i64 blocks, const QuantisedRow* x, i64 valid,
                                  float* const* out) {
  Vec total[M][R];
  __m256 minimum[M][R];
  STRATUM_UNROLLED
  for (int m = 0; m < M; ++m) {
    STRATUM_UNROLLED
    for (int r = 0; r < R; ++r) {
      total[m][r] = zero();
      minimum[m][r] = _mm256_setzero_ps();
    }
  }
  for (i64 s = 0; s * kSuper < blocks; ++s) {
    const i64 here = least(kSuper, blocks - s * kSuper);
    STRATUM_UNROLLED
    for (int m = 0; m < M; ++m) source[m].super(s, here);
    STRATUM_ROLLED
    for (i64 u = 0; u * kUnitBlocks < here; ++u) {
      Unit unit[M];
      STRATUM_UNROLLED
      for (int m = 0; m < M; ++m) unit[m] = source[m].unit(u, here);
      STRATUM_UNROLLED
      for (int r = 0; r < R; ++r) {
        const Ints q = load_bytes(x[r].q + s * 256 + u * kUnitBytes);
        const Vec d = spread(x[r].d + s * kSuper + u * kUnitBlocks);
        STRATUM_UNROLLED
        for (int m = 0; m < M; ++m) {
          total[m][r] = fma(to_floats(unit_dot(unit[m], q)), mul(unit[m].s, d), total[m][r]);
        }
      }
    }
    if constexpr (Source::kMins) {
      STRATUM_UNROLLED
      for (int r = 0; r < R; ++r) {
        const __m256 first = _mm256_loadu_ps(x[r].first + s * kSuper);
        const __m256 second = _mm256_loadu_ps(x[r].second + s * kSuper);
        STRATUM_UNROLLED
        for (int m = 0; m < M; ++m) {
          minimum[m][r] = _mm256_fmadd_ps(source[m].mins_first(), first, minimum[m][r]);
          minimum[m][r] = _mm256_fmadd_ps(source[m].mins_second(), second, minimum[m][r]);
        }
      }
    }
  }
  STRATUM_UNROLLED
  for (int r = 0; r < R; ++r) {
    STRATUM_UNROLLED
    for (int m = 0; m < M; ++m) {
      __m256 all = fold(total[m][r]);
      if constexpr (Source::kMins) all = _mm256_add_ps(all, minimum[m][r]);
      if (m < valid) out[r][m] = sum8(all);
    }
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

template <class Source, int M, int R>
static inline void multiply_floats(const Source* w, i64 columns, const float* const* x, i64 valid,
                                   float* const* out) {
  Vec even[M][R], odd[M][R];
  STRATUM_UNROLLED
  for (int m = 0; m < M; ++m) {
    STRATUM_UNROLLED
    for (int r = 0; r < R; ++r) even[m][r] = odd[m][r] = zero();
  }
  const auto step = [&](i64 i, auto lanes, Vec(*sums)[R]) {
    Vec k[M];
    STRATUM_UNROLLED
    for (int m = 0; m < M; ++m) k[m] = w[m].at(i, lanes);
    STRATUM_UNROLLED
    for (int r = 0; r < R; ++r) {
      const Vec v = load(x[r] + i, lanes);
      STRATUM_UNROLLED
      for (int m = 0; m < M; ++m) sums[m][r] = fma(k[m], v, sums[m][r]);
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
    for (int m = 0; m < M; ++m) {
      const float value = sum(add(even[m][r], odd[m][r]));
      if (m < valid) out[r][m] = value;
    }
  }
}

}  // namespace STRATUM_ISA
