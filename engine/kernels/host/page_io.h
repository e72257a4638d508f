// Reads of whole pages of one file, many in flight: what the row reader needs of an operating system.
//
// Linux: io_uring, or a few threads where the system forbids it (containers often do); past the
// system's cache (O_DIRECT), or through it where the file system cannot do that. Windows: overlapped
// reads with a completion port, FILE_FLAG_NO_BUFFERING. Offsets, sizes and buffers are multiples of
// kPage. Limits: one thread at a time calls start, flush, finish and close.
#pragma once
#include "api.h"

constexpr i64 kPage = 4096;

struct PageIo;

// One read. The caller owns it; from start until finish has returned it nobody else touches it.
struct PageRead {
  i64 offset;
  i64 bytes;
  u8* buffer;
  i64 result;      // bytes read (fewer at the file's end), or minus the system's error number
  PageRead* next;  // for lists of whoever holds it
  alignas(16) u8 system[64];
};

enum PageIoKind : u32 {
  kIoThreads = 1,   // a few threads read instead of the kernel's queue
  kIoBuffered = 2,  // through the system's cache
};

// Opens a file whose byte `probe` can be read. `path`: zero-terminated, UTF-8 bytes or on Windows
// UTF-16. `depth`: most reads in flight. `wanted`: kinds to take even where better ones would work.
// Null with the system's error number in `error`.
PageIo* page_io_open(const void* path, i64 probe, i64 depth, u32 wanted, i32* error);
// What was opened: PageIoKind bits.
u32 page_io_kind(const PageIo* io);
// Queues a read; flush hands queued ones to the system.
void page_io_start(PageIo* io, PageRead* read);
void page_io_flush(PageIo* io);
// One finished read, or null. `wait`: when none has finished, sleep until so many have (where the system
// can wait for several), 0 to not wait; then null only when none is in flight.
PageRead* page_io_finish(PageIo* io, i64 wait);
// Waits for what is in flight, whose buffers the system still writes, then closes the file.
void page_io_close(PageIo* io);

// Zeroed memory in whole pages, taken from the system as it is touched, or null.
void* pages_take(i64 bytes);
void pages_give(void* place, i64 bytes);
// Gives whole pages in the middle of what was taken back; nobody may touch them any more.
void pages_forget(void* place, i64 bytes);
i64 now_ns();

struct Gate;  // a lock
Gate* gate_create();
void gate_destroy(Gate* gate);
void gate_close(Gate* gate);
void gate_open(Gate* gate);
