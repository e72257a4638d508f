// See page_io.h: Windows. Overlapped reads whose ends come through a completion port.
#if defined(_WIN32)
#define NOMINMAX
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <stddef.h>
#include <stdlib.h>

#include "page_io.h"

struct PageIo {
  HANDLE file;
  HANDLE port;
  u32 kind;
  i64 in_flight;
  PageRead* refused;  // ended at once, without a word to the port
};

static_assert(sizeof(OVERLAPPED) <= sizeof(PageRead::system), "no room for the system's part");

static PageRead* read_of(OVERLAPPED* overlapped) {
  return (PageRead*)((u8*)overlapped - offsetof(PageRead, system));
}

// Past the file's end is no error but a read of nothing, as on other systems.
static i64 result_of(DWORD error) { return error == ERROR_HANDLE_EOF ? 0 : -(i64)error; }

// Starts a read, whose end comes through the port, or at once into the list.
static void start(PageIo* io, PageRead* read) {
  OVERLAPPED* overlapped = (OVERLAPPED*)read->system;
  __builtin_memset(overlapped, 0, sizeof(*overlapped));
  overlapped->Offset = (DWORD)(read->offset & 0xffffffff);
  overlapped->OffsetHigh = (DWORD)(read->offset >> 32);
  if (ReadFile(io->file, read->buffer, (DWORD)read->bytes, NULL, overlapped)) return;
  const DWORD error = GetLastError();
  if (error == ERROR_IO_PENDING) return;
  read->result = result_of(error);
  read->next = io->refused;
  io->refused = read;
}

static PageRead* finish(PageIo* io, bool wait) {
  PageRead* read = io->refused;
  if (read != NULL) {
    io->refused = read->next;
    return read;
  }
  for (;;) {
    DWORD bytes = 0;
    ULONG_PTR key = 0;
    OVERLAPPED* overlapped = NULL;
    const BOOL done =
        GetQueuedCompletionStatus(io->port, &bytes, &key, &overlapped, wait ? INFINITE : 0);
    if (overlapped != NULL) {
      read = read_of(overlapped);
      read->result = done ? (i64)bytes : result_of(GetLastError());
      return read;
    }
    if (!wait) return NULL;
  }
}

static bool open_as(PageIo* io, const wchar_t* path, u32 kind) {
  const DWORD flags =
      FILE_FLAG_OVERLAPPED | (kind & kIoBuffered ? FILE_FLAG_RANDOM_ACCESS : FILE_FLAG_NO_BUFFERING);
  io->kind = kind;
  io->file = CreateFileW(path, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE,
                         NULL, OPEN_EXISTING, flags, NULL);
  if (io->file == INVALID_HANDLE_VALUE) return false;
  io->port = CreateIoCompletionPort(io->file, NULL, 0, 1);
  if (io->port != NULL) return true;
  const DWORD error = GetLastError();
  CloseHandle(io->file);
  SetLastError(error);
  return false;
}

static void close_files(PageIo* io) {
  CloseHandle(io->file);
  CloseHandle(io->port);
}

// Whether a page can be read: sectors may be larger than ours, and some drivers refuse.
static bool can_read(PageIo* io, i64 probe) {
  u8* buffer = (u8*)pages_take(kPage);
  if (buffer == NULL) return false;
  PageRead read = {};
  read.offset = probe / kPage * kPage;
  read.bytes = kPage;
  read.buffer = buffer;
  start(io, &read);
  finish(io, true);
  pages_give(buffer, kPage);
  return read.result != -(i64)ERROR_INVALID_PARAMETER;
}

PageIo* page_io_open(const void* path, i64 probe, i64 depth, u32 wanted, i32* error) {
  (void)depth;  // the port takes any number
  PageIo* io = (PageIo*)calloc(1, sizeof(PageIo));
  if (io == NULL) return *error = ERROR_NOT_ENOUGH_MEMORY, nullptr;
  const wchar_t* name = (const wchar_t*)path;
  if (!(wanted & kIoBuffered) && open_as(io, name, 0)) {
    if (can_read(io, probe)) return io;
    close_files(io);
  }
  if (open_as(io, name, kIoBuffered)) return io;
  *error = (i32)GetLastError();
  free(io);
  return NULL;
}

u32 page_io_kind(const PageIo* io) { return io->kind; }

void page_io_start(PageIo* io, PageRead* read) {
  io->in_flight += 1;
  start(io, read);
}

void page_io_flush(PageIo*) {}

PageRead* page_io_finish(PageIo* io, i64 wait) {
  if (io->in_flight == 0) return NULL;
  PageRead* read = finish(io, wait > 0);
  if (read != NULL) io->in_flight -= 1;
  return read;
}

void page_io_close(PageIo* io) {
  while (page_io_finish(io, 1) != NULL) {
  }
  close_files(io);
  free(io);
}

void* pages_take(i64 bytes) {
  return VirtualAlloc(NULL, (SIZE_T)bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
}

void pages_give(void* place, i64) {
  if (place != NULL) VirtualFree(place, 0, MEM_RELEASE);
}

void pages_forget(void* place, i64 bytes) { VirtualFree(place, (SIZE_T)bytes, MEM_DECOMMIT); }

i64 now_ns() {
  LARGE_INTEGER count, per_second;
  QueryPerformanceCounter(&count);
  QueryPerformanceFrequency(&per_second);
  const i64 whole = count.QuadPart / per_second.QuadPart;
  const i64 rest = count.QuadPart % per_second.QuadPart;
  return whole * 1000000000 + rest * 1000000000 / per_second.QuadPart;
}

struct Gate {
  SRWLOCK lock;
};

Gate* gate_create() {
  Gate* gate = (Gate*)calloc(1, sizeof(Gate));
  if (gate != NULL) InitializeSRWLock(&gate->lock);
  return gate;
}

void gate_destroy(Gate* gate) { free(gate); }
void gate_close(Gate* gate) { AcquireSRWLockExclusive(&gate->lock); }
void gate_open(Gate* gate) { ReleaseSRWLockExclusive(&gate->lock); }
#endif
