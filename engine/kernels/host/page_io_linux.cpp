// See page_io.h: Linux. io_uring is called without a library, by its numbers and structures.
#if !defined(_WIN32)
#define _GNU_SOURCE 1
#include "page_io.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace {

constexpr int kThreads = 16;
constexpr size_t kStack = 128 << 10;
constexpr i64 kLarge = 4 << 20;
// The numbers of newer system calls are the same on all architectures.
constexpr long kSetup = 425, kEnter = 426;
// Since Linux 5.19: ended reads interrupt no thread that computes, they are taken in with the next call.
constexpr u32 kCalmRuns = 1u << 8, kSaysSo = 1u << 9;       // IORING_SETUP_COOP_TASKRUN, _TASKRUN_FLAG
constexpr u32 kOverflows = 1u << 1, kHasEnded = 1u << 2;  // IORING_SQ_CQ_OVERFLOW, _TASKRUN

long enter(int ring, u32 submit, u32 least, u32 flags) {
  return syscall(kEnter, ring, submit, least, flags, nullptr, 0);
}

i64 read_at(int file, PageRead* read) {
  for (;;) {
    const ssize_t count = pread(file, read->buffer, (size_t)read->bytes, (off_t)read->offset);
    if (count >= 0) return (i64)count;
    if (errno != EINTR) return -(i64)errno;
  }
}

// The kernel's queues: reads go into one ring in shared memory, results come out of another.
struct Uring {
  int ring;
  u32* head;
  u32* tail;
  u32 mask;
  u32* array;
  u32* flags;
  u32* done_head;
  u32* done_tail;
  u32 done_mask;
  io_uring_cqe* done;
  io_uring_sqe* entries;
  void* rings;
  size_t ring_bytes;
  size_t entry_bytes;
  u32 queued;  // put into the ring since the last flush
};

bool uring_open(Uring* u, i64 depth) {
  io_uring_params params;
  memset(&params, 0, sizeof(params));
  params.flags = kCalmRuns | kSaysSo;
  u->ring = (int)syscall(kSetup, (u32)depth, &params);
  if (u->ring < 0 && errno == EINVAL) {  // an older kernel
    memset(&params, 0, sizeof(params));
    u->ring = (int)syscall(kSetup, (u32)depth, &params);
  }
  if (u->ring < 0) return false;
  const size_t submit = params.sq_off.array + params.sq_entries * sizeof(u32);
  const size_t done = params.cq_off.cqes + params.cq_entries * sizeof(io_uring_cqe);
  u->ring_bytes = submit > done ? submit : done;
  u->entry_bytes = params.sq_entries * sizeof(io_uring_sqe);
  const int access = PROT_READ | PROT_WRITE, kind = MAP_SHARED | MAP_POPULATE;
  u->rings = MAP_FAILED;
  void* entries = MAP_FAILED;
  if (params.features & IORING_FEAT_SINGLE_MMAP) {  // since Linux 5.4; reads by offset since 5.6
    u->rings = mmap(nullptr, u->ring_bytes, access, kind, u->ring, IORING_OFF_SQ_RING);
    entries = mmap(nullptr, u->entry_bytes, access, kind, u->ring, IORING_OFF_SQES);
  }
  if (u->rings == MAP_FAILED || entries == MAP_FAILED) {
    if (u->rings != MAP_FAILED) munmap(u->rings, u->ring_bytes);
    if (entries != MAP_FAILED) munmap(entries, u->entry_bytes);
    close(u->ring);
    return false;
  }
  u8* base = (u8*)u->rings;
  u->head = (u32*)(base + params.sq_off.head);
  u->tail = (u32*)(base + params.sq_off.tail);
  u->mask = *(u32*)(base + params.sq_off.ring_mask);
  u->array = (u32*)(base + params.sq_off.array);
  u->flags = (u32*)(base + params.sq_off.flags);
  u->done_head = (u32*)(base + params.cq_off.head);
  u->done_tail = (u32*)(base + params.cq_off.tail);
  u->done_mask = *(u32*)(base + params.cq_off.ring_mask);
  u->done = (io_uring_cqe*)(base + params.cq_off.cqes);
  u->entries = (io_uring_sqe*)entries;
  u->queued = 0;
  return true;
}

void uring_close(Uring* u) {
  munmap(u->entries, u->entry_bytes);
  munmap(u->rings, u->ring_bytes);
  close(u->ring);
}

void uring_start(Uring* u, int file, PageRead* read) {
  const u32 tail = *u->tail, index = tail & u->mask;
  io_uring_sqe* entry = &u->entries[index];
  memset(entry, 0, sizeof(*entry));
  entry->opcode = IORING_OP_READ;
  entry->fd = file;
  entry->addr = (u64)read->buffer;
  entry->len = (u32)read->bytes;
  entry->off = (u64)read->offset;
  entry->user_data = (u64)read;
  u->array[index] = index;
  __atomic_store_n(u->tail, tail + 1, __ATOMIC_RELEASE);
  u->queued += 1;
}

