// Products of Q5_1 matrices.
#include "products_all.cuh"

QUANTISED_PRODUCTS(q5_1, FormatQ5_1)
EXPORT(product_q5_1_r1)
EXPORT(product_q5_1_r2)
EXPORT(product_q5_1_r4)
EXPORT(product_q5_1_r8)
EXPORT(product_q5_1_r16)
EXPORT(product_q5_1_many)
EXPORT(product_q5_1_many_gated)
EXPORT(gather_q5_1)
