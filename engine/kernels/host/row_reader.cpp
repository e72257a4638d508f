// See row_reader.h.
//
// A row has a number; its bytes lie in one page of the file or across the border of two. What is read
// at once is a span: one or two pages, each span once however many rows want it. Requested rows wait in
// a queue while the most reads are in flight; each call starts some of them when others have ended.
#include "row_reader.h"

#include <stdlib.h>

#include "row_cache.h"

#if defined(_WIN32)
#define STRATUM_API extern "C" __declspec(dllexport)
#else
#define STRATUM_API extern "C" __attribute__((visibility("default")))
#endif

namespace {

constexpr i64 kSpans = 256;        // reads in flight: more make none of the measured disks faster
constexpr i64 kQueue = 1 << 16;    // requested rows that wait
constexpr i64 kHeads = 1024;       // of the lists of spans, by page
constexpr i64 kMostRows = 4096;    // requested rows that reads in flight will bring
constexpr i32 kTries = 2;
constexpr i64 kMostAwaited = 32;  // reads at once: fewer wake-ups, and others stay in flight meanwhile

struct Span {
  PageRead read;
  i64 first;   // page
  i64 pages;   // 1 or 2; 0 = free
  i32 tries;
  i32 rows;    // list of requested rows, -1 = end
  Span* next;  // of the same head
};

struct Wanted {
  u32 row;
  i32 next;
};

// What collect still lacks: `keys` are row << 32 | place in the output, ascending.
struct Missing {
  const u64* keys;
  u8* is_done;
  i64 count;
  i64 left;
  u8* out;
};

}  // namespace

struct RowReader {
  PageIo* io;
  Gate* gate;
  RowCache cache;
  RowFigures figures;
  RowFailure failure;
  i64 offset;  // of the table in the file
  i64 num_rows;
  i64 row_bytes;
  u8* buffers;  // [kSpans, 2 pages]
  Span spans[kSpans];
  Span* heads[kHeads];
  Span* free_spans;
  Wanted wanted[kMostRows];
  i32 free_wanted;
  u32 queue[kQueue];
  i64 queue_first;  // counts up; the place is its rest by kQueue
  i64 queue_last;
  u64* keys;  // scratch of a call: [2, room]
  u8* is_done;
  i64 room;
};

static i64 start_of(const RowReader* r, i64 row) { return r->offset + row * r->row_bytes; }

static bool make_room(RowReader* r, i64 count) {
  if (count <= r->room) return true;
  free(r->keys);
  free(r->is_done);
  r->room = 0;
  r->keys = (u64*)malloc((size_t)count * 2 * sizeof(u64));
  r->is_done = (u8*)malloc((size_t)count);
  if (r->keys == nullptr || r->is_done == nullptr) return false;
  r->room = count;
  return true;
}

// Sorts by the upper halves; `spare` has room for as many.
static void sort_keys(u64* keys, u64* spare, i64 count) {
  if (count <= 64) {
    for (i64 i = 1; i < count; ++i) {
      const u64 key = keys[i];
      i64 at = i;
      for (; at > 0 && keys[at - 1] > key; --at) keys[at] = keys[at - 1];
      keys[at] = key;
    }
    return;
  }
  for (int shift = 32; shift < 64; shift += 8) {
    i64 starts[257] = {};
    for (i64 i = 0; i < count; ++i) starts[((keys[i] >> shift) & 255) + 1] += 1;
    for (int digit = 0; digit < 256; ++digit) starts[digit + 1] += starts[digit];
    for (i64 i = 0; i < count; ++i) spare[starts[(keys[i] >> shift) & 255]++] = keys[i];
    u64* sorted = spare;
    spare = keys;
    keys = sorted;
  }  // four passes: sorted keys are back where they were
}

// The span in flight that covers these pages, or null.
static Span* covering(RowReader* r, i64 first, i64 last) {
  for (i64 page = first; page >= first - 1; --page) {
    for (Span* s = r->heads[page & (kHeads - 1)]; s != nullptr; s = s->next) {
      if (s->first == page && page + s->pages > last) return s;
    }
  }
  return nullptr;
}

