// See threads.h.
#include "threads.h"

#include <stdlib.h>

#if defined(_WIN32)
#define NOMINMAX
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
typedef HANDLE Thread;
typedef SRWLOCK Lock;
typedef CONDITION_VARIABLE Signal;
static void lock_init(Lock* lock) { InitializeSRWLock(lock); }
static void lock_take(Lock* lock) { AcquireSRWLockExclusive(lock); }
static void lock_give(Lock* lock) { ReleaseSRWLockExclusive(lock); }
static void signal_init(Signal* signal) { InitializeConditionVariable(signal); }
static void signal_wait(Signal* signal, Lock* lock) {
  SleepConditionVariableSRW(signal, lock, INFINITE, 0);
}
static void signal_all(Signal* signal) { WakeAllConditionVariable(signal); }
static void give_way() { SwitchToThread(); }
static bool thread_pin(Thread thread, i64 cpu) {
  return cpu < 64 && SetThreadAffinityMask(thread, (DWORD_PTR)1 << cpu) != 0;
}
#define THREAD_RESULT DWORD WINAPI
static bool thread_start(Thread* thread, LPTHREAD_START_ROUTINE main, void* argument) {
  *thread = CreateThread(NULL, 0, main, argument, 0, NULL);
  return *thread != NULL;
}
static void thread_join(Thread thread) {
  WaitForSingleObject(thread, INFINITE);
  CloseHandle(thread);
}
#else
#include <pthread.h>
#include <sched.h>
typedef pthread_t Thread;
typedef pthread_mutex_t Lock;
typedef pthread_cond_t Signal;
static void lock_init(Lock* lock) { pthread_mutex_init(lock, NULL); }
static void lock_take(Lock* lock) { pthread_mutex_lock(lock); }
static void lock_give(Lock* lock) { pthread_mutex_unlock(lock); }
static void signal_init(Signal* signal) { pthread_cond_init(signal, NULL); }
static void signal_wait(Signal* signal, Lock* lock) { pthread_cond_wait(signal, lock); }
static void signal_all(Signal* signal) { pthread_cond_broadcast(signal); }
static void give_way() { sched_yield(); }
static bool thread_pin(pthread_t thread, i64 cpu) {
  if (cpu >= CPU_SETSIZE) return false;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET((size_t)cpu, &set);
  return pthread_setaffinity_np(thread, sizeof(set), &set) == 0;
}
#define THREAD_RESULT void*
static bool thread_start(Thread* thread, void* (*main)(void*), void* argument) {
  return pthread_create(thread, NULL, main, argument) == 0;
}
static void thread_join(Thread thread) { pthread_join(thread, NULL); }
#endif

namespace {

constexpr int kSpins = 1500;       // pauses before a worker sleeps: 20 to 70 microseconds
constexpr int kPatience = 2000;    // pauses before the caller gives its core to a late worker
constexpr i64 kMostThreads = 256;
constexpr i64 kLongJob = 1000000;  // nanoseconds
constexpr i32 kMostCaution = 512;

struct Seat {
  Pool* pool;
  i64 number;
  Thread thread;
};

void pause() { __builtin_ia32_pause(); }

}  // namespace

// `turn` is odd while a job is open. The counters lie on cache lines of their own: every thread
// writes `next`, and spinning workers read `turn`.
struct Pool {
  Work work;
  void* argument;
  i64 items;
  alignas(64) u32 turn;
  alignas(64) i64 next;
  alignas(64) i32 inside;    // workers that may touch the open job
  alignas(64) i32 sleeping;  // workers that wait for `wake`
  i32 busy;                  // a caller is inside pool_run
  // When other programs want the cores, a worker is stopped in the middle of an item and the caller
  // waits for milliseconds. After each such wait the next `alone` short jobs are not shared; how
  // many, doubles while it goes on happening (`caution`) and shrinks when it does not.
  i32 alone;
  i32 caution;
  i32 quit;
  i64 num_threads;
  Lock lock;
  Signal wake;
  Seat seats[kMostThreads];
};

static void take_items(Pool* pool, i64 thread) {
  for (;;) {
    const i64 item = __atomic_fetch_add(&pool->next, 1, __ATOMIC_RELAXED);
    if (item >= pool->items) return;
    pool->work(pool->argument, item, thread);
  }
}

static u32 wait_for_turn(Pool* pool, u32 done) {
  for (int spin = 0; spin < kSpins; ++spin) {
    const u32 turn = __atomic_load_n(&pool->turn, __ATOMIC_SEQ_CST);
    if ((turn & 1) && turn != done) return turn;
    if (__atomic_load_n(&pool->quit, __ATOMIC_RELAXED)) return 0;
    pause();
  }
  lock_take(&pool->lock);
  __atomic_fetch_add(&pool->sleeping, 1, __ATOMIC_SEQ_CST);
  u32 turn;
  for (;;) {
    turn = __atomic_load_n(&pool->turn, __ATOMIC_SEQ_CST);
    if (((turn & 1) && turn != done) || pool->quit) break;
    signal_wait(&pool->wake, &pool->lock);
  }
  __atomic_fetch_sub(&pool->sleeping, 1, __ATOMIC_SEQ_CST);
  const bool quit = pool->quit != 0;
  lock_give(&pool->lock);
  return quit ? 0 : turn;
}

