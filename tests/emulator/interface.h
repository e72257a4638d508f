// What a library of compiled kernels and the emulator's runtime know of each other. A kernel library links
// nothing: at load it is handed the runtime's functions and hands back what it exports.
#pragma once

#include <stdint.h>

namespace emulator {

constexpr int VERSION = 1;
constexpr int MOST_PARAMETERS = 64;

struct Index3 {
    uint32_t x, y, z;
};

// Where the running thread is; the runtime writes it whenever another thread goes on.
struct Here {
    Index3 thread, block, block_size, grid_size;
    uint32_t lane;          // of its warp
    unsigned char* shared;  // dynamic shared memory of the block
};

// What lanes that meet at one instruction do together, run by the last one that comes. `mine[lane]` is what each
// lane in `mask` brought.
using Operation = void (*)(void* const* mine, uint32_t mask);

struct Runtime {
    int version;
    int (*barrier)(int predicate);  // how many threads of the block came with a true predicate
    void (*meet)(uint32_t mask, Operation operation, void* mine);
    void (*copy_async)(void* target, const void* source, uint32_t num_bytes);
    void (*commit_copies)();
    void (*wait_for_copies)(int most_open_groups);
    void (*stop)(const char* reason);
};

enum Kind : uint8_t { VALUE = 0, POINTER = 1 };

struct Entry {
    const char* name;
    void (*call)(void* const* arguments);  // runs one thread
    int32_t num_parameters;
    int32_t sizes[MOST_PARAMETERS];
    uint8_t kinds[MOST_PARAMETERS];
    const Entry* next;
};

struct Module {
    int version;
    Here* here;
    const Entry* entries;  // a list
    char* (*touch_shared)();  // the address of a thread-local variable: all others are shared arrays
};

}  // namespace emulator
