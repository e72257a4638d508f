// A cache of table rows: a hash table of fixed size whose slots are the cache.
//
// Open addressing within a bucket of 16 neighbouring slots (their keys are one cache line), so nothing
// is ever moved and a search ends after 16 keys. A full bucket gives up a slot by the clock rule: its
// hand passes over rows that were used again since it last came by. 95 bytes for a row of 90.
#pragma once
#include "page_io.h"

class RowCache {
 public:
  static constexpr i64 kBucket = 16;
  static constexpr i64 kFewestBuckets = 256;  // that shrinking leaves
  enum Mark : u8 {
    kUsedAgain = 1,  // the hand passes by once
    kFresh = 2,      // read and not collected yet
  };

  // False when the system gives no memory.
  bool create(i64 capacity, i64 row_bytes) {
    taken_ = (capacity + kBucket - 1) / kBucket;
    if (taken_ < 1) taken_ = 1;
    buckets_ = taken_;
    row_bytes_ = row_bytes;
    keys_ = (u32*)pages_take(slots() * 4);
    marks_ = (u8*)pages_take(slots());
    hands_ = (u8*)pages_take(buckets_);
    rows_ = (u8*)pages_take(slots() * row_bytes);
    return keys_ && marks_ && hands_ && rows_;
  }

  void destroy() {
    const i64 slots = taken_ * kBucket;
    pages_give(keys_, slots * 4);
    pages_give(marks_, slots);
    pages_give(hands_, taken_);
    pages_give(rows_, slots * row_bytes_);
  }

  // Halves the room and gives the memory of the other half back; its bytes, or 0 when there is little.
  // Rows move to where the smaller cache looks for them, which is never behind where they were, so all
  // is done in place. Where too many meet, those stay that were used again or wait for somebody.
  i64 shrink() {
    const i64 before = buckets_, half = before / 2;
    if (half < kFewestBuckets || filled_ == 0) return 0;
    buckets_ = half;
    const i64 held = filled_, evicted = evicted_;
    filled_ = 0;
    for (i64 b = 0; b < before; ++b) move_bucket(b);
    evicted_ = evicted + held - filled_;
    return forget((u8*)keys_, 4 * kBucket, before) + forget(marks_, kBucket, before) +
           forget(hands_, 1, before) + forget(rows_, kBucket * row_bytes_, before);
  }

  // The row's slot, or -1.
  i64 find(u32 row) const {
    const i64 first = bucket(row) * kBucket;
    for (i64 i = first; i < first + kBucket; ++i) {
      if (keys_[i] == row + 1) return i;
    }
    return -1;
  }

  const u8* at(i64 slot) const { return rows_ + slot * row_bytes_; }

  // Takes a slot for the row's next collection; true when the row was already collected before.
  bool collect(i64 slot) {
    const bool is_fresh = marks_[slot] & kFresh;
    marks_[slot] = is_fresh ? 0 : kUsedAgain;
    return !is_fresh;
  }

  // Keeps a row that is not in the cache.
  void insert(u32 row, const u8* bytes, u8 marks) {
    const i64 b = bucket(row), first = b * kBucket;
    i64 slot = -1;
    for (i64 i = first; i < first + kBucket && slot < 0; ++i) {
      if (keys_[i] == 0) slot = i;
    }
    if (slot < 0) {
      u8 hand = hands_[b];
      while (marks_[first + hand] & kUsedAgain) {
        marks_[first + hand] &= (u8)~kUsedAgain;
        hand = (u8)((hand + 1) % kBucket);
      }
      slot = first + hand;
      hands_[b] = (u8)((hand + 1) % kBucket);
      evicted_ += 1;
    } else {
      filled_ += 1;
    }
    keys_[slot] = row + 1;
    marks_[slot] = marks;
    __builtin_memmove(rows_ + slot * row_bytes_, bytes, (size_t)row_bytes_);
  }

  i64 slots() const { return buckets_ * kBucket; }
  i64 filled() const { return filled_; }
  i64 evicted() const { return evicted_; }

 private:
  // Inserts the rows of a bucket anew, after the number of buckets has changed.
  void move_bucket(i64 b) {
    const i64 first = b * kBucket;
    u32 keys[kBucket];
    u8 marks[kBucket];
    __builtin_memcpy(keys, keys_ + first, sizeof(keys));
    __builtin_memcpy(marks, marks_ + first, sizeof(marks));
    __builtin_memset(keys_ + first, 0, sizeof(keys));
    hands_[b] = 0;
    for (i64 i = 0; i < kBucket; ++i) {
      if (keys[i] && (marks[i] || has_free_slot(bucket(keys[i] - 1)))) {
        insert(keys[i] - 1, at(first + i), marks[i]);
      }
    }
  }

  bool has_free_slot(i64 b) const {
    for (i64 i = b * kBucket; i < (b + 1) * kBucket; ++i) {
      if (keys_[i] == 0) return true;
    }
    return false;
  }

  // Gives back what an array of `each` bytes a bucket had behind those that are left.
  i64 forget(u8* array, i64 each, i64 before) {
    const i64 from = (buckets_ * each + kPage - 1) / kPage * kPage;
    const i64 to = (before * each + kPage - 1) / kPage * kPage;
    if (from < to) pages_forget(array + from, to - from);
    return from < to ? to - from : 0;
  }

  i64 bucket(u32 row) const {
    const u32 mixed = (u32)((row * 0x9E3779B97F4A7C15ull) >> 32);
    return (i64)(((u64)mixed * (u64)buckets_) >> 32);
  }

  u32* keys_;   // row + 1; 0 = free
  u8* marks_;
  u8* hands_;   // of each bucket
  u8* rows_;
  i64 buckets_;
  i64 taken_;  // buckets that memory was taken for
  i64 row_bytes_;
  i64 filled_;
  i64 evicted_;
};
