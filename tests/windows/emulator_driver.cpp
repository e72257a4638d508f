// A Windows program that runs kernels on the emulated card: loads runtime.dll and the two kernel libraries beside it,
// launches kernels that work and kernels with mistakes, and prints a line for each.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

#include <initializer_list>

#include "launch.h"

using namespace emulator;

namespace {

HMODULE runtime_library;

template <class F>
F find(const char* name) {
    return reinterpret_cast<F>(reinterpret_cast<void*>(GetProcAddress(runtime_library, name)));
}

const Module* load(const char* file) {
    HMODULE library = LoadLibraryA(file);
    if (library == nullptr) {
        printf("%s cannot be loaded: %lu\n", file, GetLastError());
        exit(2);
    }
    auto module = reinterpret_cast<const Module* (*)(const Runtime*)>(
        reinterpret_cast<void*>(GetProcAddress(library, "stratum_module")));
    return module(find<const Runtime* (*)()>("stratum_runtime")());
}

float* alloc(size_t count) {
    const auto make = find<uint64_t (*)(int32_t, uint64_t, int32_t, int32_t)>("stratum_alloc");
    return reinterpret_cast<float*>(make(0, count * sizeof(float), 1, 0xff));
}

void launch(const Module* module, const char* name, void* const* arguments, uint32_t threads, uint32_t blocks,
            int32_t order, uint32_t shared_bytes = 0) {
    const Entry* entry = module->entries;
    while (entry != nullptr && strcmp(entry->name, name) != 0) entry = entry->next;
    const Launch what = {module, entry, arguments, {blocks, 1, 1}, {threads, 1, 1}, shared_bytes, order, 7, 0xff};
    Report report;
    const auto run = find<int32_t (*)(const Launch*, Report*)>("stratum_run");
    if (run(&what, &report) != 0) printf("%s: fault %d %s\n", name, report.fault, report.reason);
}

}  // namespace

int main() {
    setvbuf(stdout, nullptr, _IONBF, 0);
    runtime_library = LoadLibraryA("runtime.dll");
    if (runtime_library == nullptr) return 2;
    const Module* plain = load("plain.dll");
    const Module* wrong = load("wrong.dll");
    constexpr int THREADS = 1024, BLOCKS = 3;
    float* values = alloc(THREADS * BLOCKS);
    float* sums = alloc(BLOCKS);
    for (int i = 0; i < THREADS * BLOCKS; ++i) values[i] = static_cast<float>(i % 7);
    for (int32_t order : {FORWARD, BACKWARD, RANDOM}) {
        memset(sums, 0, BLOCKS * sizeof(float));
        void* arguments[] = {&values, &sums};
        launch(plain, "sum_blocks", arguments, THREADS, BLOCKS, order);
        printf("sums %g %g %g\n", sums[0], sums[1], sums[2]);
    }
    for (int launches = 0; launches < 6; ++launches) {
        void* arguments[] = {&values};
        launch(wrong, "use_shared_unset", arguments, 64, 2, FORWARD);
        if (values[15] != 1.0f || values[16] == values[16]) printf("shared memory is not poisoned\n");
    }
    float* out = sums;
    int64_t far_away = 1 << 20, near_end = 1 << 12;
    int32_t zero = 0, bits = 40, index = 1000;
    void* read[] = {&values, &far_away, &out};
    void* write[] = {&sums, &near_end};
    void* one[] = {&values};
    void* shift[] = {&bits, &values};
    void* divide[] = {&zero, &values};
    void* shared[] = {&index, &values};
    launch(wrong, "read_at", read, 32, 1, FORWARD);
    launch(wrong, "write_at", write, 32, 1, FORWARD);
    launch(wrong, "wait_apart", one, 64, 1, RANDOM);
    launch(wrong, "shift_by", shift, 32, 1, FORWARD);
    launch(wrong, "divide_by", divide, 32, 1, FORWARD);
    launch(wrong, "index_shared", shared, 32, 1, BACKWARD);
    launch(wrong, "index_dynamic_shared", shared, 32, 1, FORWARD, 128);
    void* arguments[] = {&values, &sums};
    for (int i = 0; i < THREADS * BLOCKS; ++i) values[i] = 1.0f;
    launch(plain, "sum_blocks", arguments, THREADS, BLOCKS, FORWARD);
    printf("sums %g %g %g\n", sums[0], sums[1], sums[2]);
    return 0;
}
