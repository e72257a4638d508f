// Products of IQ1_M matrices.
#include "products_all.cuh"

QUANTISED_PRODUCTS(iq1_m, FormatIQ1_M)
EXPORT(product_iq1_m_r1)
EXPORT(product_iq1_m_r2)
EXPORT(product_iq1_m_r4)
EXPORT(product_iq1_m_r8)
EXPORT(product_iq1_m_r16)
EXPORT(product_iq1_m_many)
EXPORT(product_iq1_m_many_gated)
EXPORT(gather_iq1_m)
