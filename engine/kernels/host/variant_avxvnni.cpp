// The variant for 256-bit vectors with AVX2, FMA, F16C and AVX-VNNI.
#define STRATUM_ISA avxvnni
#define STRATUM_TABLE stratum_operations_avxvnni
#define STRATUM_VNNI
#define STRATUM_PRODUCTS_ONLY
#include "variant.h"