void uring_flush(Uring* u) {
  while (u->queued) {
    const long taken = enter(u->ring, u->queued, 0, 0);
    if (taken > 0) {
      u->queued -= (u32)taken;
    } else if (errno != EINTR) {  // no memory for requests just now: those in flight give some back
      if (enter(u->ring, 0, 1, IORING_ENTER_GETEVENTS) < 0 && errno != EINTR) return;
    }
  }
}

PageRead* uring_take(Uring* u) {
  const u32 head = *u->done_head;
  if (head == __atomic_load_n(u->done_tail, __ATOMIC_ACQUIRE)) {
    if (!(__atomic_load_n(u->flags, __ATOMIC_RELAXED) & (kHasEnded | kOverflows))) return nullptr;
    enter(u->ring, 0, 0, IORING_ENTER_GETEVENTS);
    if (head == __atomic_load_n(u->done_tail, __ATOMIC_ACQUIRE)) return nullptr;
  }
  const io_uring_cqe* entry = &u->done[head & u->done_mask];
  PageRead* read = (PageRead*)entry->user_data;
  read->result = entry->res;
  __atomic_store_n(u->done_head, head + 1, __ATOMIC_RELEASE);
  return read;
}

// A few threads that read, one page each at a time.
struct Crew {
  int file;
  pthread_mutex_t lock;
  pthread_cond_t wake;
  pthread_cond_t finished;
  PageRead* first;  // to be read
  PageRead* last;
  PageRead* done;
  bool quit;
  int num_threads;
  pthread_t threads[kThreads];
};

void* crew_main(void* argument) {
  Crew* crew = (Crew*)argument;
  pthread_mutex_lock(&crew->lock);
  for (;;) {
    while (crew->first == nullptr && !crew->quit) pthread_cond_wait(&crew->wake, &crew->lock);
    PageRead* read = crew->first;
    if (read == nullptr) break;
    crew->first = read->next;
    pthread_mutex_unlock(&crew->lock);
    const i64 result = read_at(crew->file, read);
    pthread_mutex_lock(&crew->lock);
    read->result = result;
    read->next = crew->done;
    crew->done = read;
    pthread_cond_signal(&crew->finished);
  }
  pthread_mutex_unlock(&crew->lock);
  return nullptr;
}

Crew* crew_open(int file) {
  Crew* crew = (Crew*)calloc(1, sizeof(Crew));
  if (crew == nullptr) return nullptr;
  crew->file = file;
  pthread_mutex_init(&crew->lock, nullptr);
  pthread_cond_init(&crew->wake, nullptr);
  pthread_cond_init(&crew->finished, nullptr);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStack);
  while (crew->num_threads < kThreads &&
         pthread_create(&crew->threads[crew->num_threads], &attributes, crew_main, crew) == 0) {
    crew->num_threads += 1;
  }
  pthread_attr_destroy(&attributes);
  if (crew->num_threads) return crew;
  free(crew);
  return nullptr;
}

void crew_close(Crew* crew) {
  pthread_mutex_lock(&crew->lock);
  crew->quit = true;
  pthread_cond_broadcast(&crew->wake);
  pthread_mutex_unlock(&crew->lock);
  for (int i = 0; i < crew->num_threads; ++i) pthread_join(crew->threads[i], nullptr);
  free(crew);
}

void crew_start(Crew* crew, PageRead* read) {
  read->next = nullptr;
  pthread_mutex_lock(&crew->lock);
  if (crew->first == nullptr) {
    crew->first = read;
  } else {
    crew->last->next = read;
  }
  crew->last = read;
  pthread_cond_signal(&crew->wake);
  pthread_mutex_unlock(&crew->lock);
}

PageRead* crew_take(Crew* crew, bool wait) {
  pthread_mutex_lock(&crew->lock);
  while (wait && crew->done == nullptr) pthread_cond_wait(&crew->finished, &crew->lock);
  PageRead* read = crew->done;
  if (read != nullptr) crew->done = read->next;
  pthread_mutex_unlock(&crew->lock);
  return read;
}

}  // namespace

struct PageIo {
  int file;
  u32 kind;
  i64 in_flight;
  Crew* crew;  // null when the kernel's queues are used
  Uring uring;
};

