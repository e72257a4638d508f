// Rows of a table in a file: asked for early, collected late.
//
// A request only starts reads; collecting is complete by itself and merely finds that reads are done
// or under way. So nothing has to be called off: what was requested in vain waits in the cache until it
// makes room. Plain twin: a slice of the mapped file.
#pragma once
#include "page_io.h"

struct RowReader;

struct RowFigures {
  i64 rows;          // collected
  i64 hits;          // of these, rows for which nothing had to be read
  i64 reads;         // of one page, or of two where a row lies across their border
  i64 read_bytes;
  i64 wait_ns;       // in which collecting waited for the disk
  i64 waits;         // collections that waited
  i64 failed_reads;  // that the system gave an error for
  i64 cached_rows;
  i64 evicted_rows;
  i64 kind;          // PageIoKind bits
};

struct RowFailure {
  i64 offset;  // in the file
  i64 error;   // the system's number; 0 = the file ended there
};

// Writes the rows' bytes one behind the other. kNotRead when the disk failed twice; kOutOfMemory.
i32 row_reader_collect(RowReader* reader, const i64* rows, i64 count, u8* out);
i64 row_reader_rows(const RowReader* reader);
i64 row_reader_row_bytes(const RowReader* reader);
