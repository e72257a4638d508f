// Products of IQ2_S matrices.
#include "products_all.cuh"

QUANTISED_PRODUCTS(iq2_s, FormatIQ2_S)
EXPORT(product_iq2_s_r1)
EXPORT(product_iq2_s_r2)
EXPORT(product_iq2_s_r4)
EXPORT(product_iq2_s_r8)
EXPORT(product_iq2_s_r16)
EXPORT(product_iq2_s_many)
EXPORT(product_iq2_s_many_gated)
EXPORT(gather_iq2_s)
