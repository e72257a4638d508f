// The variant for 512-bit vectors with AVX-512 F, BW, DQ, VL, VBMI and VNNI.
#define STRATUM_ISA avx512
#define STRATUM_TABLE stratum_operations_avx512
#define STRATUM_WIDE
#include "variant.h"
