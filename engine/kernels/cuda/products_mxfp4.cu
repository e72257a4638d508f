// Products of MXFP4 matrices.
#include "products_all.cuh"

QUANTISED_PRODUCTS(mxfp4, FormatMXFP4)
EXPORT(product_mxfp4_r1)
EXPORT(product_mxfp4_r2)
EXPORT(product_mxfp4_r4)
EXPORT(product_mxfp4_r8)
EXPORT(product_mxfp4_r16)
EXPORT(product_mxfp4_many)
EXPORT(product_mxfp4_many_gated)
EXPORT(gather_mxfp4)
