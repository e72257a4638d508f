// See cpu.h.
#include "cpu.h"

#include <cpuid.h>

namespace {

struct Leaf {
  u32 eax, ebx, ecx, edx;
};

bool read_leaf(u32 number, u32 part, Leaf* leaf) {
  if (__get_cpuid_max(0, 0) < number) return false;
  __cpuid_count(number, part, leaf->eax, leaf->ebx, leaf->ecx, leaf->edx);
  return true;
}

// Which register states the operating system saves (XCR0).
u32 saved_states() {
  u32 low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

bool has(u32 word, int bit) { return (word >> bit) & 1; }

}  // namespace

u32 cpu_features() {
  Leaf basic, extended, further;
  if (!read_leaf(1, 0, &basic) || !read_leaf(7, 0, &extended)) return 0;
  const bool osxsave = has(basic.ecx, 27);
  if (!osxsave) return 0;
  const u32 states = saved_states();
  const bool ymm = (states & 0x06) == 0x06;
  const bool zmm = (states & 0xe6) == 0xe6;
  const bool avx2 = ymm && has(basic.ecx, 28) && has(basic.ecx, 12) && has(basic.ecx, 29) &&
                    has(extended.ebx, 5) && has(extended.ebx, 3) && has(extended.ebx, 8);
  if (!avx2) return 0;
  u32 features = kCpuAvx2;
  if (extended.eax >= 1 && read_leaf(7, 1, &further) && has(further.eax, 4)) {
    features |= kCpuAvxVnni;
  }
  const bool foundation = has(extended.ebx, 16) && has(extended.ebx, 17) &&
                          has(extended.ebx, 30) && has(extended.ebx, 31);
  const bool vbmi = has(extended.ecx, 1), vnni = has(extended.ecx, 11);
  if (zmm && foundation && vbmi && vnni && has(extended.ebx, 28)) features |= kCpuAvx512;
  return features;
}
