// Prompt look-up: where did the newest tokens of a sequence stand before, and what came then?
//
// All memory is the caller's (engine/kernels/lookup.py): tokens, for each of them the last place
// before it whose three newest tokens have the same hash, and the newest place of each hash. That is
// 4 + 4 + at most 8 bytes a token. Appending costs the same at any length: the match of the token
// before is followed, and only a short one is compared with a bounded number of other places.
#include "api.h"

#if defined(_WIN32)
#define STRATUM_API extern "C" __declspec(dllexport)
#else
#define STRATUM_API extern "C" __attribute__((visibility("default")))
#endif

constexpr i64 kHashed = 3;      // tokens of a hash: the shortest match
constexpr i64 kLongEnough = 12; // a match of so many tokens is followed without a look at others
constexpr i64 kMostCompared = 24;
constexpr i64 kMostCounted = 1 << 20;

// `LookupIndex` of engine/kernels/lookup.py.
struct LookupIndex {
  i32* tokens;    // [capacity]
  i32* previous;  // [capacity] -1 = none
  i32* newest;    // [mask + 1] -1 = none
  i64 capacity;
  i64 mask;
  i64 length;
  i64 match;       // the place that continues like the sequence's end; 0 = none
  i64 num_matched; // tokens before it that equal the newest ones
};

static inline i64 hash_of(const LookupIndex* x, i64 last) {
  const u32 a = (u32)x->tokens[last - 2], b = (u32)x->tokens[last - 1], c = (u32)x->tokens[last];
  uint64_t h = (uint64_t)a * 0x9E3779B97F4A7C15ull;
  h = (h ^ (h >> 29) ^ b) * 0xBF58476D1CE4E5B9ull;
  h = (h ^ (h >> 32) ^ c) * 0x94D049BB133111EBull;
  return (i64)((h >> 20) & (uint64_t)x->mask);
}

// How many tokens up to `place` equal the newest ones; counts to `most`.
static inline i64 common(const LookupIndex* x, i64 place, i64 most) {
  const i64 last = x->length - 1;
  i64 n = 0;
  while (n < most && n <= place && x->tokens[place - n] == x->tokens[last - n]) ++n;
  return n;
}

static void find(LookupIndex* x, i64 first) {
  i64 place = first;
  for (i64 i = 0; place >= 0 && i < kMostCompared; ++i, place = x->previous[place]) {
    if (x->num_matched >= kHashed) {  // only a longer match is of interest
      const i64 at = place - x->num_matched;
      if (at < 0 || x->tokens[at] != x->tokens[x->length - 1 - x->num_matched]) continue;
    }
    const i64 n = common(x, place, kLongEnough);
    if (n >= kHashed && n > x->num_matched) {
      x->match = place + 1;
      x->num_matched = n;
      if (n >= kLongEnough) return;
    }
  }
}

static inline void append(LookupIndex* x, i32 token) {
  const i64 last = x->length;
  x->tokens[last] = token;
  const bool follows = x->match > 0 && x->tokens[x->match] == token;
  x->length = last + 1;
  if (follows) {
    ++x->match;
    if (x->num_matched < kMostCounted) ++x->num_matched;
  } else {
    x->match = 0;
    x->num_matched = 0;
  }
  if (last < kHashed - 1) {
    x->previous[last] = -1;
    return;
  }
  const i64 hash = hash_of(x, last);
  const i32 before = x->newest[hash];
  x->previous[last] = before;
  x->newest[hash] = (i32)last;
  if (x->num_matched < kLongEnough) find(x, before);
}

// Takes tokens that are part of the sequence for good; the caller has made room.
STRATUM_API i32 stratum_lookup_append(LookupIndex* x, const i32* tokens, i64 count) {
  if (count < 0 || x->length + count > x->capacity) return kWrongShape;
  for (i64 i = 0; i < count; ++i) append(x, tokens[i]);
  return kOk;
}

static inline i64 draft(const LookupIndex* x, i64 least, i64 most, i32* out) {
  if (x->match == 0 || x->num_matched < least) return 0;
  for (i64 i = 0; i < most; ++i) {
    const i64 place = x->match + i;
    // Behind the sequence's end stands what was just drafted: a period goes on.
    out[i] = place < x->length ? x->tokens[place] : out[place - x->length];
  }
  return most;
}

// What came after the newest tokens when they stood there before: `most` tokens, or none when fewer
// than `least` of them match.
STRATUM_API i64 stratum_lookup_draft(const LookupIndex* x, i64 least, i64 most, i32* out) {
  return draft(x, least, most, out);
}

// Plays a text: drafts, takes what was right and one token more, and so on. `counts` gets the number
// of steps, of drafted and of accepted tokens.
STRATUM_API i32 stratum_lookup_play(LookupIndex* x, const i32* text, i64 length, i64 least, i64 most,
                                    i64* counts) {
  i32 drafted[64];
  if (most < 1 || most > 64 || x->length + length > x->capacity) return kWrongShape;
  counts[0] = counts[1] = counts[2] = 0;
  for (i64 at = 0; at < length;) {
    const i64 n = draft(x, least, most, drafted);
    i64 right = 0;
    while (right < n && at + right < length && drafted[right] == text[at + right]) ++right;
    ++counts[0];
    counts[1] += n;
    counts[2] += right;
    const i64 taken = at + right + 1 < length ? right + 1 : length - at;
    for (i64 i = 0; i < taken; ++i) append(x, text[at + i]);
    at += taken;
  }
  return kOk;
}
