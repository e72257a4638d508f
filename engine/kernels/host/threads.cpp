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
static void signal_give(Signal* signal) { WakeConditionVariable(signal); }
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
static void signal_give(Signal* signal) { pthread_cond_signal(signal); }
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
constexpr int kLongWaits = 400;    // times that a worker gives its core away before it sleeps, if its
constexpr int kPauses = 16;        // job comes again; with so many pauses in between: 100 to 300 us
constexpr int kPatience = 2000;    // pauses before the caller gives its core to a late worker
constexpr i64 kMostThreads = 256;
constexpr i64 kLongJob = 1000000;  // nanoseconds
constexpr i32 kMostCaution = 512;

struct Seat {
  Pool* pool;
  i64 number;
  Thread thread;
  Signal wake;  // one for each, so that a job for a few leaves the others asleep
  i32 sleeps;   // waits for `wake`
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
  i64 invited;               // seats with lower numbers take part in the open job
  bool comes_again;          // the newest job was one of pool_run_long
  // When other programs want the cores, a worker is stopped in the middle of an item and the caller
  // waits for milliseconds. After each such wait the next `alone` short jobs are not shared; how
  // many, doubles while it goes on happening (`caution`) and shrinks when it does not.
  i32 alone;
  i32 caution;
  i32 quit;
  i64 num_threads;
  Lock lock;
  Seat seats[kMostThreads];
};

static void take_items(Pool* pool, i64 thread) {
  for (;;) {
    const i64 item = __atomic_fetch_add(&pool->next, 1, __ATOMIC_RELAXED);
    if (item >= pool->items) return;
    pool->work(pool->argument, item, thread);
  }
}

// The open job's turn if it is another one than `done` and this seat takes part in it, else 0. A turn
// that passes meanwhile may be told with the next one's invitation: worker_main looks at it again.
static u32 open_turn(const Seat* seat, u32 done) {
  const u32 turn = __atomic_load_n(&seat->pool->turn, __ATOMIC_SEQ_CST);
  if (!(turn & 1) || turn == done) return 0;
  return seat->number < __atomic_load_n(&seat->pool->invited, __ATOMIC_SEQ_CST) ? turn : 0;
}

static u32 spin_for_turn(const Seat* seat, u32 done, i64 spins) {
  for (i64 spin = 0; spin < spins; ++spin) {
    const u32 turn = open_turn(seat, done);
    if (turn != 0 || __atomic_load_n(&seat->pool->quit, __ATOMIC_RELAXED)) return turn;
    pause();
  }
  return 0;
}

// Whether this seat's next job comes soon, though not at once.
static bool is_wanted_soon(const Seat* seat) {
  const Pool* pool = seat->pool;
  return __atomic_load_n(&pool->comes_again, __ATOMIC_RELAXED) &&
         seat->number < __atomic_load_n(&pool->invited, __ATOMIC_RELAXED);
}

// 0 when the pool ends.
static u32 wait_for_turn(Seat* seat, u32 done) {
  Pool* pool = seat->pool;
  u32 turn = spin_for_turn(seat, done, kSpins);
  for (int wait = 0; turn == 0 && wait < kLongWaits && is_wanted_soon(seat); ++wait) {
    give_way();
    turn = spin_for_turn(seat, done, kPauses);
  }
  if (turn != 0) return turn;
  lock_take(&pool->lock);
  __atomic_fetch_add(&pool->sleeping, 1, __ATOMIC_SEQ_CST);
  __atomic_store_n(&seat->sleeps, 1, __ATOMIC_SEQ_CST);
  for (;;) {
    turn = open_turn(seat, done);
    if (turn != 0 || pool->quit) break;
    signal_wait(&seat->wake, &pool->lock);
  }
  __atomic_store_n(&seat->sleeps, 0, __ATOMIC_SEQ_CST);
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
    const u32 turn = wait_for_turn(seat, done);
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
  pool->num_threads = 1;
  while (pool->num_threads < threads) {
    Seat* seat = &pool->seats[pool->num_threads];
    seat->pool = pool;
    seat->number = pool->num_threads;
    signal_init(&seat->wake);
    if (!thread_start(&seat->thread, worker_main, seat)) break;
    pool->num_threads += 1;
  }
  return pool;
}

void pool_destroy(Pool* pool) {
  lock_take(&pool->lock);
  __atomic_store_n(&pool->quit, 1, __ATOMIC_SEQ_CST);
  for (i64 i = 1; i < pool->num_threads; ++i) signal_give(&pool->seats[i].wake);
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

// Wakes those of the seats below `invited` that sleep.
static void wake_sleepers(Pool* pool, i64 invited) {
  bool has_waited = false;
  for (i64 i = 1; i < invited; ++i) {
    Seat* seat = &pool->seats[i];
    if (!__atomic_load_n(&seat->sleeps, __ATOMIC_SEQ_CST)) continue;
    // Who says that it sleeps holds the lock until it does, or has seen the open job.
    if (!has_waited) {
      lock_take(&pool->lock);
      lock_give(&pool->lock);
      has_waited = true;
    }
    signal_give(&seat->wake);
  }
}

// Opens a job for the seats below `invited`, works on it and waits for the others: how many pauses.
static int share(Pool* pool, i64 items, i64 invited, Work work, void* argument) {
  pool->work = work;
  pool->argument = argument;
  pool->items = items;
  __atomic_store_n(&pool->invited, invited, __ATOMIC_SEQ_CST);
  __atomic_store_n(&pool->next, 0, __ATOMIC_RELAXED);
  __atomic_fetch_add(&pool->turn, 1, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&pool->sleeping, __ATOMIC_SEQ_CST) > 0) wake_sleepers(pool, invited);
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
  return spins;
}

void pool_run(Pool* pool, i64 items, i64 estimated_ns, Work work, void* argument) {
  if (stays_alone(pool, items, estimated_ns)) {
    for (i64 item = 0; item < items; ++item) work(argument, item, 0);
    return;
  }
  __atomic_store_n(&pool->comes_again, false, __ATOMIC_RELAXED);
  learn(pool, share(pool, items, pool->num_threads, work, argument) >= kPatience);
  __atomic_store_n(&pool->busy, 0, __ATOMIC_RELEASE);
}

void pool_run_long(Pool* pool, i64 items, Work work, void* argument) {
  if (pool->num_threads == 1 || items <= 1 ||
      __atomic_exchange_n(&pool->busy, 1, __ATOMIC_ACQUIRE)) {
    for (i64 item = 0; item < items; ++item) work(argument, item, 0);
    return;
  }
  __atomic_store_n(&pool->comes_again, true, __ATOMIC_RELAXED);
  share(pool, items, items < pool->num_threads ? items : pool->num_threads, work, argument);
  __atomic_store_n(&pool->busy, 0, __ATOMIC_RELEASE);
}
