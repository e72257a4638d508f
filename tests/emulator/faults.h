// Faults of kernels: what the processor reports (memory that nobody allocated, a check of the compiler) stops the
// kernel instead of the process. Only while a kernel runs, and only on its thread.
#pragma once

#include <stdint.h>

namespace emulator {

enum class FaultKind : int32_t { NONE = 0, READ = 1, WRITE = 2, CHECK = 3, DIVISION = 4 };

struct Fault {
    FaultKind kind;
    uint64_t address;
};

// From now on, until disarm, a fault of this thread is kept, and the thread goes on at the stack pointer that
// `*stack` holds then, at stratum_switch_back.
void arm_faults(void** stack);
void disarm_faults();
// The fault since arm_faults.
Fault last_fault();

}  // namespace emulator
