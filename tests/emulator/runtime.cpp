// The emulated card's multiprocessor: runs the blocks of a launch one after another, and the threads of a block as
// fibers of the calling thread. A thread runs until it waits for others or ends; in which order threads go on is
// the launch's `order`, and a result that depends on it is a race. Many threads never wait: they run one after
// another on one stack, as in a loop.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "faults.h"
#include "interface.h"
#include "launch.h"
#include "memory.h"
#include "shared.h"
#include "switch.h"

namespace emulator {
namespace {

constexpr size_t STACK_BYTES = 64 * 1024;
constexpr int MOST_THREADS = 1024;
constexpr int MOST_WARPS = MOST_THREADS / 32;
constexpr size_t MOST_SHARED = 48 * 1024;

struct Copy {
    void* target;
    const void* source;
    uint32_t num_bytes;
    int32_t group;  // number of the commit that closes it
};

struct Thread {
    void* stack;    // where it goes on; nullptr: it has not begun
    char* memory;   // of its stack
    Index3 index;
    int32_t commits;
    std::vector<Copy> copies;
};

// Lanes of a warp that wait for others of the same mask.
struct Group {
    uint32_t mask, arrived;
    Operation operation;
    bool is_wrong;  // somebody came to another operation
};

struct Warp {
    uint32_t runnable;  // lanes
    uint32_t ended;
    int num_groups;
    Group groups[32];
    void* mine[32];
};

Thread threads[MOST_THREADS];
Warp warps[MOST_WARPS];
std::vector<char*> free_stacks;
int num_stacks;

const Launch* launch;
Here* here;
void* main_stack;
int num_threads, num_warps;
int running;                // the thread, by its number in the block
uint32_t runnable_warps;
int num_ended, num_at_barrier, barrier_votes, barrier_result;
uint64_t random_state;
int32_t order;  // of the launch
const char* stop_reason;
char* shared_memory;

uint32_t random_bits() {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return static_cast<uint32_t>(random_state >> 32);
}

// A bit of a mask that has one: the first after `last`, the last before it, or any.
inline int choose(uint32_t mask, int last) {
    if (order == FORWARD) {
        const uint32_t after = mask & ~((2u << last) - 1u);
        return __builtin_ctz(after != 0 ? after : mask);
    }
    if (order == BACKWARD) {
        const uint32_t before = mask & ((1u << last) - 1u);
        return 31 - __builtin_clz(before != 0 ? before : mask);
    }
    const int turn = static_cast<int>(random_bits() & 31u);
    const uint32_t turned = (mask >> turn) | (mask << ((32 - turn) & 31));
    return (__builtin_ctz(turned) + turn) & 31;
}

void make_runnable(int warp, uint32_t lanes) {
    warps[warp].runnable |= lanes;
    runnable_warps |= 1u << warp;
}

// The thread that goes on, or -1. In order, a warp goes on as long as it can.
inline int choose_thread() {
    if (runnable_warps == 0) return -1;
    int warp = running / 32, last = running % 32;
    if (order == RANDOM || ((runnable_warps >> warp) & 1u) == 0) {
        warp = choose(runnable_warps, warp);
        last = order == BACKWARD ? 0 : 31;
    }
    uint32_t& runnable = warps[warp].runnable;
    const int lane = choose(runnable, last);
    runnable &= ~(1u << lane);
    if (runnable == 0) runnable_warps &= ~(1u << warp);
    return warp * 32 + lane;
}

char* take_stack() {
    if (free_stacks.empty()) {
        char* memory = map_pages(STACK_BYTES);
        if (memory == nullptr) abort();
        ++num_stacks;
        return memory;
    }
    char* memory = free_stacks.back();
    free_stacks.pop_back();
    return memory;
}

void run_threads();

void begin(int number) {
    running = number;
    here->thread = threads[number].index;
    here->lane = static_cast<uint32_t>(number) % 32;
}

// Leaves the running fiber and goes on with a thread; the kept stack is the thread's own.
void go_on_with(int number, void** left) {
    begin(number);
    Thread& next = threads[number];
    if (next.stack == nullptr) {
        next.memory = take_stack();
        // Stacks that begin at the same offset in a page would share few lines of the cache.
        const size_t offset = static_cast<size_t>(number) * 192 % (PAGE * 2);
        next.stack = new_stack(next.memory + STACK_BYTES - offset - 64, run_threads);
    }
    stratum_switch(left, next.stack);
}

// The running thread goes on later, when it has become runnable.
void wait() {
    const int number = running;
    const int next = choose_thread();
    if (next == number) return;
    if (next < 0) {
        stratum_switch(&threads[number].stack, main_stack);
        return;
    }
    go_on_with(next, &threads[number].stack);
}

void stop(const char* reason) {
    stop_reason = reason;
    void* unused;
    stratum_switch(&unused, main_stack);
}

void release_barrier() {
    barrier_result = barrier_votes;
    num_at_barrier = 0;
    barrier_votes = 0;
    for (int warp = 0; warp < num_warps; ++warp) make_runnable(warp, ~warps[warp].ended);
}

int barrier(int predicate) {
    barrier_votes += predicate;
    if (++num_at_barrier == num_threads - num_ended) {
        release_barrier();
    }
    wait();
    return barrier_result;
}

void end_thread() {
    Warp& warp = warps[running / 32];
    warp.ended |= 1u << (running % 32);
    ++num_ended;
    if (num_at_barrier != 0 && num_at_barrier == num_threads - num_ended) release_barrier();
}

// What a fiber does: runs threads that have not begun, until one must go on that has a stack of its own.
void run_threads() {
    for (;;) {
        launch->entry->call(launch->arguments);
        char* memory = threads[running].memory;
        end_thread();
        const int next = choose_thread();
        if (next >= 0 && threads[next].stack == nullptr) {
            threads[next].memory = memory;
            threads[next].stack = memory;  // it has begun
            begin(next);
            continue;
        }
        free_stacks.push_back(memory);
        void* unused;
        if (next < 0) {
            stratum_switch(&unused, main_stack);
        } else {
            begin(next);
            stratum_switch(&unused, threads[next].stack);
        }
    }
}

void meet(uint32_t mask, Operation operation, void* mine) {
    const int number = running / 32, lane = running % 32;
    Warp& warp = warps[number];
    if (((mask >> lane) & 1u) == 0) stop("a lane names a mask that it is not in");
    warp.mine[lane] = mine;
    int i = 0;
    while (i < warp.num_groups && warp.groups[i].mask != mask) ++i;
    if (i == warp.num_groups) warp.groups[warp.num_groups++] = {mask, 0, operation, false};
    Group& group = warp.groups[i];
    group.arrived |= 1u << lane;
    group.is_wrong |= group.operation != operation;
    if (group.arrived == mask) {
        if (group.is_wrong) stop("lanes of one mask meet at different operations");
        operation(warp.mine, mask);
        group = warp.groups[--warp.num_groups];
        if (order != RANDOM) {  // it stays: the others follow when it waits
            const uint32_t others = mask & ~(1u << lane);
            if (others != 0) make_runnable(number, others);
            return;
        }
        make_runnable(number, mask);
    }
    wait();
}

void copy_async(void* target, const void* source, uint32_t num_bytes) {
    if (reinterpret_cast<uintptr_t>(target) % num_bytes != 0 || reinterpret_cast<uintptr_t>(source) % num_bytes != 0) {
        stop("an asynchronous copy is not aligned to its size");
    }
    Thread& thread = threads[running];
    thread.copies.push_back({target, source, num_bytes, thread.commits});
}

void commit_copies() { ++threads[running].commits; }

void wait_for_copies(int most_open_groups) {
    Thread& thread = threads[running];
    const int32_t done = thread.commits - most_open_groups;  // groups before this one are
    auto first = std::stable_partition(thread.copies.begin(), thread.copies.end(),
                                       [done](const Copy& copy) { return copy.group < done; });
    for (auto copy = thread.copies.begin(); copy != first; ++copy) memcpy(copy->target, copy->source, copy->num_bytes);
    thread.copies.erase(thread.copies.begin(), first);
}

const Runtime RUNTIME = {VERSION, barrier, meet, copy_async, commit_copies, wait_for_copies, stop};

void prepare_block(Index3 block) {
    here->block = block;
    for (int i = 0; i < num_threads; ++i) {
        threads[i].stack = nullptr;
        threads[i].memory = nullptr;
        threads[i].commits = 0;
        threads[i].copies.clear();
    }
    for (int i = 0; i < num_warps; ++i) {
        warps[i].runnable = 0xffffffffu;
        warps[i].ended = 0;
        warps[i].num_groups = 0;
    }
    runnable_warps = num_warps == 32 ? 0xffffffffu : (1u << num_warps) - 1u;
    num_ended = num_at_barrier = barrier_votes = 0;
    // where the first choice begins
    running = order == BACKWARD ? (num_warps - 1) * 32 : 31;
}

// After a block that did not end, the stacks of its threads are free again.
void take_back_stacks() {
    std::vector<char*> used;
    for (int i = 0; i < num_threads; ++i) {
        if (threads[i].memory != nullptr) used.push_back(threads[i].memory);
    }
    std::sort(used.begin(), used.end());
    used.erase(std::unique(used.begin(), used.end()), used.end());
    for (char* memory : used) {
        if (std::find(free_stacks.begin(), free_stacks.end(), memory) == free_stacks.end()) free_stacks.push_back(memory);
    }
}

void put(Report* report, const char* reason) {
    report->block = here->block;
    report->thread = here->thread;
    snprintf(report->reason, sizeof(report->reason), "%s", reason);
}

void describe_waiting(Report* report) {
    int at_warp = 0;
    for (int i = 0; i < num_warps; ++i) {
        for (int g = 0; g < warps[i].num_groups; ++g) at_warp += __builtin_popcount(warps[i].groups[g].arrived);
    }
    char text[256];
    snprintf(text, sizeof(text),
             "its threads wait for ever: %d at a block barrier, %d at warp instructions for lanes that do not come, "
             "and %d have ended",
             num_at_barrier, at_warp, num_ended);
    put(report, text);
}

// True when every thread of the block ended.
bool run_block(Report* report) {
    stop_reason = nullptr;
    const int first = choose_thread();
    go_on_with(first, &main_stack);
    const Fault fault = last_fault();
    if (fault.kind == FaultKind::NONE && stop_reason == nullptr && num_ended == num_threads) return true;
    if (fault.kind != FaultKind::NONE) {
        report->fault = static_cast<int32_t>(fault.kind);
        report->address = fault.address;
        put(report, "");
        for (int i = 0; i < num_threads; ++i) {
            const uint64_t stack = reinterpret_cast<uint64_t>(threads[i].memory);
            if (stack != 0 && fault.address < stack && fault.address + GUARD >= stack) put(report, "its stack is full");
        }
    } else if (stop_reason != nullptr) {
        put(report, stop_reason);
    } else {
        describe_waiting(report);
    }
    take_back_stacks();
    return false;
}

uint64_t block_number(uint64_t i, uint64_t num_blocks) {
    if (order == BACKWARD) return num_blocks - 1 - i;
    if (order == FORWARD) return i;
    // An odd step over a power of two visits all; what lies beyond the end is walked past.
    uint64_t size = 1;
    while (size < num_blocks) size *= 2;
    return ((2 * (launch->seed % size) + 1) * i + launch->seed) & (size - 1);
}

}  // namespace
}  // namespace emulator

