// What the runtime is told of a launch, and what it says when that did not end well.
#pragma once

#include <stdint.h>

#include "interface.h"

namespace emulator {

enum Order : int32_t { FORWARD = 0, BACKWARD = 1, RANDOM = 2 };

struct Launch {
    const Module* module;
    const Entry* entry;
    void* const* arguments;
    Index3 grid_size, block_size;
    uint32_t shared_bytes;
    int32_t order;
    uint64_t seed;
    int32_t poison;  // the byte that shared memory is filled with
};

struct Report {
    int32_t fault;  // FaultKind
    uint64_t address;
    Index3 block, thread;
    char reason[256];
};

}  // namespace emulator
