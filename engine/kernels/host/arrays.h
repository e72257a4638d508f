// Reading numpy arrays from their object headers.
#pragma once
#include "context.h"

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

// True when the axes from `first` on are contiguous with elements of `size` bytes.
static inline bool contiguous(const ArrayHeader* a, int first, i64 size) {
  i64 expected = size;
  for (int axis = a->dimensions - 1; axis >= first; --axis) {
    if (a->shape[axis] != 1 && a->strides[axis] != expected) return false;
    expected *= a->shape[axis];
  }
  return true;
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

// The array with its first axis as rows and all others as width. `ok` is cleared, never set.
template <class T>
static inline RowsOf<T> rows_of(const Context* c, Object object, bool* ok) {
  const ArrayHeader* a = header(c, object);
  RowsOf<T> out = {(T*)a->data, 0, 1, 0};
  if (a->dimensions < 1 || !contiguous(a, 1, sizeof(T))) {
    *ok = false;
    return out;
  }
  out.rows = a->shape[0];
  for (int axis = 1; axis < a->dimensions; ++axis) out.width *= a->shape[axis];
  out.stride = a->dimensions == 1 ? 1 : a->strides[0] / (i64)sizeof(T);
  if (a->dimensions == 1 && out.rows > 1 && a->strides[0] != (intptr_t)sizeof(T)) *ok = false;
  return out;
}

// A contiguous array as it lies, with the size of its elements by the stride of the last axis.
struct Whole {
  u8* data;
  int dimensions;
  const intptr_t* shape;
  i64 element_bytes;
  i64 elements() const {
    i64 n = 1;
    for (int axis = 0; axis < dimensions; ++axis) n *= shape[axis];
    return n;
  }
};

static inline Whole whole(const Context* c, Object object, bool* ok) {
  const ArrayHeader* a = header(c, object);
  const i64 size = a->dimensions ? a->strides[a->dimensions - 1] : 0;
  if (a->dimensions < 1 || !contiguous(a, 0, size)) *ok = false;
  return {a->data, a->dimensions, a->shape, size};
}

// A contiguous array of T; `ok` is cleared when its elements have another size.
template <class T>
static inline T* all_of(const Context* c, Object object, i64 elements, bool* ok) {
  const ArrayHeader* a = header(c, object);
  i64 n = 1;
  for (int axis = 0; axis < a->dimensions; ++axis) n *= a->shape[axis];
  if (n != elements || !contiguous(a, 0, sizeof(T))) *ok = false;
  return (T*)a->data;
}
