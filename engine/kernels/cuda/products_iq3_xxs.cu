// Products of IQ3_XXS matrices.
#include "products_all.cuh"

QUANTISED_PRODUCTS(iq3_xxs, FormatIQ3_XXS)
EXPORT(product_iq3_xxs_r1)
EXPORT(product_iq3_xxs_r2)
EXPORT(product_iq3_xxs_r4)
EXPORT(product_iq3_xxs_r8)
EXPORT(product_iq3_xxs_r16)
EXPORT(product_iq3_xxs_many)
EXPORT(product_iq3_xxs_many_gated)
EXPORT(gather_iq3_xxs)
