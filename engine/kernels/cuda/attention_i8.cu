// Attending to pages of int8 (attention.cuh).
#include "attention.cuh"

ATTENTION_KERNELS(int8_t, i8_v1, 1)
EXPORT(attention_parts_i8_v1)
EXPORT(attention_rows_i8_v1)
ATTENTION_KERNELS(int8_t, i8_v4, 4)
EXPORT(attention_parts_i8_v4)
EXPORT(attention_rows_i8_v4)
