// The end of a mix (hc_up.cuh) for the block formats that up projections come in: their rows are too short, or no
// multiple of 256, so the formats with larger blocks never occur. Up to 4 and up to 16 rows.
#include "hc_up.cuh"

#define HC_UP(format, Format)                                                                        \
    KERNEL_BOUNDED(hc_up_##format##_r4, HC_UP_THREADS)(const HcUp p) { hc_up<Format, 4>(p); }        \
    KERNEL_BOUNDED(hc_up_##format##_r16, HC_UP_THREADS)(const HcUp p) { hc_up<Format, 16>(p); }

HC_UP(q8_0, FormatQ8_0)
EXPORT(hc_up_q8_0_r4)
EXPORT(hc_up_q8_0_r16)
HC_UP(q5_0, FormatQ5_0)
EXPORT(hc_up_q5_0_r4)
EXPORT(hc_up_q5_0_r16)
HC_UP(q5_1, FormatQ5_1)
EXPORT(hc_up_q5_1_r4)
EXPORT(hc_up_q5_1_r16)
HC_UP(q4_0, FormatQ4_0)
EXPORT(hc_up_q4_0_r4)
EXPORT(hc_up_q4_0_r16)
HC_UP(iq4_nl, FormatIQ4_NL)
EXPORT(hc_up_iq4_nl_r4)
EXPORT(hc_up_iq4_nl_r16)