static THREAD_RESULT worker_main(void* argument) {
  Seat* seat = (Seat*)argument;
  Pool* pool = seat->pool;
  u32 done = 0;
  for (;;) {
    const u32 turn = wait_for_turn(pool, done);
    if (turn == 0) return 0;
    // Enter, then look again: the caller closes the job before it reads `inside`, so either it
    // sees us and waits, or we see that the job is closed.
    __atomic_fetch_add(&pool->inside, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&pool->turn, __ATOMIC_SEQ_CST) == turn) take_items(pool, seat->number);
    __atomic_fetch_sub(&pool->inside, 1, __ATOMIC_SEQ_CST);
    done = turn;
  }
}

Pool* pool_create(i64 threads) {
  if (threads > kMostThreads) threads = kMostThreads;
  Pool* pool = NULL;
#if defined(_WIN32)
  pool = (Pool*)_aligned_malloc(sizeof(Pool), 64);
  if (pool == NULL) return NULL;
#else
  if (posix_memalign((void**)&pool, 64, sizeof(Pool)) != 0) return NULL;
#endif
  __builtin_memset(pool, 0, sizeof(Pool));
  lock_init(&pool->lock);
  signal_init(&pool->wake);
  pool->num_threads = 1;
  while (pool->num_threads < threads) {
    Seat* seat = &pool->seats[pool->num_threads];
    seat->pool = pool;
    seat->number = pool->num_threads;
    if (!thread_start(&seat->thread, worker_main, seat)) break;
    pool->num_threads += 1;
  }
  return pool;
}

void pool_destroy(Pool* pool) {
  lock_take(&pool->lock);
  __atomic_store_n(&pool->quit, 1, __ATOMIC_SEQ_CST);
  signal_all(&pool->wake);
  lock_give(&pool->lock);
  for (i64 i = 1; i < pool->num_threads; ++i) thread_join(pool->seats[i].thread);
#if defined(_WIN32)
  _aligned_free(pool);
#else
  free(pool);
#endif
}

i64 pool_threads(const Pool* pool) { return pool->num_threads; }

bool pool_is_awake(const Pool* pool) {
  return __atomic_load_n(&pool->sleeping, __ATOMIC_RELAXED) == 0;
}

i64 pool_pin(Pool* pool, const i64* cpus, i64 count) {
  i64 held = 0;
  for (i64 i = 1; i < pool->num_threads && i < count; ++i) {
    if (cpus[i] >= 0 && thread_pin(pool->seats[i].thread, cpus[i])) held += 1;
  }
  return held;
}

static void learn(Pool* pool, bool was_late) {
  if (was_late) {
    pool->caution = pool->caution * 2 + 8;
    if (pool->caution > kMostCaution) pool->caution = kMostCaution;
    pool->alone = pool->caution;
  } else {
    pool->caution -= (pool->caution + 7) / 8;
  }
}

static bool stays_alone(Pool* pool, i64 items, i64 estimated_ns) {
  if (pool->num_threads == 1 || items <= 1) return true;
  if (__atomic_exchange_n(&pool->busy, 1, __ATOMIC_ACQUIRE)) return true;
  if (estimated_ns >= kLongJob || pool->alone == 0) return false;
  pool->alone -= 1;
  __atomic_store_n(&pool->busy, 0, __ATOMIC_RELEASE);
  return true;
}

void pool_run(Pool* pool, i64 items, i64 estimated_ns, Work work, void* argument) {
  if (stays_alone(pool, items, estimated_ns)) {
    for (i64 item = 0; item < items; ++item) work(argument, item, 0);
    return;
  }
  pool->work = work;
  pool->argument = argument;
  pool->items = items;
  __atomic_store_n(&pool->next, 0, __ATOMIC_RELAXED);
  __atomic_fetch_add(&pool->turn, 1, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&pool->sleeping, __ATOMIC_SEQ_CST) > 0) {
    lock_take(&pool->lock);
    signal_all(&pool->wake);
    lock_give(&pool->lock);
  }
  take_items(pool, 0);
  __atomic_fetch_add(&pool->turn, 1, __ATOMIC_SEQ_CST);
  int spins = 0;
  while (__atomic_load_n(&pool->inside, __ATOMIC_SEQ_CST) != 0) {
    if (++spins < kPatience) {
      pause();
    } else {
      give_way();
    }
  }
  learn(pool, spins >= kPatience);
  __atomic_store_n(&pool->busy, 0, __ATOMIC_RELEASE);
}
