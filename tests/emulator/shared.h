// The static shared arrays of a kernel library: poisoned before each block, so that nothing can rely on what was
// there. A library holds the arrays of many kernels; which bytes a kernel uses is learnt from its first launches.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <utility>
#include <vector>

#include "interface.h"

namespace emulator {

class SharedArrays {
  public:
    SharedArrays(const Module* module, const Entry* entry, int32_t poison_byte);
    // Before a block.
    void poison();
    // After the first block of a launch, and after all.
    void learn();
    // One launch more.
    void count();

  private:
    struct Known;
    Known* known_;
    char* start_;
    size_t num_bytes_;
    int32_t poison_byte_;
};

}  // namespace emulator
