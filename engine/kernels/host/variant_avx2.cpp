// The variant for 256-bit vectors with AVX2, FMA and F16C.
#define STRATUM_ISA avx2
#define STRATUM_TABLE stratum_operations_avx2
#include "variant.h"
