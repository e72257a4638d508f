// Products of BF16 matrices.
#include "products_all.cuh"

FLOAT_PRODUCTS(bf16, FloatBF16)
EXPORT(product_bf16_r1)
EXPORT(product_bf16_r2)
EXPORT(product_bf16_r4)
EXPORT(product_bf16_r8)
EXPORT(product_bf16_r16)
EXPORT(gather_bf16)
