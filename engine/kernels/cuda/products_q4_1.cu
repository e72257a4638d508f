// Products of Q4_1 matrices.
#include "products_all.cuh"

QUANTISED_PRODUCTS(q4_1, FormatQ4_1)
EXPORT(product_q4_1_r1)
EXPORT(product_q4_1_r2)
EXPORT(product_q4_1_r4)
EXPORT(product_q4_1_r8)
EXPORT(product_q4_1_r16)
EXPORT(product_q4_1_many)
EXPORT(product_q4_1_many_gated)
EXPORT(gather_q4_1)
