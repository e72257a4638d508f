// CUDA's vector types and single-thread functions on the host.
#pragma once

#define STRATUM_VECTOR2(name, scalar, alignment)                \
    struct __attribute__((aligned(alignment))) name {           \
        scalar x, y;                                            \
    };                                                          \
    inline name make_##name(scalar x, scalar y) { return {x, y}; }
#define STRATUM_VECTOR3(name, scalar)                           \
    struct name {                                               \
        scalar x, y, z;                                         \
    };                                                          \
    inline name make_##name(scalar x, scalar y, scalar z) { return {x, y, z}; }
#define STRATUM_VECTOR4(name, scalar, alignment)                \
    struct __attribute__((aligned(alignment))) name {           \
        scalar x, y, z, w;                                      \
    };                                                          \
    inline name make_##name(scalar x, scalar y, scalar z, scalar w) { return {x, y, z, w}; }

STRATUM_VECTOR2(char2, signed char, 2)
STRATUM_VECTOR2(uchar2, unsigned char, 2)
STRATUM_VECTOR2(short2, short, 4)
STRATUM_VECTOR2(ushort2, unsigned short, 4)
STRATUM_VECTOR2(int2, int, 8)
STRATUM_VECTOR2(uint2, unsigned, 8)
STRATUM_VECTOR2(float2, float, 8)
STRATUM_VECTOR2(longlong2, long long, 16)
STRATUM_VECTOR2(ulonglong2, unsigned long long, 16)
STRATUM_VECTOR3(int3, int)
STRATUM_VECTOR3(uint3, unsigned)
STRATUM_VECTOR3(float3, float)
STRATUM_VECTOR4(char4, signed char, 4)
STRATUM_VECTOR4(uchar4, unsigned char, 4)
STRATUM_VECTOR4(short4, short, 8)
STRATUM_VECTOR4(ushort4, unsigned short, 8)
STRATUM_VECTOR4(int4, int, 16)
STRATUM_VECTOR4(uint4, unsigned, 16)
STRATUM_VECTOR4(float4, float, 16)

namespace emulator {

template <class To, class From>
inline To bits_as(From from) {
    static_assert(sizeof(To) == sizeof(From), "sizes differ");
    To to;
    memcpy(&to, &from, sizeof(to));
    return to;
}

typedef short Half8 __attribute__((vector_size(16)));
typedef float Float4 __attribute__((vector_size(16)));

// As the card converts: saturating, and 0 for what is no number.
template <class Integer>
inline Integer to_integer(double value) {
    constexpr bool is_signed = Integer(-1) < Integer(0);
    const double top = sizeof(Integer) == 4 ? (is_signed ? 2147483647.0 : 4294967295.0)
                                            : (is_signed ? 9223372036854775807.0 : 18446744073709551615.0);
    const double bottom = is_signed ? -top - (sizeof(Integer) == 4 ? 1.0 : 0.0) : 0.0;
    constexpr Integer most = is_signed ? Integer(~(1ull << (sizeof(Integer) * 8 - 1))) : Integer(-1);
    if (value != value) return 0;
    if (value >= top) return most;
    if (value <= bottom) return is_signed ? Integer(-most - 1) : Integer(0);
    return static_cast<Integer>(value);
}

}  // namespace emulator

#ifdef __clang__
inline float half_to_float(uint16_t bits) { return static_cast<float>(emulator::bits_as<_Float16>(bits)); }
inline uint16_t float_to_half(float value) { return emulator::bits_as<uint16_t>(static_cast<_Float16>(value)); }
#else
inline float half_to_float(uint16_t bits) {
    const emulator::Half8 halves = {static_cast<short>(bits)};
    return emulator::bits_as<emulator::Float4>(__builtin_ia32_vcvtph2ps(halves))[0];
}
inline uint16_t float_to_half(float value) {
    const emulator::Float4 floats = {value};
    return static_cast<uint16_t>(emulator::bits_as<emulator::Half8>(__builtin_ia32_vcvtps2ph(floats, 0))[0]);
}
#endif

inline float __int_as_float(int bits) { return emulator::bits_as<float>(bits); }
inline float __uint_as_float(unsigned bits) { return emulator::bits_as<float>(bits); }
inline int __float_as_int(float value) { return emulator::bits_as<int>(value); }
inline unsigned __float_as_uint(float value) { return emulator::bits_as<unsigned>(value); }
inline double __longlong_as_double(long long bits) { return emulator::bits_as<double>(bits); }
inline long long __double_as_longlong(double value) { return emulator::bits_as<long long>(value); }

