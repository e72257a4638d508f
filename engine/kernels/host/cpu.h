// What this processor and its operating system can run, by CPUID and XGETBV.
//
// Own code because __builtin_cpu_supports() answers 0 in a shared library built by zig, and because
// package py-cpuinfo does not see AVX-VNNI on Windows.
#pragma once
#include "api.h"

enum CpuFeature : u32 {
  kCpuAvx2 = 1,     // AVX2, FMA, F16C, and registers saved by the system
  kCpuAvxVnni = 2,  // the above and AVX-VNNI
  kCpuAvx512 = 4,   // the above without AVX-VNNI, and AVX-512 F BW DQ VL VNNI
};

u32 cpu_features();
