// The worker pool, and the only place that knows operating-system threads.
//
// A job is `items` calls of a function; threads take items from one atomic counter, because cores
// differ in speed. The calling thread works too, and waits only for workers that are inside the job:
// a worker that sleeps or is not scheduled delays nobody. Workers spin briefly after a job, because
// the next operation of a pass comes microseconds later, then sleep in the operating system, so that
// an idle engine costs nothing and two engines on one machine do not take each other's cores.
#pragma once
#include "api.h"

struct Pool;

typedef void (*Work)(void* argument, i64 item, i64 thread);

// Starts `threads - 1` workers; fewer when the system gives no more.
Pool* pool_create(i64 threads);
void pool_destroy(Pool* pool);
// How many threads take part, the caller included; thread numbers are below it.
i64 pool_threads(const Pool* pool);
// Holds the worker threads 1, 2, ... to one processor each: cpus[1], cpus[2], ... The calling thread
// is left free, since threads that it starts would inherit its place. Returns how many were held.
i64 pool_pin(Pool* pool, const i64* cpus, i64 count);
// Whether no worker sleeps: then a job costs 1 or 2 microseconds to hand out, not 5 to 50.
bool pool_is_awake(const Pool* pool);
// Calls work(argument, 0 .. items-1, thread), each once, and returns when all are done. A job of
// less than a millisecond (`estimated_ns`) may stay on the calling thread: see `alone` in Pool.
void pool_run(Pool* pool, i64 items, i64 estimated_ns, Work work, void* argument);
// The same for a few long items that come again soon, one for each of as many threads: shared whatever
// the jobs before have met; the others sleep on. Those that take part wait for the next one a little
// longer than they spin after other jobs, since what lies in between (tokens are chosen and sent) takes
// that long; while they do they give their core to whoever wants it.
void pool_run_long(Pool* pool, i64 items, Work work, void* argument);
