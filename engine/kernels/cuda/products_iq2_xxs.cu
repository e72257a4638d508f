// Products of IQ2_XXS matrices.
#include "products_all.cuh"

QUANTISED_PRODUCTS(iq2_xxs, FormatIQ2_XXS)
EXPORT(product_iq2_xxs_r1)
EXPORT(product_iq2_xxs_r2)
EXPORT(product_iq2_xxs_r4)
EXPORT(product_iq2_xxs_r8)
EXPORT(product_iq2_xxs_r16)
EXPORT(product_iq2_xxs_many)
EXPORT(product_iq2_xxs_many_gated)
EXPORT(gather_iq2_xxs)
