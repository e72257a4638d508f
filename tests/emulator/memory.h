// Memory of the emulated cards: each allocation ends at addresses that nobody may touch, begins behind
// others, and is never given to anybody again; so what reaches beyond it, or comes too late, faults.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace emulator {

constexpr size_t PAGE = 4096;
constexpr size_t GUARD = 1 << 20;  // addresses only, no memory

// Readable and writable bytes, a whole number of pages, between two guards that are not; nullptr without memory.
char* map_pages(size_t num_bytes);
// Gives the memory back but keeps the addresses, so that whoever still uses them faults.
void unmap_pages(char* start, size_t num_bytes);

// What kernels may touch: their own card's memory, and host memory that was pinned for any card.
struct Range {
    uint64_t start;
    uint64_t num_bytes;
    int32_t device;
    int32_t is_card;  // else host memory that the card can reach
};

void add_range(const Range& range);
void remove_range(uint64_t start);
// Whether an argument may point here: into a range of the device, or to its end.
bool may_point(int32_t device, uint64_t address);
// Whether bytes lie within one range of the card itself.
bool holds(int32_t device, uint64_t start, uint64_t num_bytes);
// The start of a range of the device of which bytes behind the end were changed, or 0.
uint64_t first_overrun(int32_t device);

}  // namespace emulator
