// What operations on sequences share: the layout of a pass, and the history of convolutions.
#pragma once
#include "functions.h"

namespace STRATUM_ISA {

// The last `length` of history and inputs, oldest first: a convolution's new history. Inputs of a row
// of `width` floats lie `stride` apart; the history's rows follow each other.
STRATUM_COLD void move_history(const float* history, const float* inputs, i64 stride, i64 count,
                                i64 length, i64 width, float* to) {
  for (i64 j = 0; j < length; ++j) {
    const i64 row = count - length + j;
    copy(row < 0 ? history + (length + row) * width : inputs + row * stride, width, to + j * width);
  }
}

// Sequences of a pass lie in order inside its rows, and their slots inside the pool. Rows are counted
// from the first sequence's start: some sequences of a plan, with their rows, are a plan too.
STRATUM_COLD bool sequences_fit(i64 sequences, const i32* start, const i32* slot, const i32* half,
                                 i64 rows, i64 slots) {
  if (sequences < 0 || start[sequences] - start[0] != rows) return false;
  for (i64 s = 0; s < sequences; ++s) {
    if (start[s + 1] < start[s] || slot[s] < 0 || slot[s] >= slots || (half[s] & ~1)) return false;
  }
  return true;
}

// First rows of the sequences, counted from the first sequence's; `to` holds sequences + 1 numbers.
static inline const i32* own_starts(const i32* start, i64 sequences, i32* to) {
  for (i64 s = 0; s <= sequences; ++s) to[s] = start[s] - start[0];
  return to;
}

}  // namespace STRATUM_ISA