#ifdef _WIN32
#define VISIBLE extern "C" __declspec(dllexport)
#else
#define VISIBLE extern "C" __attribute__((visibility("default")))
#endif

using namespace emulator;

VISIBLE int32_t stratum_emulator_version() { return VERSION; }

VISIBLE const Runtime* stratum_runtime() { return &RUNTIME; }

// An allocation of a device, 256-byte aligned, of bytes `poison`; 0 without memory.
VISIBLE uint64_t stratum_alloc(int32_t device, uint64_t num_bytes, int32_t is_card, int32_t poison) {
    const uint64_t aligned = (num_bytes + 255) / 256 * 256;
    const uint64_t mapped = (aligned + PAGE - 1) / PAGE * PAGE + (aligned == 0 ? PAGE : 0);
    char* pages = map_pages(mapped);
    if (pages == nullptr) return 0;
    memset(pages, poison, mapped);
    const uint64_t start = reinterpret_cast<uint64_t>(pages) + mapped - aligned;
    add_range({start, num_bytes, device, is_card});
    return start;
}

VISIBLE void stratum_free(uint64_t start, uint64_t num_bytes) {
    const uint64_t aligned = (num_bytes + 255) / 256 * 256;
    const uint64_t mapped = (aligned + PAGE - 1) / PAGE * PAGE + (aligned == 0 ? PAGE : 0);
    remove_range(start);  // pinned memory may have been unregistered before
    unmap_pages(reinterpret_cast<char*>(start + aligned - mapped), mapped);
}

