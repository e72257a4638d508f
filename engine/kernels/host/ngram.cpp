// N-gram caches: which token came most often after the newest one to four tokens?
//
// Two kinds. A *table* counts what is appended (a sequence's own tokens, or those of many requests):
// two hash tables in the caller's memory, of n-grams and of (n-gram, successor) pairs; an n-gram keeps
// how often it came, its most frequent successor and that one's count, so nothing is searched when
// drafting. A *static* table is a file that was built once and is used where it is mapped: pairs of
// tokens with their successors by falling count, a single successor lying in the slot itself.
//
// Keys are 64-bit hashes; two n-grams of one hash would share counts, which drafts worse and changes
// nothing else. Thresholds are those of llama.cpp's n-gram drafting, tested before anything is scored.
#include "api.h"

#if defined(_WIN32)
#define STRATUM_API extern "C" __declspec(dllexport)
#else
#define STRATUM_API extern "C" __attribute__((visibility("default")))
#endif

constexpr i64 kOrders = 4;

struct Gram {
  u64 key;  // 0 = free
  u32 total;
  u32 top_count;
  i32 top;
  i32 unused;
};

struct Pair {
  u64 key;  // 0 = free
  u64 count;
};

// `NgramTable` of engine/kernels/ngram.py.
struct NgramTable {
  Gram* grams;
  Pair* pairs;
  i64 gram_mask;
  i64 pair_mask;
  i64 num_grams;
  i64 num_pairs;
};

// A slot of a static table. `successors`: 0 = the slot is free, 1 = the one successor is `first` and
// came `total` times, else their number, and they begin at entry `first`.
struct StaticSlot {
  i32 a, b;
  u32 total;
  u32 successors;
  u32 first;
};

struct StaticEntry {
  i32 token;
  u32 count;
};

// `StaticTable` of engine/kernels/ngram.py.
struct StaticTable {
  const StaticSlot* slots;
  const StaticEntry* entries;
  i64 mask;
  i64 num_entries;
};

static inline u64 mixed(u64 h) {
  h = (h ^ (h >> 30)) * 0xBF58476D1CE4E5B9ull;
  h = (h ^ (h >> 27)) * 0x94D049BB133111EBull;
  return h ^ (h >> 31);
}

// Key of the `order` tokens that end before `end`; never 0.
static inline u64 key_of(const i32* end, i64 order) {
  u64 h = (u64)order * 0x9E3779B97F4A7C15ull;
  for (i64 i = 1; i <= order; ++i) h = mixed(h ^ (u64)(u32)end[-i]) + 0x9E3779B97F4A7C15ull;
  return h ? h : 1;
}

static inline u64 pair_key(u64 gram, i32 token) {
  const u64 h = mixed(gram ^ ((u64)(u32)token * 0xD6E8FEB86659FD93ull));
  return h ? h : 1;
}

static inline Gram* gram_place(const NgramTable* t, u64 key) {
  for (i64 at = (i64)(key >> 8) & t->gram_mask;; at = (at + 1) & t->gram_mask) {
    if (t->grams[at].key == key || t->grams[at].key == 0) return t->grams + at;
  }
}

static inline Pair* pair_place(const NgramTable* t, u64 key) {
  for (i64 at = (i64)(key >> 8) & t->pair_mask;; at = (at + 1) & t->pair_mask) {
    if (t->pairs[at].key == key || t->pairs[at].key == 0) return t->pairs + at;
  }
}

static inline void count(NgramTable* t, u64 key, i32 token, u32 times) {
  Gram* gram = gram_place(t, key);
  if (gram->key == 0) {
    gram->key = key;
    ++t->num_grams;
  }
  Pair* pair = pair_place(t, pair_key(key, token));
  if (pair->key == 0) {
    pair->key = pair_key(key, token);
    ++t->num_pairs;
  }
  pair->count += times;
  gram->total += times;
  // Of equally frequent successors the newest: what was said last is said again more often.
  if (pair->count >= gram->top_count) {
    gram->top = token;
    gram->top_count = (u32)pair->count;
  }
}

// Counts the tokens `tokens[known .. length)`, each behind the up to four before it. The caller has
// made room: `4 * (length - known)` more n-grams and pairs, half of the tables free.
STRATUM_API i32 stratum_ngram_append(NgramTable* t, const i32* tokens, i64 known, i64 length) {
  const i64 more = kOrders * (length - known);
  if (t->num_grams + more > t->gram_mask || t->num_pairs + more > t->pair_mask) return kWrongShape;
  for (i64 at = known; at < length; ++at) {
    for (i64 order = 1; order <= kOrders && order <= at; ++order) {
      count(t, key_of(tokens + at, order), tokens[at], 1);
    }
  }
  return kOk;
}

// Moves everything into a larger, empty table.
STRATUM_API void stratum_ngram_move(const NgramTable* from, NgramTable* to) {
  for (i64 at = 0; at <= from->gram_mask; ++at) {
    if (from->grams[at].key == 0) continue;
    *gram_place(to, from->grams[at].key) = from->grams[at];
    ++to->num_grams;
  }
  for (i64 at = 0; at <= from->pair_mask; ++at) {
    if (from->pairs[at].key == 0) continue;
    *pair_place(to, from->pairs[at].key) = from->pairs[at];
    ++to->num_pairs;
  }
}

// llama.cpp's thresholds by order: how often an n-gram must have come, and its best successor's share.
static const u32 kLaxTotal[kOrders] = {2, 2, 1, 1};
static const u32 kLaxPercent[kOrders] = {66, 50, 50, 50};
static const u32 kStrictTotal[kOrders] = {4, 3, 2, 2};
static const u32 kStrictPercent[kOrders] = {75, 66, 66, 66};

