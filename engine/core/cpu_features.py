"""What this processor can do, by its own answer (CPUID and XGETBV), not by the system's flags.

Windows' flag for AVX2 is wrong on some processors that have it (and AVX-VNNI has none), so the kernel
library is asked, which looks itself and then chooses its kernels by the same answer. Where there is no
prebuilt library (it is then built from the sources at the first start) the system's flags are taken.
"""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from pathlib import Path

from engine.core.note import Note
from engine.core.operating_system import is_x86_64

_PREBUILT = Path(__file__).resolve().parents[1] / "kernels" / "prebuilt"
_CPUINFO = Path("/proc/cpuinfo")
_WINDOWS_AVX2 = 40  # PF_AVX2_INSTRUCTIONS_AVAILABLE
_AVX2_FLAGS = frozenset({"avx2", "fma", "f16c"})
_AVX512_FLAGS = frozenset(
    {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vbmi", "avx512_vnni"}
)
_BITS = {"avx2": 1, "avx_vnni": 2, "avx512": 4}  # of stratum_cpu_features()


@dataclass(frozen=True, slots=True)
class CpuFeatures:
    """Which of our kernels can run.

    Attributes:
        is_x86: whether it is an x86-64 processor at all.
        avx2: AVX2 with FMA and F16C, the least that the fast kernels need.
        avx_vnni: the 8-bit products of newer desktop processors.
        avx512: AVX-512 with BW, DQ, VL, VNNI and VBMI together.
        source: who said it: `cpuid`, `system`, or nothing.
    """

    is_x86: bool = True
    avx2: bool = False
    avx_vnni: bool = False
    avx512: bool = False
    source: str = ""

    @property
    def best(self) -> str:
        """Name of the best variant of the kernels; empty when none runs."""
        if self.avx512:
            return "avx512"
        if self.avx_vnni and self.avx2:
            return "avxvnni"
        return "avx2" if self.avx2 else ""


def probe_cpu_features() -> tuple[CpuFeatures, tuple[Note, ...]]:
    """The abilities, and a note when the system says otherwise about AVX2."""
    if not is_x86_64():
        return CpuFeatures(is_x86=False), ()
    return merge_features(ask_library(), ask_system())


def merge_features(
    by_cpuid: CpuFeatures | None, by_system: CpuFeatures | None
) -> tuple[CpuFeatures, tuple[Note, ...]]:
    """The processor's own answer before the system's."""
    if by_cpuid is None or by_system is None:
        return by_cpuid or by_system or CpuFeatures(avx2=True), ()
    if by_cpuid.avx2 == by_system.avx2:
        return by_cpuid, ()
    params = {"cpuid": by_cpuid.avx2, "system": by_system.avx2}
    return by_cpuid, (Note("avx2_sources_disagree", params),)


def ask_library(path: Path | None = None) -> CpuFeatures | None:
    """The kernel library's look at the processor; None when there is no library to load."""
    name = "stratum_host.dll" if sys.platform == "win32" else "libstratum_host.so"
    try:
        function = ctypes.CDLL(str(path or _PREBUILT / name)).stratum_cpu_features
    except (OSError, AttributeError):
        return None
    function.restype = ctypes.c_uint32
    bits = int(function())
    found = {feature: bool(bits & bit) for feature, bit in _BITS.items()}
    return CpuFeatures(
        avx2=found["avx2"],
        avx_vnni=found["avx_vnni"],
        avx512=found["avx512"],
        source="cpuid",
    )


def ask_system() -> CpuFeatures | None:
    """What the system says; None where it says nothing."""
    if sys.platform == "win32":
        answer = ctypes.windll.kernel32.IsProcessorFeaturePresent(_WINDOWS_AVX2)
        return CpuFeatures(avx2=bool(answer), source="system")
    try:
        text = _CPUINFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return parse_cpuinfo(text)


def parse_cpuinfo(text: str) -> CpuFeatures | None:
    """The abilities in the text of `/proc/cpuinfo`; None when it lists none."""
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        if name.strip() == "flags":
            flags = set(rest.split())
            avx2 = flags >= _AVX2_FLAGS
            return CpuFeatures(
                avx2=avx2,
                avx_vnni=avx2 and "avx_vnni" in flags,
                avx512=avx2 and flags >= _AVX512_FLAGS,
                source="system",
            )
    return None
