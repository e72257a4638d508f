// What the library exports: contexts, the operations of each variant, and what this processor can run.
#include <stdlib.h>

#include "arrays.h"
#include "cpu.h"

#if defined(_WIN32)
#define STRATUM_API extern "C" __declspec(dllexport)
#else
#define STRATUM_API extern "C" __attribute__((visibility("default")))
#endif

extern "C" {
Codebooks stratum_codebooks = {};
}

static constexpr i64 kAlignment = 64;

static void* aligned(i64 bytes) {
#if defined(_WIN32)
  return _aligned_malloc((size_t)bytes, kAlignment);
#else
  void* place = nullptr;
  return posix_memalign(&place, kAlignment, (size_t)bytes) == 0 ? place : nullptr;
#endif
}

static void release(void* place) {
#if defined(_WIN32)
  _aligned_free(place);
#else
  free(place);
#endif
}

void* context_take(Context* c, i64 bytes) {
  const i64 size = (most(bytes, 1) + kAlignment - 1) & ~(kAlignment - 1);
  c->wanted += size;
  if (c->used + size <= c->capacity) {
    void* place = c->memory + c->used;
    c->used += size;
    return place;
  }
  Extra* extra = (Extra*)aligned(size + kAlignment);
  if (extra == nullptr) return nullptr;
  extra->next = c->extra;
  c->extra = extra;
  return (u8*)extra + kAlignment;
}

// Ends an operation. What it needed beyond the block is given back, and the block grows to hold all
// of it the next time; if the system refuses, extra pieces go on serving.
void context_reset(Context* c) {
  while (c->extra != nullptr) {
    Extra* next = c->extra->next;
    release(c->extra);
    c->extra = next;
  }
  if (c->wanted > c->capacity) {
    const i64 capacity = c->wanted + c->wanted / 4;
    release(c->memory);
    c->memory = (u8*)aligned(capacity);
    c->capacity = c->memory == nullptr ? 0 : capacity;
  }
  c->used = 0;
  c->wanted = 0;
}

STRATUM_API i32 stratum_version() { return 8; }

// Bits: see CpuFeature.
STRATUM_API u32 stratum_cpu_features() { return cpu_features(); }

static const void* find_operation(const Operation* table, const char* name) {
  for (; table->name != nullptr; ++table) {
    if (__builtin_strcmp(table->name, name) == 0) return table->function;
  }
  return nullptr;
}

// The function of an operation of a variant ("avx2", "avxvnni", "avx512"), or null.
STRATUM_API const void* stratum_operation(const char* variant, const char* name) {
  if (__builtin_strcmp(variant, "avx512") == 0) {
    return find_operation(stratum_operations_avx512, name);
  }
  if (__builtin_strcmp(variant, "avxvnni") == 0) {
    const void* function = find_operation(stratum_operations_avxvnni, name);
    if (function != nullptr) return function;
  } else if (__builtin_strcmp(variant, "avx2") != 0) {
    return nullptr;
  }
  return find_operation(stratum_operations_avx2, name);
}

// The tables, in the order of the fields of Codebooks; the caller keeps them alive.
STRATUM_API void stratum_set_codebooks(const void* const* tables) {
  __builtin_memcpy(&stratum_codebooks, tables, sizeof(stratum_codebooks));
}

// A worker pool of `threads` threads and its scratch, or null. `object_head`: bytes of a plain
// Python object.
STRATUM_API Context* stratum_create(i64 threads, i64 object_head) {
  Context* c = (Context*)calloc(1, sizeof(Context));
  if (c == nullptr) return nullptr;
  c->object_head = object_head;
  c->pool = pool_create(threads);
  if (c->pool == nullptr) {
    free(c);
    return nullptr;
  }
  return c;
}

STRATUM_API i64 stratum_threads(const Context* c) { return pool_threads(c->pool); }

// Holds workers to processors, see pool_pin.
STRATUM_API i64 stratum_pin(Context* c, const i64* cpus, i64 count) {
  return pool_pin(c->pool, cpus, count);
}

STRATUM_API void stratum_destroy(Context* c) {
  pool_destroy(c->pool);
  release(c->memory);
  free(c);
}

// 1 when the object's header reads as the array that Python describes.
STRATUM_API i32 stratum_check_array(const Context* c, Object object, const void* data, i64 dimensions,
                                    const i64* shape, const i64* strides) {
  const ArrayHeader* a = header(c, object);
  if (a->data != data || a->dimensions != dimensions) return 0;
  for (i64 i = 0; i < dimensions; ++i) {
    if (a->shape[i] != shape[i] || a->strides[i] != strides[i]) return 0;
  }
  return 1;
}
