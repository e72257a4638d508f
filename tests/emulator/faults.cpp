// Faults of kernels, by signals or by a vectored exception handler.
#include "faults.h"

#include "switch.h"

#ifdef _WIN32
#include <windows.h>
#else
#include <signal.h>
#include <ucontext.h>
#endif

namespace emulator {
namespace {

thread_local void** armed_stack;
thread_local Fault fault;

#ifdef _WIN32

LONG CALLBACK handle(EXCEPTION_POINTERS* pointers) {
    const EXCEPTION_RECORD& record = *pointers->ExceptionRecord;
    if (armed_stack == nullptr) return EXCEPTION_CONTINUE_SEARCH;
    switch (record.ExceptionCode) {
        case EXCEPTION_ACCESS_VIOLATION:
        case EXCEPTION_IN_PAGE_ERROR:
        case STATUS_GUARD_PAGE_VIOLATION:
        case EXCEPTION_STACK_OVERFLOW:
            fault.kind = record.NumberParameters > 0 && record.ExceptionInformation[0] == 1 ? FaultKind::WRITE
                                                                                            : FaultKind::READ;
            fault.address = record.NumberParameters > 1 ? record.ExceptionInformation[1] : 0;
            break;
        case EXCEPTION_ILLEGAL_INSTRUCTION:
        case EXCEPTION_BREAKPOINT:
            fault.kind = FaultKind::CHECK;
            break;
        case EXCEPTION_INT_DIVIDE_BY_ZERO:
        case EXCEPTION_INT_OVERFLOW:
            fault.kind = FaultKind::DIVISION;
            break;
        default:
            return EXCEPTION_CONTINUE_SEARCH;
    }
    pointers->ContextRecord->Rsp = reinterpret_cast<DWORD64>(*armed_stack);
    pointers->ContextRecord->Rip = reinterpret_cast<DWORD64>(&stratum_switch_back);
    return EXCEPTION_CONTINUE_EXECUTION;
}

void* handler;

#else

constexpr int SIGNALS[] = {SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGFPE};
constexpr int NUM_SIGNALS = 5;
struct sigaction before[NUM_SIGNALS];
stack_t stack_before;
alignas(16) char handler_stack[64 * 1024];

void handle(int number, siginfo_t* info, void* context) {
    if (armed_stack == nullptr) {  // another thread's own fault: its handler has it
        for (int i = 0; i < NUM_SIGNALS; ++i) {
            if (SIGNALS[i] == number) sigaction(number, &before[i], nullptr);
        }
        return;  // and faults again
    }
    auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
    fault.address = reinterpret_cast<uint64_t>(info->si_addr);
    if (number == SIGSEGV || number == SIGBUS) {
        fault.kind = (registers[REG_ERR] & 2) != 0 ? FaultKind::WRITE : FaultKind::READ;
    } else {
        fault.kind = number == SIGFPE ? FaultKind::DIVISION : FaultKind::CHECK;
    }
    registers[REG_RSP] = reinterpret_cast<greg_t>(*armed_stack);
    registers[REG_RIP] = reinterpret_cast<greg_t>(&stratum_switch_back);
}

#endif

}  // namespace

void arm_faults(void** stack) {
    fault = {FaultKind::NONE, 0};
#ifdef _WIN32
    handler = AddVectoredExceptionHandler(1, handle);
#else
    stack_t own = {};
    own.ss_sp = handler_stack;
    own.ss_size = sizeof(handler_stack);
    sigaltstack(&own, &stack_before);
    struct sigaction action = {};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (int i = 0; i < NUM_SIGNALS; ++i) sigaction(SIGNALS[i], &action, &before[i]);
#endif
    armed_stack = stack;
}

void disarm_faults() {
    armed_stack = nullptr;
#ifdef _WIN32
    RemoveVectoredExceptionHandler(handler);
#else
    for (int i = 0; i < NUM_SIGNALS; ++i) sigaction(SIGNALS[i], &before[i], nullptr);
    sigaltstack(&stack_before, nullptr);
#endif
}

Fault last_fault() { return fault; }

}  // namespace emulator
