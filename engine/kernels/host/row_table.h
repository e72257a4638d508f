// Rows of a table that is read from the disk as needed (row_reader.h). Plain twin: `gather_rows`.
#pragma once
#include "matmul.h"
#include "row_reader.h"

namespace STRATUM_ISA {

// out[i] = table[rows[i]]; `shape` says how the rows are stored, its data is not used.
STRATUM_OPERATION i32 read_rows(Context* c, RowReader* reader, const Matrix* shape, Object rows_object,
                                Object out_object) {
  bool ok = true;
  const Whole rows = whole(c, rows_object, &ok);
  const Whole out = whole(c, out_object, &ok);
  const i64 count = rows.elements;
  if (!ok || (count && rows.element_bytes != 8) || out.elements != count * shape->columns ||
      shape->row_bytes != row_reader_row_bytes(reader)) {
    return kWrongShape;
  }
  Scratch scratch(c);
  const DecodeMemory memory = take_decode_memory(c, &scratch, decode_bytes(shape));
  u8* raw = scratch.take<u8>(count * shape->row_bytes + 64);
  if (!scratch.ok()) return kOutOfMemory;
  const i32 status = row_reader_collect(reader, (const i64*)rows.data, count, raw);
  if (status != kOk) return status;
  parallel(c, count, count * (200 + shape->columns), [&](i64 i, i64 thread) {
    row_to_floats(raw + i * shape->row_bytes, shape->type, shape->columns, memory.of(thread),
                  (float*)out.data + i * shape->columns);
  });
  return kOk;
}

}  // namespace STRATUM_ISA