static inline u64 static_hash(i32 a, i32 b) {
  return mixed(((u64)(u32)a << 32 | (u32)b) * 0x9E3779B97F4A7C15ull);
}

static inline const StaticSlot* find_static(const StaticTable* t, i32 a, i32 b) {
  i64 at = (i64)(static_hash(a, b) & (u64)t->mask);
  for (i64 tried = 0; tried <= t->mask; ++tried, at = (at + 1) & t->mask) {
    const StaticSlot* slot = t->slots + at;
    if (slot->successors == 0) return nullptr;
    if (slot->a == a && slot->b == b) return slot;
  }
  return nullptr;
}

// The number of a slot's successors that are in the file, `*out` the first of them; those with the
// most counts come first.
static inline i64 entries_of(const StaticTable* t, const StaticSlot* slot, StaticEntry* single,
                             const StaticEntry** out) {
  if (slot->successors == 1) {
    *single = {(i32)slot->first, slot->total};
    *out = single;
    return 1;
  }
  if ((i64)slot->first >= t->num_entries) return 0;  // a damaged file
  *out = t->entries + slot->first;
  const i64 room = t->num_entries - (i64)slot->first;
  return (i64)slot->successors < room ? (i64)slot->successors : room;
}

static inline i32 best_static(const StaticTable* t, const StaticSlot* slot) {
  StaticEntry single;
  const StaticEntry* entries;
  if (slot->total < kStrictTotal[1] || entries_of(t, slot, &single, &entries) == 0) return -1;
  return (u64)100 * entries->count >= (u64)kStrictPercent[1] * slot->total ? entries->token : -1;
}

constexpr i64 kMostWeighed = 8;  // successors of a corpus that are compared with those of a sequence

// What came most often behind the newest tokens. Where the corpus knows the newest two, what it saw
// behind them counts a hundredfold, as in llama.cpp: it confirms some successors and not others.
static inline i32 best_of(const NgramTable* t, const i32* end, i64 known, const u32* totals,
                          const u32* percents, const StaticTable* file, const StaticSlot* slot) {
  StaticEntry single;
  const StaticEntry* entries = nullptr;
  i64 num_entries = slot ? entries_of(file, slot, &single, &entries) : 0;
  if (num_entries > kMostWeighed) num_entries = kMostWeighed;
  for (i64 order = known < kOrders ? known : kOrders; order >= 1; --order) {
    const u64 key = key_of(end, order);
    const Gram* gram = gram_place(t, key);
    if (gram->key == 0 || gram->total < totals[order - 1]) continue;
    i32 token = gram->top;
    u64 times = gram->top_count, best = times;
    for (i64 i = 0; i < num_entries; ++i) {
      u64 found = gram->top_count;
      if (entries[i].token != gram->top) {
        const Pair* pair = pair_place(t, pair_key(key, entries[i].token));
        found = pair->key ? pair->count : 0;
      }
      const u64 weight = found * 100 * entries[i].count;
      if (weight > best) {
        best = weight;
        token = entries[i].token;
        times = found;
      }
    }
    if (100 * times < (u64)percents[order - 1] * gram->total) continue;
    return token;
  }
  return -1;
}

// Drafts up to `most` tokens behind `recent[0 .. known)` (the newest last, room for `most` more
// behind it): of the sequence's own table first, then of that of all requests, then of the file. Any
// of the tables may be null. Returns how many were drafted.
STRATUM_API i64 stratum_ngram_draft(const NgramTable* own, const NgramTable* others,
                                    const StaticTable* file, i32* recent, i64 known, i64 most) {
  if (known < 2) return 0;  // as in llama.cpp: a single token tells too little
  i64 n = 0;
  for (; n < most; ++n) {
    const i32* end = recent + known + n;
    const i64 length = known + n;
    const StaticSlot* slot = file && length >= 2 ? find_static(file, end[-2], end[-1]) : nullptr;
    i32 token = own ? best_of(own, end, length, kLaxTotal, kLaxPercent, file, slot) : -1;
    if (token < 0 && others) {
      token = best_of(others, end, length, kStrictTotal, kStrictPercent, file, slot);
    }
    if (token < 0 && slot) token = best_static(file, slot);
    if (token < 0) break;
    recent[known + n] = token;
  }
  return n;
}

// Puts a pair of tokens into the slots of a table that is being built; they must have room.
STRATUM_API void stratum_ngram_put(StaticSlot* slots, i64 mask, const StaticSlot* filled, i64 number) {
  for (i64 i = 0; i < number; ++i) {
    i64 at = (i64)(static_hash(filled[i].a, filled[i].b) & (u64)mask);
    while (slots[at].successors != 0) at = (at + 1) & mask;
    slots[at] = filled[i];
  }
}

// Plays a text as stratum_lookup_play does. `recent` has room for `length + most` tokens and holds
// none; the own table has room for all of it. `counts`: steps, drafted, accepted.
STRATUM_API i32 stratum_ngram_play(NgramTable* own, const NgramTable* others,
                                   const StaticTable* file, const i32* text, i64 length, i64 most,
                                   i32* recent, i64* counts) {
  counts[0] = counts[1] = counts[2] = 0;
  for (i64 at = 0; at < length;) {
    const i64 n = stratum_ngram_draft(own, others, file, recent, at, most);
    i64 right = 0;
    while (right < n && at + right < length && recent[at + right] == text[at + right]) ++right;
    ++counts[0];
    counts[1] += n;
    counts[2] += right;
    const i64 taken = at + right + 1 < length ? right + 1 : length - at;
    for (i64 i = 0; i < taken; ++i) recent[at + i] = text[at + i];
    if (own) {
      const i32 status = stratum_ngram_append(own, recent, at, at + taken);
      if (status != kOk) return status;
    }
    at += taken;
  }
  return kOk;
}
