// One engine's worker pool and scratch memory, and how operations use them.
//
// One operation at a time runs on a context. Scratch is one block that grows to the largest call
// that has been seen and is then never allocated again.
#pragma once
#include "api.h"
#include "threads.h"

struct Extra {
  Extra* next;
};

struct Context {
  Pool* pool;
  i64 object_head;  // bytes of a Python object before its own fields
  u8* memory;
  i64 capacity;
  i64 used;
  i64 wanted;    // bytes that the running operation has asked for
  Extra* extra;  // what did not fit into memory; freed when the operation ends
};

// 64-byte aligned memory until the operation ends, or null. Defined in library.cpp.
void* context_take(Context* context, i64 bytes);
void context_reset(Context* context);

// The scratch of one operation: take everything first, then ask ok() once.
class Scratch {
 public:
  explicit Scratch(Context* context) : context_(context) {}
  ~Scratch() { context_reset(context_); }
  template <class T>
  T* take(i64 count) {
    void* place = context_take(context_, count * (i64)sizeof(T));
    if (place == nullptr) ok_ = false;
    return (T*)place;
  }
  bool ok() const { return ok_; }

 private:
  Context* context_;
  bool ok_ = true;
};

// Work below this many estimated nanoseconds stays on the calling thread: handing it out and
// collecting it costs 1 to 2 microseconds while the workers wait for it, and 5 to 50 once they sleep.
constexpr i64 kWorthSharing = 10000;
constexpr i64 kWorthWaking = 40000;

static inline bool is_worth_sharing(const Context* context, i64 estimated_ns) {
  return estimated_ns >= kWorthWaking ||
         (estimated_ns >= kWorthSharing && pool_is_awake(context->pool));
}

// Calls f(item, thread) for every item, on all threads when the estimated time is worth it.
template <class F>
static inline void parallel(Context* context, i64 items, i64 estimated_ns, const F& f) {
  const Work work = [](void* argument, i64 item, i64 thread) {
    (*(const F*)argument)(item, thread);
  };
  if (items < 2 || !is_worth_sharing(context, estimated_ns)) {
    for (i64 item = 0; item < items; ++item) work((void*)&f, item, 0);
  } else {
    pool_run(context->pool, items, estimated_ns, work, (void*)&f);
  }
}

static inline i64 least(i64 a, i64 b) { return a < b ? a : b; }
static inline i64 most(i64 a, i64 b) { return a > b ? a : b; }
static inline i64 ceil_div(i64 a, i64 b) { return (a + b - 1) / b; }
