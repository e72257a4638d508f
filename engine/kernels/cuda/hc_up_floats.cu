// The end of a mix (hc_up.cuh) for up projections in float formats. Up to 4 and up to 16 rows.
#include "hc_up.cuh"

#define HC_UP(format, Kind)                                                                              \
    KERNEL_BOUNDED(hc_up_##format##_r4, HC_UP_THREADS)(const HcUp p) { hc_up_float<Kind, 4>(p); }        \
    KERNEL_BOUNDED(hc_up_##format##_r16, HC_UP_THREADS)(const HcUp p) { hc_up_float<Kind, 16>(p); }

HC_UP(f32, FloatF32)
EXPORT(hc_up_f32_r4)
EXPORT(hc_up_f32_r16)
HC_UP(f16, FloatF16)
EXPORT(hc_up_f16_r4)
EXPORT(hc_up_f16_r16)
HC_UP(bf16, FloatBF16)
EXPORT(hc_up_bf16_r4)
EXPORT(hc_up_bf16_r16)
