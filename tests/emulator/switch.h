// Leaving one stack and going on at another: what a function call must preserve is pushed, the stack pointer is
// exchanged, and the other stack's registers are popped. For x86-64, System V and Windows.
#pragma once

#include <stdint.h>

extern "C" {
// Keeps the stack pointer of the running fiber at `left` and goes on with the one at `entered`.
void stratum_switch(void** left, void* entered);
// Where a processor that was stopped by a fault goes on, with its stack pointer set to one kept above.
void stratum_switch_back();
}

#ifdef _WIN32
constexpr int SAVED_WORDS = 8 + 20;  // rbp rbx rdi rsi r12-r15, xmm6-xmm15
#else
constexpr int SAVED_WORDS = 6;  // rbp rbx r12-r15
#endif

// The stack pointer with which a new fiber starts in `entry`, on a stack that ends at `top` (16-byte aligned).
inline void* new_stack(char* top, void (*entry)()) {
    void** stack = reinterpret_cast<void**>(top);
#ifdef _WIN32
    stack -= 4;  // the callee's home space
#endif
    *--stack = nullptr;  // entry never returns; at its start the stack is 8 off alignment, as after a call
    *--stack = reinterpret_cast<void*>(entry);
    for (int i = 0; i < SAVED_WORDS; ++i) *--stack = nullptr;
    return stack;
}
