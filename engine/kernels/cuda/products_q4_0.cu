// Products of Q4_0 matrices.
#include "products_all.cuh"

QUANTISED_PRODUCTS(q4_0, FormatQ4_0)
EXPORT(product_q4_0_r1)
EXPORT(product_q4_0_r2)
EXPORT(product_q4_0_r4)
EXPORT(product_q4_0_r8)
EXPORT(product_q4_0_r16)
EXPORT(product_q4_0_many)
EXPORT(product_q4_0_many_gated)
EXPORT(gather_q4_0)
