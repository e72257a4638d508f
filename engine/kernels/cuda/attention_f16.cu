// Attending to pages of float16 (attention.cuh).
#include "attention.cuh"

ATTENTION_KERNELS(uint16_t, f16_v1, 1)
EXPORT(attention_parts_f16_v1)
EXPORT(attention_rows_f16_v1)
ATTENTION_KERNELS(uint16_t, f16_v4, 4)
EXPORT(attention_parts_f16_v4)
EXPORT(attention_rows_f16_v4)
