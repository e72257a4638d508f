// Products of IQ3_S matrices.
#include "products_all.cuh"

QUANTISED_PRODUCTS(iq3_s, FormatIQ3_S)
EXPORT(product_iq3_s_r1)
EXPORT(product_iq3_s_r2)
EXPORT(product_iq3_s_r4)
EXPORT(product_iq3_s_r8)
EXPORT(product_iq3_s_r16)
EXPORT(product_iq3_s_many)
EXPORT(product_iq3_s_many_gated)
EXPORT(gather_iq3_s)