// Opens the file so that a page of it can be read; -1 with errno.
static int open_file(const char* path, i64 probe, u32* kind) {
  const i64 page = probe / kPage * kPage;
  u8* buffer = (u8*)pages_take(kPage);
  if (buffer == nullptr) return errno = ENOMEM, -1;
  PageRead read = {};
  read.offset = page;
  read.bytes = kPage;
  read.buffer = buffer;
  int file = -1, error = 0;
  if (!(*kind & kIoBuffered)) {
    file = open(path, O_RDONLY | O_CLOEXEC | O_DIRECT);
    if (file >= 0 && read_at(file, &read) == -EINVAL) {  // some file systems find out only now
      close(file);
      file = -1;
    }
    if (file < 0) *kind |= kIoBuffered;
  }
  if (file < 0) {
    file = open(path, O_RDONLY | O_CLOEXEC);
    error = errno;
    if (file >= 0) posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM);
  }
  pages_give(buffer, kPage);
  errno = error;
  return file;
}

// A read through the queues, since a kernel may have them and not know this operation.
static bool uring_works(PageIo* io, i64 probe) {
  u8* buffer = (u8*)pages_take(kPage);
  if (buffer == nullptr) return false;
  PageRead read = {};
  read.offset = probe / kPage * kPage;
  read.bytes = kPage;
  read.buffer = buffer;
  uring_start(&io->uring, io->file, &read);
  uring_flush(&io->uring);
  PageRead* done = nullptr;
  while (io->uring.queued == 0 && (done = uring_take(&io->uring)) == nullptr) {
    if (enter(io->uring.ring, 0, 1, IORING_ENTER_GETEVENTS) < 0 && errno != EINTR) break;
  }
  const bool works = done != nullptr && done->result != -EINVAL && done->result != -EOPNOTSUPP;
  if (done != nullptr) pages_give(buffer, kPage);  // else the kernel may still write there
  return works;
}

PageIo* page_io_open(const void* path, i64 probe, i64 depth, u32 wanted, i32* error) {
  u32 kind = wanted & kIoBuffered;
  const int file = open_file((const char*)path, probe, &kind);
  if (file < 0) return *error = errno, nullptr;
  PageIo* io = (PageIo*)calloc(1, sizeof(PageIo));
  if (io != nullptr) {
    io->file = file;
    io->kind = kind;
    if (!(wanted & kIoThreads) && uring_open(&io->uring, depth)) {
      if (uring_works(io, probe)) return io;
      uring_close(&io->uring);
    }
    io->kind |= kIoThreads;
    io->crew = crew_open(file);
    if (io->crew != nullptr) return io;
    free(io);
  }
  close(file);
  return *error = ENOMEM, nullptr;
}

u32 page_io_kind(const PageIo* io) { return io->kind; }

void page_io_start(PageIo* io, PageRead* read) {
  io->in_flight += 1;
  if (io->crew != nullptr) {
    crew_start(io->crew, read);
  } else {
    uring_start(&io->uring, io->file, read);
  }
}

void page_io_flush(PageIo* io) {
  if (io->crew == nullptr) uring_flush(&io->uring);
}

PageRead* page_io_finish(PageIo* io, i64 wait) {
  if (io->in_flight == 0) return nullptr;
  if (wait > io->in_flight) wait = io->in_flight;
  PageRead* read = nullptr;
  if (io->crew != nullptr) {
    read = crew_take(io->crew, wait > 0);
  } else {
    while ((read = uring_take(&io->uring)) == nullptr && wait > 0) {
      uring_flush(&io->uring);
      enter(io->uring.ring, 0, (u32)wait, IORING_ENTER_GETEVENTS);
    }
  }
  if (read != nullptr) io->in_flight -= 1;
  return read;
}

void page_io_close(PageIo* io) {
  while (page_io_finish(io, 1) != nullptr) {
  }
  if (io->crew != nullptr) {
    crew_close(io->crew);
  } else {
    uring_close(&io->uring);
  }
  close(io->file);
  free(io);
}

void* pages_take(i64 bytes) {
  void* place = mmap(nullptr, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                     -1, 0);
  if (place == MAP_FAILED) return nullptr;
  // A cache is touched all over: with large pages it costs fewer faults and look-ups.
  if (bytes >= kLarge) madvise(place, (size_t)bytes, MADV_HUGEPAGE);
  return place;
}

void pages_give(void* place, i64 bytes) {
  if (place != nullptr) munmap(place, (size_t)bytes);
}

void pages_forget(void* place, i64 bytes) { madvise(place, (size_t)bytes, MADV_DONTNEED); }

i64 now_ns() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (i64)time.tv_sec * 1000000000 + time.tv_nsec;
}

struct Gate {
  pthread_mutex_t lock;
};

Gate* gate_create() {
  Gate* gate = (Gate*)calloc(1, sizeof(Gate));
  if (gate != nullptr) pthread_mutex_init(&gate->lock, nullptr);
  return gate;
}

void gate_destroy(Gate* gate) { free(gate); }
void gate_close(Gate* gate) { pthread_mutex_lock(&gate->lock); }
void gate_open(Gate* gate) { pthread_mutex_unlock(&gate->lock); }
#endif
