// Products of F16 matrices.
#include "products_all.cuh"

FLOAT_PRODUCTS(f16, FloatF16)
EXPORT(product_f16_r1)
EXPORT(product_f16_r2)
EXPORT(product_f16_r4)
EXPORT(product_f16_r8)
EXPORT(product_f16_r16)
EXPORT(gather_f16)
