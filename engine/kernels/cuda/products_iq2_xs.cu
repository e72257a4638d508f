// Products of IQ2_XS matrices.
#include "products_all.cuh"

QUANTISED_PRODUCTS(iq2_xs, FormatIQ2_XS)
EXPORT(product_iq2_xs_r1)
EXPORT(product_iq2_xs_r2)
EXPORT(product_iq2_xs_r4)
EXPORT(product_iq2_xs_r8)
EXPORT(product_iq2_xs_r16)
EXPORT(product_iq2_xs_many)
EXPORT(product_iq2_xs_many_gated)
EXPORT(gather_iq2_xs)
