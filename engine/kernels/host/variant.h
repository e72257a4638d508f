// One variant: operations for one instruction set, and the table that names them.
// A variant_*.cpp defines STRATUM_ISA (its namespace), STRATUM_TABLE, and STRATUM_WIDE or
// STRATUM_VNNI where they apply, and is compiled with the flags of engine/kernels/build.py. With
// STRATUM_PRODUCTS_ONLY it has only the operations with matrix products; the library takes the
// others from the AVX2 variant, which would be the same code.
#pragma once
#include "experts.h"
#include "streams.h"
#if !defined(STRATUM_PRODUCTS_ONLY)
#include "attention.h"
#include "delta.h"
#include "ple.h"
#include "row_table.h"
#endif

#define STRATUM_ENTRY(name) {#name, (const void*)&STRATUM_ISA::name}

const Operation STRATUM_TABLE[] = {
    STRATUM_ENTRY(matmul),
    STRATUM_ENTRY(row_tiles),
    STRATUM_ENTRY(hc_mix),
    STRATUM_ENTRY(route),
    STRATUM_ENTRY(experts),
    STRATUM_ENTRY(shared_expert),
#if !defined(STRATUM_PRODUCTS_ONLY)
    STRATUM_ENTRY(read_memory),
    STRATUM_ENTRY(gather_rows),
    STRATUM_ENTRY(read_rows),
    STRATUM_ENTRY(fill_streams),
    STRATUM_ENTRY(add_to_streams),
    STRATUM_ENTRY(rms_norm),
    STRATUM_ENTRY(hc_combine),
    STRATUM_ENTRY(delta_mix),
    STRATUM_ENTRY(delta_commit),
    STRATUM_ENTRY(attention),
    STRATUM_ENTRY(attention_append),
    STRATUM_ENTRY(ple_mix),
    STRATUM_ENTRY(ple_commit),
    STRATUM_ENTRY(map_values),
#endif
    {nullptr, nullptr},
};
