// The largest of many scores, exactly: ties go to the lower number.
#pragma once
#include "arrays.h"

namespace STRATUM_ISA {

// Numbers of the `wanted` largest of `count` scores (not negative, `wanted` < `count`), ascending.
// `keys` has room for `count`. Scores above the wanted-th largest are all chosen, of those equal to
// it the first ones. The wanted-th largest is found by its bits, one byte after the other from the
// top: floats that are not negative are ordered as their bits are.
STRATUM_COLD void choose_largest(const float* scores, i64 count, i64 wanted, u32* keys,
                                  i32* chosen) {
  __builtin_memcpy(keys, scores, (size_t)count * 4);
  u32 threshold = 0;
  i64 rank = wanted;  // of the threshold among the keys that share its bytes so far
  for (int shift = 24; shift >= 0; shift -= 8) {
    i64 histogram[256];
    __builtin_memset(histogram, 0, sizeof(histogram));
    for (i64 i = 0; i < count; ++i) {
      const u32 key = keys[i];
      if (((uint64_t)(key ^ threshold) >> (shift + 8)) == 0) ++histogram[(key >> shift) & 255];
    }
    int byte = 255;
    while (histogram[byte] < rank) rank -= histogram[byte--];
    threshold |= (u32)byte << shift;
  }
  i64 n = 0;
  for (i64 i = 0; i < count && n < wanted; ++i) {
    if (keys[i] > threshold) {
      chosen[n++] = (i32)i;
    } else if (keys[i] == threshold && rank > 0) {
      chosen[n++] = (i32)i;
      --rank;
    }
  }
}

}  // namespace STRATUM_ISA
