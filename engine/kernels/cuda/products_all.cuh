// The kernels of one format: products with up to 1, 2, 4, 8, 16 rows of activations (of a tile), with many (up to 64), with many
// and gated, and reading rows of a table. A .cu file for each format has them, so that only what a model needs is compiled.
#pragma once
#include "products_float.cuh"
#include "products_many.cuh"

#define ONE_PRODUCT(format, Format, rows) \
    KERNEL_BOUNDED(product_##format##_r##rows, PRODUCT_THREADS)(const Product p) { product<Format, rows>(p); }

#define QUANTISED_PRODUCTS(format, Format)                                                              \
    ONE_PRODUCT(format, Format, 1)                                                                      \
    ONE_PRODUCT(format, Format, 2)                                                                      \
    ONE_PRODUCT(format, Format, 4)                                                                      \
    ONE_PRODUCT(format, Format, 8)                                                                      \
    ONE_PRODUCT(format, Format, 16)                                                                     \
    KERNEL_BOUNDED(product_##format##_many, MANY_THREADS)(const Product p) { product_many<Format>(p); } \
    KERNEL_BOUNDED(product_##format##_many_gated, MANY_THREADS)(const Product p) {                      \
        product_many<Format, true>(p);                                                                  \
    }                                                                                                   \
    KERNEL(gather_##format)                                                                             \
    (const uint8_t* table, int64_t row_bytes, const uint32_t* grid, const int64_t* numbers,             \
     int32_t count, int32_t columns, float* out) {                                                      \
        gather<Format>(table, row_bytes, grid, numbers, count, columns, out);                           \
    }

#define ONE_FLOAT_PRODUCT(format, Kind, rows) \
    KERNEL_BOUNDED(product_##format##_r##rows, PRODUCT_THREADS)(const Product p) { float_product<Kind, rows>(p); }

#define FLOAT_PRODUCTS(format, Kind)                                                     \
    ONE_FLOAT_PRODUCT(format, Kind, 1)                                                   \
    ONE_FLOAT_PRODUCT(format, Kind, 2)                                                   \
    ONE_FLOAT_PRODUCT(format, Kind, 4)                                                   \
    ONE_FLOAT_PRODUCT(format, Kind, 8)                                                   \
    ONE_FLOAT_PRODUCT(format, Kind, 16)                                                  \
    KERNEL(gather_##format)                                                              \
    (const uint8_t* table, int64_t row_bytes, const uint32_t*, const int64_t* numbers,   \
     int32_t count, int32_t columns, float* out) {                                       \
        float_gather<Kind>(table, row_bytes, numbers, count, columns, out);              \
    }
