// Products of Q4_K matrices.
#include "products_all.cuh"

QUANTISED_PRODUCTS(q4_k, FormatQ4_K)
EXPORT(product_q4_k_r1)
EXPORT(product_q4_k_r2)
EXPORT(product_q4_k_r4)
EXPORT(product_q4_k_r8)
EXPORT(product_q4_k_r16)
EXPORT(product_q4_k_many)
EXPORT(product_q4_k_many_gated)
EXPORT(gather_q4_k)
