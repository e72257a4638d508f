// Memory of the emulated cards.
#include "memory.h"

#include <string.h>

#include <algorithm>
#include <iterator>
#include <map>

#ifdef _WIN32
#include <windows.h>
#else
#include <sys/mman.h>
#endif

namespace emulator {
namespace {

constexpr size_t ALIGNMENT = 256;
constexpr unsigned char BEHIND = 0xc5;

std::map<uint64_t, Range>& ranges() {
    static std::map<uint64_t, Range> all;
    return all;
}

// Ranges that end before the page does.
std::map<uint64_t, Range>& open_ended() {
    static std::map<uint64_t, Range> all;
    return all;
}

size_t bytes_behind(const Range& range) {
    return range.is_card ? (ALIGNMENT - range.num_bytes % ALIGNMENT) % ALIGNMENT : 0;
}

}  // namespace

char* map_pages(size_t num_bytes) {
    const size_t all = num_bytes + 2 * GUARD;
#ifdef _WIN32
    char* start = static_cast<char*>(VirtualAlloc(nullptr, all, MEM_RESERVE, PAGE_NOACCESS));
    if (start == nullptr) return nullptr;
    if (VirtualAlloc(start + GUARD, num_bytes, MEM_COMMIT, PAGE_READWRITE) == nullptr) {
        VirtualFree(start, 0, MEM_RELEASE);
        return nullptr;
    }
#else
    void* mapped = mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) return nullptr;
    char* start = static_cast<char*>(mapped);
    if (mprotect(start + GUARD, num_bytes, PROT_READ | PROT_WRITE) != 0) {
        munmap(start, all);
        return nullptr;
    }
#endif
    return start + GUARD;
}

void unmap_pages(char* start, size_t num_bytes) {
#ifdef _WIN32
    VirtualFree(start, num_bytes, MEM_DECOMMIT);
#else
    mmap(start, num_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
#endif
}

void add_range(const Range& range) {
    ranges()[range.start] = range;
    if (bytes_behind(range) == 0) return;
    open_ended()[range.start] = range;
    memset(reinterpret_cast<char*>(range.start) + range.num_bytes, BEHIND, bytes_behind(range));
}

void remove_range(uint64_t start) {
    ranges().erase(start);
    open_ended().erase(start);
}

bool may_point(int32_t device, uint64_t address) {
    auto next = ranges().upper_bound(address);
    while (next != ranges().begin()) {  // registered host memory may overlap, so more than one is looked at
        const Range& range = std::prev(next)->second;
        if ((range.device == device || !range.is_card) && address <= range.start + range.num_bytes) return true;
        if (range.is_card) return false;
        --next;
    }
    return false;
}

bool holds(int32_t device, uint64_t start, uint64_t num_bytes) {
    auto next = ranges().upper_bound(start);
    if (next == ranges().begin()) return false;
    const Range& range = std::prev(next)->second;
    return range.is_card && range.device == device && start + num_bytes <= range.start + range.num_bytes;
}

uint64_t first_overrun(int32_t device) {
    for (const auto& [start, range] : open_ended()) {
        if (range.device != device) continue;
        const unsigned char* end = reinterpret_cast<const unsigned char*>(start) + range.num_bytes;
        const size_t behind = bytes_behind(range);
        if (std::any_of(end, end + behind, [](unsigned char byte) { return byte != BEHIND; })) return start;
    }
    return 0;
}

}  // namespace emulator