inline int __float2int_rn(float value) { return emulator::to_integer<int>(nearbyintf(value)); }
inline int __float2int_rz(float value) { return emulator::to_integer<int>(truncf(value)); }
inline int __float2int_rd(float value) { return emulator::to_integer<int>(floorf(value)); }
inline int __float2int_ru(float value) { return emulator::to_integer<int>(ceilf(value)); }
inline unsigned __float2uint_rn(float value) { return emulator::to_integer<unsigned>(nearbyintf(value)); }
inline unsigned __float2uint_rz(float value) { return emulator::to_integer<unsigned>(truncf(value)); }
inline long long __float2ll_rn(float value) { return emulator::to_integer<long long>(nearbyintf(value)); }
inline float __int2float_rn(int value) { return static_cast<float>(value); }
inline float __uint2float_rn(unsigned value) { return static_cast<float>(value); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __frcp_rn(float a) { return 1.0f / a; }
inline float __fsqrt_rn(float a) { return sqrtf(a); }
inline float rsqrtf(float a) { return 1.0f / sqrtf(a); }
inline float __saturatef(float a) { return a > 0.0f ? (a < 1.0f ? a : 1.0f) : 0.0f; }
inline float fdividef(float a, float b) { return a / b; }

// Mixed kinds are converted as C++ does in `a < b ? b : a`, like CUDA's overloads.
template <class A, class B>
inline auto max(A a, B b) -> decltype(a + b) {
    using T = decltype(a + b);
    return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(b) : static_cast<T>(a);
}
template <class A, class B>
inline auto min(A a, B b) -> decltype(a + b) {
    using T = decltype(a + b);
    return static_cast<T>(b) < static_cast<T>(a) ? static_cast<T>(b) : static_cast<T>(a);
}
inline float max(float a, float b) { return fmaxf(a, b); }
inline float min(float a, float b) { return fminf(a, b); }

inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int __popcll(unsigned long long bits) { return __builtin_popcountll(bits); }
inline int __clz(int bits) { return bits == 0 ? 32 : __builtin_clz(static_cast<unsigned>(bits)); }
inline int __clzll(long long bits) { return bits == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(bits)); }
inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline int __ffsll(long long bits) { return __builtin_ffsll(bits); }
inline unsigned __brev(unsigned bits) {
    unsigned reversed = 0;
    for (int i = 0; i < 32; ++i) reversed |= ((bits >> i) & 1u) << (31 - i);
    return reversed;
}
inline int __mulhi(int a, int b) { return static_cast<int>((static_cast<long long>(a) * b) >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) {
    return static_cast<unsigned>((static_cast<unsigned long long>(a) * b) >> 32);
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return static_cast<unsigned long long>((static_cast<unsigned __int128>(a) * b) >> 64);
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return static_cast<unsigned>((((static_cast<uint64_t>(high) << 32) | low) << (shift & 31u)) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return static_cast<unsigned>(((static_cast<uint64_t>(high) << 32) | low) >> (shift & 31u));
}
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selectors) {
    const uint64_t bytes = (static_cast<uint64_t>(b) << 32) | a;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) {
        const unsigned selector = selectors >> (4 * i);
        unsigned byte = static_cast<unsigned>(bytes >> (8 * (selector & 7u))) & 255u;
        if ((selector & 8u) != 0) byte = (byte & 128u) != 0 ? 255u : 0u;
        result |= byte << (8 * i);
    }
    return result;
}

inline int __dp4a(int a, int b, int sum) {
    for (int i = 0; i < 4; ++i) {
        sum += static_cast<int8_t>(static_cast<unsigned>(a) >> (8 * i)) *
               static_cast<int8_t>(static_cast<unsigned>(b) >> (8 * i));
    }
    return sum;
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned sum) {
    for (int i = 0; i < 4; ++i) sum += ((a >> (8 * i)) & 255u) * ((b >> (8 * i)) & 255u);
    return sum;
}

// Four bytes at once.
namespace emulator {
template <class F>
inline unsigned each_byte(unsigned a, unsigned b, F f) {
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) {
        const unsigned value = f((a >> (8 * i)) & 255u, (b >> (8 * i)) & 255u);
        result |= (value & 255u) << (8 * i);
    }
    return result;
}
}  // namespace emulator
inline unsigned __vadd4(unsigned a, unsigned b) {
    return emulator::each_byte(a, b, [](unsigned x, unsigned y) { return x + y; });
}
inline unsigned __vsub4(unsigned a, unsigned b) {
    return emulator::each_byte(a, b, [](unsigned x, unsigned y) { return x - y; });
}
inline unsigned __vcmpeq4(unsigned a, unsigned b) {
    return emulator::each_byte(a, b, [](unsigned x, unsigned y) { return x == y ? 255u : 0u; });
}
inline unsigned __vcmpne4(unsigned a, unsigned b) {
    return emulator::each_byte(a, b, [](unsigned x, unsigned y) { return x != y ? 255u : 0u; });
}

template <class T>
inline T __ldg(const T* address) {
    return *address;
}
template <class T>
inline T __ldcs(const T* address) {
    return *address;
}
template <class T>
inline T __ldcg(const T* address) {
    return *address;
}
template <class T>
inline void __stcs(T* address, T value) {
    *address = value;
}
template <class T>
inline void __stcg(T* address, T value) {
    *address = value;
}