// Host memory of somebody else that kernels of a device may reach from now on.
VISIBLE void stratum_register(int32_t device, uint64_t start, uint64_t num_bytes) {
    add_range({start, num_bytes, device, 0});
}

VISIBLE void stratum_unregister(uint64_t start) { remove_range(start); }

// Whether bytes lie within one allocation of the card.
VISIBLE int32_t stratum_holds(int32_t device, uint64_t start, uint64_t num_bytes) {
    return holds(device, start, num_bytes) ? 1 : 0;
}

VISIBLE uint64_t stratum_first_overrun(int32_t device) { return first_overrun(device); }

// Copies a launch's arguments into `blob` (8 bytes each, larger structs as many times 8) after their pointers.
// Returns -1, or the number of the first argument that points to memory that the device does not have.
VISIBLE int32_t stratum_pack(const Entry* entry, int32_t device, void* const* arguments, void** blob) {
    char* values = reinterpret_cast<char*>(blob + entry->num_parameters);
    for (int i = 0; i < entry->num_parameters; ++i) {
        memcpy(values, arguments[i], static_cast<size_t>(entry->sizes[i]));
        blob[i] = values;
        if (entry->kinds[i] == POINTER) {
            uint64_t address;
            memcpy(&address, values, sizeof(address));
            if (address != 0 && !may_point(device, address)) return i;
        }
        values += (entry->sizes[i] + 7) / 8 * 8;
    }
    return -1;
}

