// The static shared arrays of a kernel library.
#include "shared.h"

#include <string.h>

#include <map>

#ifdef _WIN32
#include <windows.h>
#else
#include <link.h>
#endif

namespace emulator {
namespace {

constexpr int LAUNCHES_TO_LEARN = 4;
constexpr size_t LINE = 64;

struct Block {
    char* start;
    size_t num_bytes;
    int32_t poison_byte = -1;  // that all of it was filled with last
};

#ifdef _WIN32

// The thread-local block of the library that holds `inside`.
Block find_block(const void* inside, const void*) {
    HMODULE library = nullptr;
    GetModuleHandleExA(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT,
                       static_cast<const char*>(inside), &library);
    char* base = reinterpret_cast<char*>(library);
    const auto* dos = reinterpret_cast<const IMAGE_DOS_HEADER*>(base);
    const auto* headers = reinterpret_cast<const IMAGE_NT_HEADERS*>(base + dos->e_lfanew);
    const auto& entry = headers->OptionalHeader.DataDirectory[IMAGE_DIRECTORY_ENTRY_TLS];
    if (entry.Size == 0) return {nullptr, 0, -1};
    const auto* tls = reinterpret_cast<const IMAGE_TLS_DIRECTORY*>(base + entry.VirtualAddress);
    const DWORD index = *reinterpret_cast<const DWORD*>(tls->AddressOfIndex);
    char** blocks = *reinterpret_cast<char***>(reinterpret_cast<char*>(NtCurrentTeb()) + 0x58);
    return {blocks[index], static_cast<size_t>(tls->EndAddressOfRawData - tls->StartAddressOfRawData) + tls->SizeOfZeroFill, -1};
}

#else

struct Search {
    const char* touched;
    Block found;
};

int look(dl_phdr_info* info, size_t, void* data) {
    auto* search = static_cast<Search*>(data);
    char* start = static_cast<char*>(info->dlpi_tls_data);
    if (start == nullptr) return 0;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const auto& header = info->dlpi_phdr[i];
        if (header.p_type != PT_TLS) continue;
        if (search->touched >= start && search->touched < start + header.p_memsz) {
            search->found = {start, header.p_memsz, -1};
            return 1;
        }
    }
    return 0;
}

// The thread-local block of this thread in which `touched` lies.
Block find_block(const void*, const void* touched) {
    Search search = {static_cast<const char*>(touched), {nullptr, 0, -1}};
    dl_iterate_phdr(look, &search);
    return search.found;
}

#endif

}  // namespace

struct SharedArrays::Known {
    int num_launches = 0;
    std::vector<bool> is_used;  // lines
    std::vector<std::pair<uint32_t, uint32_t>> ranges;
};

SharedArrays::SharedArrays(const Module* module, const Entry* entry, int32_t poison_byte) : poison_byte_(poison_byte) {
    static thread_local std::map<const Module*, Block> blocks;
    static std::map<const Entry*, Known> all;
    char* touched = module->touch_shared();
    Block& block = blocks.emplace(module, Block{nullptr, 0, -1}).first->second;
    if (block.start == nullptr) block = find_block(module->here, touched);
    start_ = block.start;
    num_bytes_ = block.num_bytes;
    known_ = &all[entry];
    if (known_->num_launches < LAUNCHES_TO_LEARN || block.poison_byte != poison_byte) {
        memset(start_, poison_byte, num_bytes_);
        block.poison_byte = poison_byte;
    }
}

void SharedArrays::poison() {
    if (num_bytes_ <= LINE) return;
    for (const auto& [first, num_bytes] : known_->ranges) memset(start_ + first, poison_byte_, num_bytes);
}

void SharedArrays::learn() {
    if (known_->num_launches >= LAUNCHES_TO_LEARN) return;
    known_->is_used.resize((num_bytes_ + LINE - 1) / LINE);
    for (size_t i = 0; i < num_bytes_; ++i) {
        if (static_cast<unsigned char>(start_[i]) != static_cast<unsigned char>(poison_byte_)) known_->is_used[i / LINE] = true;
    }
    known_->ranges.clear();
    for (size_t line = 0; line < known_->is_used.size(); ++line) {
        if (!known_->is_used[line]) continue;
        const size_t first = line;
        while (line < known_->is_used.size() && known_->is_used[line]) ++line;
        const size_t end = line * LINE < num_bytes_ ? line * LINE : num_bytes_;
        known_->ranges.emplace_back(static_cast<uint32_t>(first * LINE), static_cast<uint32_t>(end - first * LINE));
    }
}

void SharedArrays::count() {
    if (known_->num_launches < LAUNCHES_TO_LEARN) ++known_->num_launches;
}

}  // namespace emulator
