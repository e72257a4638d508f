"""NVIDIA cards, read from a fake `pynvml` and from lines that nvidia-smi prints."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from engine.core import gpu
from engine.core.gpu import GpuReport, combine, probe_gpus, read_nvml, read_smi

GIB = 1 << 30
NOT_AVAILABLE = (1 << 64) - 1
SMI_LINE = "NVIDIA GeForce RTX 3060, 12288, 11800, 580.95.05, 1, 4, 16, 16, Enabled\n"


class NVMLError(Exception):
    pass


class FakeCard:
    """Answers to the questions of one card; what is missing is refused, as old drivers do."""

    def __init__(self, **answers: object) -> None:
        self.answers = {
            "nvmlDeviceGetName": "NVIDIA GeForce RTX 3060",
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=12 * GIB, free=11 * GIB, used=GIB),
            "nvmlDeviceGetCudaComputeCapability": (8, 6),
            "nvmlDeviceGetCurrPcieLinkGeneration": 1,
            "nvmlDeviceGetMaxPcieLinkGeneration": 4,
            "nvmlDeviceGetCurrPcieLinkWidth": 16,
            "nvmlDeviceGetMaxPcieLinkWidth": 16,
            "nvmlDeviceGetDisplayMode": 1,
            "nvmlDeviceGetDisplayActive": 1,
            "nvmlDeviceGetMaxClockInfo": 7501,
            "nvmlDeviceGetMemoryBusWidth": 192,
            "nvmlDeviceGetComputeRunningProcesses": [],
            "nvmlDeviceGetGraphicsRunningProcesses": [],
            "nvmlDeviceGetUUID": "GPU-1f3a77b0-0000-0000-0000-000000000001",
            "nvmlDeviceGetPciInfo": SimpleNamespace(domain=0, bus=0x1A, device=0),
        } | answers


class FakePynvml(ModuleType):
    """A `pynvml` with these cards."""

    def __init__(self, *cards: FakeCard, driver: object = "580.95.05", starts: bool = True) -> None:
        super().__init__("pynvml")
        self.is_open = False
        self._cards = cards
        self._driver = driver
        self._starts = starts

    def nvmlInit(self) -> None:  # noqa: N802
        if not self._starts:
            raise NVMLError("Library Not Found")
        self.is_open = True

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.is_open = False

    def nvmlSystemGetDriverVersion(self) -> object:  # noqa: N802
        return self._driver

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self._cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeCard:  # noqa: N802
        return self._cards[index]

    def __getattr__(self, name: str) -> object:
        if not name.startswith("nvmlDeviceGet"):
            raise AttributeError(name)

        def answer(card: FakeCard, *_arguments: object) -> object:
            if name not in card.answers:
                raise NVMLError("Not Supported")
            return card.answers[name]

        return answer


@pytest.fixture
def no_smi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "run_smi", lambda _timeout_s: "")


def test_a_card_is_described_by_its_driver() -> None:
    nvml = FakePynvml(FakeCard())
    report = read_nvml(nvml)
    assert not nvml.is_open, "NVML is closed again"
    assert (report.driver, report.driver_major, report.source) == ("580.95.05", 580, "nvml")
    (found,) = report.cards
    assert (found.index, found.name) == (0, "NVIDIA GeForce RTX 3060")
    assert (found.vram_total_bytes, found.vram_free_bytes) == (12 * GIB, 11 * GIB)
    assert found.compute_capability == (8, 6)
    assert (found.pcie_generation, found.pcie_generation_max) == (1, 4)
    assert (found.pcie_width, found.pcie_width_max) == (16, 16)
    assert found.has_display is True
    assert found.memory_bytes_per_s == pytest.approx(360e9, rel=0.01)


@pytest.mark.parametrize(
    "question",
    [
        "nvmlDeviceGetName",
        "nvmlDeviceGetCudaComputeCapability",
        "nvmlDeviceGetMaxPcieLinkGeneration",
        "nvmlDeviceGetDisplayMode",
        "nvmlDeviceGetDisplayActive",
        "nvmlDeviceGetMaxClockInfo",
        "nvmlDeviceGetMemoryBusWidth",
        "nvmlDeviceGetComputeRunningProcesses",
        "nvmlDeviceGetUUID",
        "nvmlDeviceGetPciInfo",
    ],
)
def test_a_question_that_a_driver_refuses_costs_that_fact_alone(question: str) -> None:
    card = FakeCard()
    del card.answers[question]
    (found,) = read_nvml(FakePynvml(card)).cards
    assert found.vram_total_bytes == 12 * GIB
    assert found.name


def test_a_driver_that_says_nothing_of_screens_leaves_that_open() -> None:
    card = FakeCard()
    del card.answers["nvmlDeviceGetDisplayMode"], card.answers["nvmlDeviceGetDisplayActive"]
    assert read_nvml(FakePynvml(card)).cards[0].has_display is None


def test_a_card_without_memory_is_left_out() -> None:
    broken = FakeCard()
    del broken.answers["nvmlDeviceGetMemoryInfo"]
    report = read_nvml(FakePynvml(broken, FakeCard()))
    assert [card.index for card in report.cards] == [1]


def test_the_programs_that_hold_memory_are_named_the_largest_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gpu, "_program", lambda pid: {7: "game", 8: "browser"}.get(pid, ""))
    card = FakeCard(
        nvmlDeviceGetComputeRunningProcesses=[SimpleNamespace(pid=7, usedGpuMemory=3 * GIB)],
        nvmlDeviceGetGraphicsRunningProcesses=[
            SimpleNamespace(pid=8, usedGpuMemory=None),  # Windows does not say
            SimpleNamespace(pid=9, usedGpuMemory=NOT_AVAILABLE),
            SimpleNamespace(pid=7, usedGpuMemory=2 * GIB),
        ],
    )
    (found,) = read_nvml(FakePynvml(card)).cards
    held = [(process.name, process.vram_bytes) for process in found.processes]
    assert held == [("game", 3 * GIB), ("browser", None), ("", None)]


def test_names_as_bytes_are_understood() -> None:
    report = read_nvml(FakePynvml(FakeCard(nvmlDeviceGetName=b"Tesla T4"), driver=b"470.82.01"))
    assert (report.cards[0].name, report.driver_major) == ("Tesla T4", 470)


def test_without_a_driver_there_is_no_card() -> None:
    assert read_nvml(FakePynvml(FakeCard(), starts=False)) == GpuReport()


def test_nvidia_smi_is_read_line_by_line() -> None:
    text = (
        SMI_LINE
        + "No devices were found\n"
        + "NVIDIA T4, 15360, 15000, 580.95.05, [N/A], 3, 8, 16, [N/A]\n"
    )
    report = read_smi(text)
    assert [card.name for card in report.cards] == ["NVIDIA GeForce RTX 3060", "NVIDIA T4"]
    assert [card.has_display for card in report.cards] == [True, None]
    assert report.cards[1].pcie_generation is None
    assert report.cards[0].vram_total_bytes == 12 * GIB


def test_nvidia_smi_steps_in_when_nvml_fails_and_this_is_said() -> None:
    report = combine(GpuReport(), read_smi(SMI_LINE))
    assert report.source == "nvidia-smi"
    assert [note.code for note in report.notes] == ["nvml_failed"]


def test_sources_that_disagree_are_noted() -> None:
    ours = read_nvml(FakePynvml(FakeCard(), driver="580.95.05"))
    same = combine(ours, read_smi(SMI_LINE))
    assert same.notes == ()
    other = combine(ours, read_smi(SMI_LINE.replace("3060", "3070").replace("580.95", "575.51")))
    assert [note.code for note in other.notes] == [
        "gpu_sources_disagree",
        "driver_sources_disagree",
    ]
    assert other.cards == ours.cards, "NVML's answer counts"


@pytest.mark.usefixtures("no_smi")
def test_the_probe_asks_pynvml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakePynvml(FakeCard(), FakeCard()))
    assert [card.index for card in probe_gpus().cards] == [0, 1]


@pytest.mark.usefixtures("no_smi")
def test_the_probe_does_without_pynvml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert probe_gpus() == GpuReport()


def test_the_real_package_has_every_question_that_is_asked() -> None:
    source = Path(gpu.__file__).read_text(encoding="utf-8")
    asked = set(re.findall(r'"(nvml[A-Z]\w+)"', source))
    assert len(asked) > 12
    real = importlib.import_module("pynvml")
    assert {name for name in asked if not hasattr(real, name)} == set()
    assert real.NVML_CLOCK_MEM == gpu._NVML_CLOCK_MEMORY


@pytest.mark.usefixtures("no_smi")
def test_the_real_package_without_a_driver_finds_no_card() -> None:
    real = importlib.import_module("pynvml")
    try:
        real.nvmlInit()
    except real.NVMLError:
        assert read_nvml(real) == GpuReport()
    else:
        real.nvmlShutdown()
        assert read_nvml(real).cards


def test_a_card_is_told_by_its_uuid_and_its_place_on_the_bus() -> None:
    (found,) = read_nvml(FakePynvml(FakeCard())).cards
    assert found.uuid.startswith("GPU-1f3a")
    assert found.pci == "0000:1a:00"
    silent = FakeCard(nvmlDeviceGetUUID=b"GPU-2", nvmlDeviceGetPciInfo=None)
    (found,) = read_nvml(FakePynvml(silent)).cards
    assert (found.uuid, found.pci) == ("GPU-2", "")
