// Reading numpy arrays from their object headers.
#pragma once
#include "context.h"

// Called a few times per operation: smaller code matters more than an inlined call.
#define STRATUM_COLD __attribute__((noinline, unused)) static

// An operation, named in the table of variant.h (the AVX-VNNI variant leaves some out).
#define STRATUM_OPERATION __attribute__((unused)) static

// numpy's PyArrayObject_fields after the object head; the layout is part of numpy's ABI.
struct ArrayHeader {
  u8* data;
  int dimensions;
  const intptr_t* shape;
  const intptr_t* strides;
};

static inline const ArrayHeader* header(const Context* c, Object object) {
  return (const ArrayHeader*)((const u8*)object + c->object_head);
}

// True when the axes from `first` on are contiguous with elements of `size` bytes, or there are none.
STRATUM_COLD bool contiguous(const ArrayHeader* a, int first, i64 size) {
  for (int axis = 0; axis < a->dimensions; ++axis) {
    if (a->shape[axis] == 0) return true;  // numpy gives empty arrays any strides
  }
  i64 expected = size;
  for (int axis = a->dimensions - 1; axis >= first; --axis) {
    if (a->shape[axis] != 1 && a->strides[axis] != expected) return false;
    expected *= a->shape[axis];
  }
  return true;
}

static inline i64 elements_of(const ArrayHeader* a) {
  i64 n = 1;
  for (int axis = 0; axis < a->dimensions; ++axis) n *= a->shape[axis];
  return n;
}

// An array seen as rows: [rows, width], rows maybe apart.
template <class T>
struct RowsOf {
  T* data;
  i64 rows;
  i64 width;
  i64 stride;  // elements
  T* row(i64 i) const { return data + i * stride; }
};

// `size`: bytes of an element.
STRATUM_COLD RowsOf<u8> byte_rows_of(const Context* c, Object object, i64 size, bool* ok) {
  const ArrayHeader* a = header(c, object);
  RowsOf<u8> out = {a->data, 0, 1, 0};
  if (a->dimensions < 1 || !contiguous(a, 1, size)) {
    *ok = false;
    return out;
  }
  out.rows = a->shape[0];
  for (int axis = 1; axis < a->dimensions; ++axis) out.width *= a->shape[axis];
  out.stride = a->strides[0] / size;
  return out;
}

// The array with its first axis as rows and all others as width. `ok` is cleared, never set.
template <class T>
static inline RowsOf<T> rows_of(const Context* c, Object object, bool* ok) {
  const RowsOf<u8> rows = byte_rows_of(c, object, sizeof(T), ok);
  return {(T*)rows.data, rows.rows, rows.width, rows.stride};
}

// A contiguous array as it lies, with the size of its elements by the stride of the last axis.
struct Whole {
  u8* data;
  int dimensions;
  const intptr_t* shape;
  i64 element_bytes;
  i64 elements;
};

STRATUM_COLD Whole whole(const Context* c, Object object, bool* ok) {
  const ArrayHeader* a = header(c, object);
  const i64 size = a->dimensions ? a->strides[a->dimensions - 1] : 0;
  if (a->dimensions < 1 || !contiguous(a, 0, size)) *ok = false;
  return {a->data, a->dimensions, a->shape, size, elements_of(a)};
}

STRATUM_COLD u8* all_bytes_of(const Context* c, Object object, i64 elements, i64 size, bool* ok) {
  const ArrayHeader* a = header(c, object);
  if (elements_of(a) != elements || !contiguous(a, 0, size)) *ok = false;
  return a->data;
}

// A contiguous array of T; `ok` is cleared when its elements have another size or number.
template <class T>
static inline T* all_of(const Context* c, Object object, i64 elements, bool* ok) {
  return (T*)all_bytes_of(c, object, elements, sizeof(T), ok);
}
