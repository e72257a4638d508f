// Products of Q5_0 matrices.
#include "products_all.cuh"

QUANTISED_PRODUCTS(q5_0, FormatQ5_0)
EXPORT(product_q5_0_r1)
EXPORT(product_q5_0_r2)
EXPORT(product_q5_0_r4)
EXPORT(product_q5_0_r8)
EXPORT(product_q5_0_r16)
EXPORT(product_q5_0_many)
EXPORT(product_q5_0_many_gated)
EXPORT(gather_q5_0)