static void forget(RowReader* r, Span* span) {
  Span** link = &r->heads[span->first & (kHeads - 1)];
  while (*link != span) link = &(*link)->next;
  *link = span->next;
  while (span->rows >= 0) {
    Wanted* wanted = &r->wanted[span->rows];
    const i32 next = wanted->next;
    wanted->next = r->free_wanted;
    r->free_wanted = span->rows;
    span->rows = next;
  }
  span->pages = 0;
  span->next = r->free_spans;
  r->free_spans = span;
}

static void begin_read(RowReader* r, Span* span) {
  span->tries += 1;
  r->figures.reads += 1;
  r->figures.read_bytes += span->read.bytes;
  page_io_start(r->io, &span->read);
}

// Starts reading pages; null when the most reads are in flight.
static Span* start_span(RowReader* r, i64 first, i64 last) {
  Span* span = r->free_spans;
  if (span == nullptr) return nullptr;
  r->free_spans = span->next;
  span->first = first;
  span->pages = last - first + 1;
  span->tries = 0;
  span->rows = -1;
  span->read.offset = first * kPage;
  span->read.bytes = span->pages * kPage;
  span->next = r->heads[first & (kHeads - 1)];
  r->heads[first & (kHeads - 1)] = span;
  begin_read(r, span);
  return span;
}

// Makes sure that a row is being read; the span, or null when no more can be in flight.
static Span* start_row(RowReader* r, i64 row) {
  const i64 start = start_of(r, row);
  const i64 first = start / kPage, last = (start + r->row_bytes - 1) / kPage;
  Span* span = covering(r, first, last);
  return span != nullptr ? span : start_span(r, first, last);
}

// The row's bytes in a span that was read, or null when the read fell short of them.
static const u8* row_in(const RowReader* r, const Span* span, i64 row) {
  const i64 at = start_of(r, row) - span->read.offset;
  return at >= 0 && at + r->row_bytes <= span->read.result ? span->read.buffer + at : nullptr;
}

static void keep(RowReader* r, u32 row, const u8* bytes, u8 marks) {
  if (r->cache.find(row) < 0) r->cache.insert(row, bytes, marks);
}

static void note_failure(RowReader* r, const Span* span) {
  const i64 result = span->read.result;
  r->failure.offset = span->read.offset + (result > 0 ? result : 0);
  r->failure.error = result < 0 ? -result : 0;
}