// Runs a launch to its end; 0 when all went well, else `report` says what did not.
VISIBLE int32_t stratum_run(const Launch* what, Report* report) {
    launch = what;
    order = what->order;
    here = what->module->here;
    *report = {};
    num_threads = static_cast<int>(what->block_size.x * what->block_size.y * what->block_size.z);
    num_warps = num_threads / 32;
    random_state = what->seed * 0x9e3779b97f4a7c15ull + 0x2545f4914f6cdd1dull;
    if (shared_memory == nullptr) shared_memory = map_pages(MOST_SHARED);
    const uint32_t shared_bytes = (what->shared_bytes + 15) / 16 * 16;
    here->shared = reinterpret_cast<unsigned char*>(shared_memory) + MOST_SHARED - shared_bytes;
    here->block_size = what->block_size;
    here->grid_size = what->grid_size;
    for (uint32_t i = 0, z = 0; z < what->block_size.z; ++z) {
        for (uint32_t y = 0; y < what->block_size.y; ++y) {
            for (uint32_t x = 0; x < what->block_size.x; ++x) threads[i++].index = {x, y, z};
        }
    }
    const uint64_t num_blocks = static_cast<uint64_t>(what->grid_size.x) * what->grid_size.y * what->grid_size.z;
    SharedArrays arrays(what->module, what->entry, what->poison);
    arm_faults(&main_stack);
    bool is_well = true;
    for (uint64_t i = 0, done = 0; is_well && done < num_blocks; ++i) {
        const uint64_t number = block_number(i, num_blocks);
        if (number >= num_blocks) continue;
        ++done;
        const uint64_t row = number / what->grid_size.x;
        prepare_block({static_cast<uint32_t>(number % what->grid_size.x), static_cast<uint32_t>(row % what->grid_size.y),
                       static_cast<uint32_t>(row / what->grid_size.y)});
        arrays.poison();
        memset(here->shared, what->poison, shared_bytes);
        is_well = run_block(report);
        if (done == 1) arrays.learn();
    }
    disarm_faults();
    arrays.learn();
    arrays.count();
    return is_well ? 0 : 1;
}
