// Runs recorded lists of operations, so that Python is entered once for all of them.
//
// A record holds what the recorded calls were given: addresses of weights' structures and of numpy
// array objects, whose contents may have changed since (engine/ops/host_capture.py keeps them alive).
// Operations that take a floating-point number are not recorded.
#include "context.h"

#if defined(_WIN32)
#define STRATUM_API extern "C" __declspec(dllexport)
#else
#define STRATUM_API extern "C" __attribute__((visibility("default")))
#endif

constexpr i64 kMostArguments = 16;

// `RecordedCall` of engine/ops/host_capture.py.
struct RecordedCall {
  const void* function;
  i64 num_arguments;
  i64 arguments[kMostArguments];
};

// A call with exactly the recorded number of arguments: pointers and i64 are passed alike.
#define STRATUM_TYPES_2 Context*, i64, i64
#define STRATUM_TYPES_3 STRATUM_TYPES_2, i64
#define STRATUM_TYPES_4 STRATUM_TYPES_3, i64
#define STRATUM_TYPES_5 STRATUM_TYPES_4, i64
#define STRATUM_TYPES_6 STRATUM_TYPES_5, i64
#define STRATUM_TYPES_9 STRATUM_TYPES_6, i64, i64, i64
#define STRATUM_TYPES_13 STRATUM_TYPES_9, i64, i64, i64, i64
#define STRATUM_TYPES_14 STRATUM_TYPES_13, i64
#define STRATUM_TYPES_15 STRATUM_TYPES_14, i64
#define STRATUM_TYPES_16 STRATUM_TYPES_15, i64
#define STRATUM_VALUES_2 c, a[0], a[1]
#define STRATUM_VALUES_3 STRATUM_VALUES_2, a[2]
#define STRATUM_VALUES_4 STRATUM_VALUES_3, a[3]
#define STRATUM_VALUES_5 STRATUM_VALUES_4, a[4]
#define STRATUM_VALUES_6 STRATUM_VALUES_5, a[5]
#define STRATUM_VALUES_9 STRATUM_VALUES_6, a[6], a[7], a[8]
#define STRATUM_VALUES_13 STRATUM_VALUES_9, a[9], a[10], a[11], a[12]
#define STRATUM_VALUES_14 STRATUM_VALUES_13, a[13]
#define STRATUM_VALUES_15 STRATUM_VALUES_14, a[14]
#define STRATUM_VALUES_16 STRATUM_VALUES_15, a[15]
#define STRATUM_CASE(n) \
  case n:               \
    return ((i32 (*)(STRATUM_TYPES_##n))call.function)(STRATUM_VALUES_##n)

static i32 run_call(Context* c, const RecordedCall& call) {
  const i64* a = call.arguments;
  switch (call.num_arguments) {
    STRATUM_CASE(2);
    STRATUM_CASE(3);
    STRATUM_CASE(4);
    STRATUM_CASE(5);
    STRATUM_CASE(6);
    STRATUM_CASE(9);
    STRATUM_CASE(13);
    STRATUM_CASE(14);
    STRATUM_CASE(15);
    STRATUM_CASE(16);
    default:
      return kWrongShape;
  }
}

// Runs `count` calls until one fails: its status is returned, its index is left in `failed`.
STRATUM_API i32 stratum_replay(Context* c, const RecordedCall* calls, i64 count, i64* failed) {
  for (i64 i = 0; i < count; ++i) {
    const i32 status = run_call(c, calls[i]);
    if (status != kOk) {
      *failed = i;
      return status;
    }
  }
  return kOk;
}

// One of several lists that are run at the same time, each by one thread from its beginning to its
// end. `Side` of engine/ops/host_recording.py.
struct Side {
  Context* context;  // of one thread, so that sides share no scratch
  const RecordedCall* calls;
  i64 status;
  i64 failed;
};

// Runs `count` calls of each side on the threads of `c`, and returns when all sides have ended: the
// status of the first one that failed, with the index of its call in `failed`. The sides must not
// write what another one reads.
STRATUM_API i32 stratum_replay_sides(Context* c, Side* sides, i64 num_sides, i64 count, i64* failed) {
  struct Job {
    Side* sides;
    i64 count;
  } job = {sides, count};
  const Work work = [](void* argument, i64 item, i64) {
    const Job* j = (const Job*)argument;
    Side& side = j->sides[item];
    side.status = stratum_replay(side.context, side.calls, j->count, &side.failed);
  };
  pool_run_long(c->pool, num_sides, work, &job);
  for (i64 i = 0; i < num_sides; ++i) {
    if (sides[i].status == kOk) continue;
    *failed = sides[i].failed;
    return (i32)sides[i].status;
  }
  return kOk;
}
