// Products of IQ4_NL matrices.
#include "products_all.cuh"

QUANTISED_PRODUCTS(iq4_nl, FormatIQ4_NL)
EXPORT(product_iq4_nl_r1)
EXPORT(product_iq4_nl_r2)
EXPORT(product_iq4_nl_r4)
EXPORT(product_iq4_nl_r8)
EXPORT(product_iq4_nl_r16)
EXPORT(product_iq4_nl_many)
EXPORT(product_iq4_nl_many_gated)
EXPORT(gather_iq4_nl)
