// What the library, its instruction-set variants and Python (engine/ops/host_structs.py) share.
//
// Arrays cross the border as numpy objects: the library reads data pointer, dimensions and strides
// from the object's header (fixed by numpy's ABI; `stratum_check_array` proves it at load time), so
// a call costs Python one id() per array. The caller keeps objects alive during a call.
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef int64_t i64;
typedef uint64_t u64;
typedef int32_t i32;
typedef uint32_t u32;
typedef uint16_t u16;
typedef uint8_t u8;
typedef int8_t i8;

// Values are the ids of the GGUF file format (spec/qwen4exp.md section 8).
enum Format : i32 {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kIQ2_XXS = 16,
  kIQ2_XS = 17,
  kIQ3_XXS = 18,
  kIQ1_S = 19,
  kIQ4_NL = 20,
  kIQ3_S = 21,
  kIQ2_S = 22,
  kIQ4_XS = 23,
  kIQ1_M = 29,
  kBF16 = 30,
  kMXFP4 = 39,
  kQ2_0 = 42,
};

enum Status : i32 {
  kOk = 0,
  kWrongShape = 1,    // an array's dimensions, strides or numbers do not fit the weights
  kOutOfMemory = 2,   // scratch could not be allocated
  kNotRead = 3,       // the disk failed to deliver; the row reader says what
};

// A matrix [rows, columns], or `count` of them one after another. Rows are whole blocks.
struct Matrix {
  const u8* data;
  i64 rows;
  i64 columns;
  i64 count;
  i64 row_bytes;
  i64 type;  // Format
  const u8* tiles;  // the same weights for rows_product (rowtiles.h), or null
};

// Tables of the IQ formats: rows of 8 or 4 magnitudes as bytes (of IQ1: values -8, 0, 8), and the 8
// signs of each 7-bit code.
struct Codebooks {
  const uint64_t* iq2_xxs;  // [256]
  const uint64_t* iq2_xs;   // [512]
  const uint64_t* iq2_s;    // [1024]
  const u32* iq3_xxs;       // [256]
  const u32* iq3_s;         // [512]
  const uint64_t* iq1;      // [2048]
  const u8* signs;          // [128]
  // For variants that look up many bytes at once (grids_wide.h): the numbers of the magnitudes, in
  // two columns [2, rows].
  const u8* iq2_xxs_codes;
  const u8* iq2_xs_codes;
  const u8* iq2_s_codes;
  const u8* iq3_xxs_codes;
  const u8* iq3_s_codes;
};

struct HyperConnection {
  const float* norm;  // [streams, hidden]
  const Matrix* down;
  const Matrix* up;
  const Matrix* inject;  // null for the final mixer
  // A small `up` of floats, 16 rows at a time transposed: [streams * hidden / 16, rank, 16] float32, or
  // BF16 where `up` is that and `hidden` a multiple of 32: [streams * hidden / 32, rank, 16, 2] with
  // rows j and 16 + j. Null when there is none.
  const void* up_columns;
  i64 streams;
  i64 hidden;
  double eps;
};

struct Delta {
  const float* conv;  // [taps, channels]: transposed, so that channels are vector lanes
  const float* a;
  const float* dt;
  const float* norm;
  i64 k_heads;
  i64 v_heads;
  i64 head_dim;
  i64 taps;
  double eps;
};

struct Attention {
  const float* q_norm;
  const float* k_norm;
  const float* index_q_norm;
  const float* index_k_norm;
  i64 heads;
  i64 kv_heads;
  i64 head_dim;
  i64 index_heads;
  i64 index_dim;
  i64 rope_dim;
  i64 ratio;
  i64 top_blocks;
  double eps;
};

struct Moe {
  const Matrix* router;
  const Matrix* gate;
  const Matrix* up;
  const Matrix* down;
  const float* shared_router;
  const Matrix* shared_gate;
  const Matrix* shared_up;
  const Matrix* shared_down;
  i64 used;
};

struct Ple {
  const float* norm_key;
  const float* norm_query;
  const float* norm_conv;
  const float* conv;  // [taps, streams * hidden]: transposed
  i64 streams;
  i64 hidden;
  i64 taps;
  i64 dilation;
  double eps;
};

// One numpy array object.
typedef const void* Object;

// An operation of a variant. Python binds `function` with the argument types that
// engine/ops/host_library.py lists; all return a Status and take the Context first.
struct Operation {
  const char* name;
  const void* function;
};

// A variant: the same operations compiled for one instruction set. Ends with a null name.
extern const Operation stratum_operations_avx2[];
extern const Operation stratum_operations_avxvnni[];
extern const Operation stratum_operations_avx512[];
