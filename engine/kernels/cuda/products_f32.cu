// Products of F32 matrices.
#include "products_all.cuh"

FLOAT_PRODUCTS(f32, FloatF32)
EXPORT(product_f32_r1)
EXPORT(product_f32_r2)
EXPORT(product_f32_r4)
EXPORT(product_f32_r8)
EXPORT(product_f32_r16)
EXPORT(gather_f32)
