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
  enum Mark : u8 {
    kUsedAgain = 1,  // the hand passes by once
    kFresh = 2,      // read and not collected yet
  };

  // False when the system gives no memory.
  bool create(i64 capacity, i64 row_bytes) {
    buckets_ = (capacity + kBucket - 1) / kBucket;
    if (buckets_ < 1) buckets_ = 1;
    row_bytes_ = row_bytes;
    keys_ = (u32*)pages_take(slots() * 4);
    marks_ = (u8*)pages_take(slots());
    hands_ = (u8*)pages_take(buckets_);
    rows_ = (u8*)pages_take(slots() * row_bytes);
    return keys_ && marks_ && hands_ && rows_;
  }

  void destroy() {
    pages_give(keys_, slots() * 4);
    pages_give(marks_, slots());
    pages_give(hands_, buckets_);
    pages_give(rows_, slots() * row_bytes_);
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
    __builtin_memcpy(rows_ + slot * row_bytes_, bytes, (size_t)row_bytes_);
  }

  i64 slots() const { return buckets_ * kBucket; }
  i64 filled() const { return filled_; }
  i64 evicted() const { return evicted_; }

 private:
  i64 bucket(u32 row) const {
    const u32 mixed = (u32)((row * 0x9E3779B97F4A7C15ull) >> 32);
    return (i64)(((u64)mixed * (u64)buckets_) >> 32);
  }

  u32* keys_;   // row + 1; 0 = free
  u8* marks_;
  u8* hands_;   // of each bucket
  u8* rows_;
  i64 buckets_;
  i64 row_bytes_;
  i64 filled_;
  i64 evicted_;
};