// The first of the missing rows that begins in a span or behind it.
static i64 first_missing(const RowReader* r, const Missing* m, const Span* span) {
  i64 low = 0, high = m->count;
  while (low < high) {
    const i64 middle = (low + high) / 2;
    if (start_of(r, (i64)(m->keys[middle] >> 32)) < span->read.offset) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// Hands out what a span brought to those that collect; false when it fell short of a row of theirs.
static bool give_to(RowReader* r, Missing* m, const Span* span) {
  const i64 end = span->read.offset + span->read.bytes;
  bool is_whole = true;
  for (i64 i = first_missing(r, m, span); i < m->count; ++i) {
    const u32 row = (u32)(m->keys[i] >> 32);
    if (start_of(r, row) + r->row_bytes > end) break;
    if (m->is_done[i]) continue;
    const u8* bytes = row_in(r, span, row);
    if (bytes == nullptr) {
      is_whole = false;
      continue;
    }
    __builtin_memcpy(m->out + (i64)(m->keys[i] & 0xffffffff) * r->row_bytes, bytes,
                     (size_t)r->row_bytes);
    m->is_done[i] = 1;
    m->left -= 1;
    if (i && (u32)(m->keys[i - 1] >> 32) == row) {
      r->figures.hits += 1;
    } else {
      keep(r, row, bytes, 0);
    }
  }
  return is_whole;
}

// Takes one finished read in; false when none has finished. `m`: what is being collected, or null.
// A failed read whose rows are being collected is tried again; `failed` is set when that failed too.
static bool take_finished(RowReader* r, Missing* m, i64 wait, bool* failed) {
  PageRead* read = page_io_finish(r->io, wait);
  if (read == nullptr) return false;
  Span* span = (Span*)read;
  if (read->result < 0) r->figures.failed_reads += 1;
  if (m != nullptr && !give_to(r, m, span)) {
    if (span->tries < kTries) {
      begin_read(r, span);
      page_io_flush(r->io);
      return true;
    }
    note_failure(r, span);
    *failed = true;
  }
  for (i32 i = span->rows; i >= 0; i = r->wanted[i].next) {
    const u8* bytes = row_in(r, span, r->wanted[i].row);
    if (bytes != nullptr) keep(r, r->wanted[i].row, bytes, RowCache::kFresh);
  }
  forget(r, span);
  return true;
}

// Starts reads for requested rows while there is room.
static void start_queued(RowReader* r) {
  while (r->queue_first < r->queue_last && r->free_wanted >= 0) {
    const u32 row = r->queue[r->queue_first & (kQueue - 1)];
    if (r->cache.find(row) < 0) {
      Span* span = start_row(r, row);
      if (span == nullptr) break;
      const i32 place = r->free_wanted;
      r->free_wanted = r->wanted[place].next;
      r->wanted[place] = {row, span->rows};
      span->rows = place;
    }
    r->queue_first += 1;
  }
  page_io_flush(r->io);
}

static void advance(RowReader* r) {
  bool failed = false;
  while (take_finished(r, nullptr, 0, &failed)) {
  }
  start_queued(r);
}

static bool are_inside(const RowReader* r, const i64* rows, i64 count) {
  for (i64 i = 0; i < count; ++i) {
    if (rows[i] < 0 || rows[i] >= r->num_rows) return false;
  }
  return true;
}

i64 row_reader_rows(const RowReader* r) { return r->num_rows; }
i64 row_reader_row_bytes(const RowReader* r) { return r->row_bytes; }

// Reads what is missing; the keys are sorted.
static i32 collect_missing(RowReader* r, Missing* m) {
  const i64 began = now_ns();
  i64 next = 0;  // the first missing row that nobody reads yet
  bool failed = false;
  while (m->left && !failed) {
    for (; next < m->count; ++next) {
      if (!m->is_done[next] && start_row(r, (i64)(m->keys[next] >> 32)) == nullptr) break;
    }
    if (next == m->count) start_queued(r);
    page_io_flush(r->io);
    take_finished(r, m, m->left < kMostAwaited ? m->left : kMostAwaited, &failed);
    while (m->left && !failed && take_finished(r, m, 0, &failed)) {
    }
  }
  r->figures.wait_ns += now_ns() - began;
  r->figures.waits += 1;
  start_queued(r);
  return failed ? kNotRead : kOk;
}

static i32 collect(RowReader* r, const i64* rows, i64 count, u8* out) {
  if (!are_inside(r, rows, count)) return kWrongShape;
  if (!make_room(r, count)) return kOutOfMemory;
  bool failed = false;
  while (take_finished(r, nullptr, 0, &failed)) {
  }
  Missing m = {r->keys, r->is_done, 0, 0, out};
  for (i64 i = 0; i < count; ++i) {
    const i64 slot = r->cache.find((u32)rows[i]);
    if (slot < 0) {
      r->keys[m.count++] = (u64)rows[i] << 32 | (u64)i;
      continue;
    }
    r->figures.hits += r->cache.collect(slot);
    __builtin_memcpy(out + i * r->row_bytes, r->cache.at(slot), (size_t)r->row_bytes);
  }
  r->figures.rows += count;
  if (m.count == 0) return start_queued(r), kOk;
  sort_keys(r->keys, r->keys + r->room, m.count);
  __builtin_memset(r->is_done, 0, (size_t)m.count);
  m.left = m.count;
  return collect_missing(r, &m);
}

i32 row_reader_collect(RowReader* r, const i64* rows, i64 count, u8* out) {
  gate_close(r->gate);
  const i32 status = collect(r, rows, count, out);
  gate_open(r->gate);
  return status;
}

STRATUM_API i32 stratum_rows_collect(RowReader* r, const i64* rows, i64 count, u8* out) {
  return row_reader_collect(r, rows, count, out);
}

// Queues the rows that are not cached, in the order of their places, and starts reads.
static i32 request(RowReader* r, const i64* rows, i64 count) {
  if (!are_inside(r, rows, count)) return kWrongShape;
  if (!make_room(r, count)) return kOutOfMemory;
  i64 missing = 0;
  for (i64 i = 0; i < count; ++i) {
    if (r->cache.find((u32)rows[i]) < 0) r->keys[missing++] = (u64)rows[i] << 32;
  }
  sort_keys(r->keys, r->keys + r->room, missing);
  for (i64 i = 0; i < missing; ++i) {
    if (i && r->keys[i] == r->keys[i - 1]) continue;
    if (r->queue_last - r->queue_first >= kQueue) break;
    r->queue[r->queue_last++ & (kQueue - 1)] = (u32)(r->keys[i] >> 32);
  }
  advance(r);
  return kOk;
}

STRATUM_API i32 stratum_rows_request(RowReader* r, const i64* rows, i64 count) {
  gate_close(r->gate);
  const i32 status = request(r, rows, count);
  gate_open(r->gate);
  return status;
}

// Takes in what was read, and starts further reads.
STRATUM_API void stratum_rows_advance(RowReader* r) {
  gate_close(r->gate);
  advance(r);
  gate_open(r->gate);
}

// Gives half of the cache's memory back; how many bytes that was.
STRATUM_API i64 stratum_rows_shrink(RowReader* r) {
  gate_close(r->gate);
  const i64 bytes = r->cache.shrink();
  gate_open(r->gate);
  return bytes;
}

STRATUM_API void stratum_rows_figures(RowReader* r, RowFigures* out) {
  gate_close(r->gate);
  *out = r->figures;
  out->cached_rows = r->cache.filled();
  out->evicted_rows = r->cache.evicted();
  out->kind = page_io_kind(r->io);
  gate_open(r->gate);
}

// Of the newest read that a collection failed by.
STRATUM_API void stratum_rows_failure(RowReader* r, RowFailure* out) {
  gate_close(r->gate);
  *out = r->failure;
  gate_open(r->gate);
}

static void destroy(RowReader* r) {
  if (r->io != nullptr) page_io_close(r->io);
  if (r->gate != nullptr) gate_destroy(r->gate);
  r->cache.destroy();
  pages_give(r->buffers, kSpans * 2 * kPage);
  free(r->keys);
  free(r->is_done);
  pages_give(r, sizeof(RowReader));
}

// Reads the table of `num_rows` rows of `row_bytes` (at most a page) from byte `offset` of a file on.
// `cache_rows`: room in the cache. `wanted`: PageIoKind bits. Null with the system's error in `error`,
// 0 for lack of memory.
STRATUM_API RowReader* stratum_rows_open(const void* path, i64 offset, i64 num_rows, i64 row_bytes,
                                         i64 cache_rows, i64 wanted, i32* error) {
  *error = 0;
  RowReader* r = (RowReader*)pages_take(sizeof(RowReader));
  if (r == nullptr) return nullptr;
  r->offset = offset;
  r->num_rows = num_rows;
  r->row_bytes = row_bytes;
  r->gate = gate_create();
  r->buffers = (u8*)pages_take(kSpans * 2 * kPage);
  if (!r->cache.create(cache_rows, row_bytes) || r->gate == nullptr || r->buffers == nullptr) {
    destroy(r);
    return nullptr;
  }
  for (i64 i = kSpans - 1; i >= 0; --i) {
    r->spans[i].read.buffer = r->buffers + i * 2 * kPage;
    r->spans[i].next = r->free_spans;
    r->free_spans = &r->spans[i];
  }
  for (i64 i = 0; i < kMostRows; ++i) r->wanted[i].next = i + 1 < kMostRows ? (i32)(i + 1) : -1;
  r->io = page_io_open(path, offset, kSpans, (u32)wanted, error);
  if (r->io == nullptr) {
    destroy(r);
    return nullptr;
  }
  return r;
}

// Waits for reads in flight.
STRATUM_API void stratum_rows_close(RowReader* r) { destroy(r); }
