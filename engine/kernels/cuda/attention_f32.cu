// Attending to pages of float32 (attention.cuh).
#include "attention.cuh"

ATTENTION_KERNELS(float, f32_v1, 1)
EXPORT(attention_parts_f32_v1)
EXPORT(attention_rows_f32_v1)
ATTENTION_KERNELS(float, f32_v4, 4)
EXPORT(attention_parts_f32_v4)
EXPORT(attention_rows_f32_v4)
