// The card's side of a CUDA source when it is compiled for the host: keywords, thread indices, barriers, warp
// instructions, atomics. Everything that makes threads wait for each other is in runtime.cpp; what is plain
// arithmetic is in arithmetic.h. One source file is one library.
//
// Threads of a block run one after another, each until it has to wait, so atomics are plain. Shared arrays are
// thread-local variables of the library: it has no others, so the runtime can find and poison them all.
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <utility>

#include "interface.h"

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __shared__ static thread_local

#ifdef _WIN32
#define STRATUM_VISIBLE __declspec(dllexport)
#else
#define STRATUM_VISIBLE __attribute__((visibility("default")))
#endif

namespace emulator {

inline const Runtime* runtime;
inline Here here;
inline const Entry* entries;
inline Module module;

inline char* touch_shared() {
    static thread_local char first;
    return &first;
}

template <class T>
constexpr uint8_t kind_of = VALUE;
template <class T>
constexpr uint8_t kind_of<T*> = POINTER;

template <class... P, size_t... I>
inline void call_with(void (*kernel)(P...), void* const* arguments, std::index_sequence<I...>) {
    kernel(*static_cast<P*>(arguments[I])...);
}

template <class... P>
inline void call(void (*kernel)(P...), void* const* arguments) {
    call_with(kernel, arguments, std::index_sequence_for<P...>());
}

struct Registered : Entry {
    template <class... P>
    Registered(const char* its_name, void (*)(P...), void (*its_call)(void* const*)) : Entry() {
        static_assert(sizeof...(P) <= MOST_PARAMETERS, "too many parameters");
        const int32_t its_sizes[] = {static_cast<int32_t>(sizeof(P))..., 0};
        const uint8_t its_kinds[] = {kind_of<P>..., 0};
        name = its_name;
        call = its_call;
        num_parameters = sizeof...(P);
        for (int i = 0; i < num_parameters; ++i) {
            sizes[i] = its_sizes[i];
            kinds[i] = its_kinds[i];
        }
        next = entries;
        entries = this;
    }
};

}  // namespace emulator

extern "C" inline STRATUM_VISIBLE __attribute__((used)) const emulator::Module* stratum_module(
    const emulator::Runtime* runtime) {
    emulator::runtime = runtime;
    emulator::module = {emulator::VERSION, &emulator::here, emulator::entries, emulator::touch_shared};
    return &emulator::module;
}

#define KERNEL(name) extern "C" void name
// `stratum_bound_name`: the most threads of a block, where the kernel says it.
#define KERNEL_BOUNDED(name, threads)                                 \
    extern "C" {                                                      \
    extern STRATUM_VISIBLE const int32_t stratum_bound_##name;        \
    const int32_t stratum_bound_##name = threads;                     \
    }                                                                 \
    extern "C" void name
#define EXPORT(name)                                                  \
    static const emulator::Registered stratum_registered_##name(     \
        #name, name, [](void* const* arguments) { emulator::call(name, arguments); });
#define DYNAMIC_SHARED(type, name) type* name = reinterpret_cast<type*>(emulator::here.shared)

#define threadIdx (emulator::here.thread)
#define blockIdx (emulator::here.block)
#define blockDim (emulator::here.block_size)
#define gridDim (emulator::here.grid_size)
#define warpSize 32

#include "arithmetic.h"
#include "warp.h"
