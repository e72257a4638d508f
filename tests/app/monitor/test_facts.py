"""What is measured, and what is made of it: no window, no engine."""

import math
import os
from types import SimpleNamespace

import pytest

from app.engine_status import parse_metrics, parse_status
from app.model_report import ModelPart, ModelReport, parse_report, read_model_report
from app.monitor.gpu_probe import GpuProbe, GpuSample
from app.monitor.machine_probe import MachineProbe, MachineSample
from app.monitor.rates import TokenRates
from app.monitor.recent import parse_recent
from app.monitor.series import Series
from app.monitor.slow import Facts, Measured, reasons
from app.monitor.slow_words import SENTENCES, sentence

GIB = 1 << 30
MACHINE = MachineSample(
    cpu_share=0.5, ram_used_bytes=8 * GIB, ram_total_bytes=32 * GIB, swap_used_bytes=0
)


def status(**more):
    content = {"state": "answering", "instance": "x", **more}
    found = parse_status(content)
    assert found is not None
    return found


def request(read=0, generated=0, request_id="r", cached=0):
    return {
        "request_id": request_id,
        "prompt_read": read,
        "cached_tokens": cached,
        "generated": generated,
    }


def codes(**facts):
    return [note.code for note in reasons(Facts(**{"machine": MACHINE, **facts}))]


def test_speeds_are_those_of_the_last_two_seconds():
    rates = TokenRates()
    assert rates.note(status(requests=[request(read=100)]), 0.0).reading_per_s is None
    now = rates.note(status(requests=[request(read=300)]), 1.0)
    assert now.reading_per_s == 200
    rates.note(status(requests=[request(read=400, generated=10)]), 2.0)
    rates.note(status(requests=[request(read=400, generated=20)]), 3.0)
    now = rates.note(status(requests=[request(read=400, generated=30)]), 4.0)
    assert now.reading_per_s is None
    assert now.generating_per_s == 10
    assert rates.note(status(requests=[]), 5.0).generating_per_s is None


def test_tokens_from_memory_are_not_counted_as_read():
    rates = TokenRates()
    rates.note(status(requests=[]), 0.0)
    now = rates.note(status(requests=[request(read=1000, cached=900)]), 1.0)
    assert now.reading_per_s == 100


def test_a_series_keeps_its_length_and_shows_gaps():
    series = Series(3)
    assert series.is_empty
    for value in (1.0, None, 2.0, 5.0):
        series.add(value)
    first, *rest = series.values()
    assert math.isnan(first)
    assert rest == [2.0, 5.0]
    assert series.latest == 5.0
    assert series.largest == 5.0


def test_this_machine_is_sampled_with_the_engines_part():
    probe = MachineProbe()
    assert probe.sample(os.getpid()).cpu_share is None
    sum(range(2_000_000))
    sample = probe.sample(os.getpid())
    assert 0 <= sample.cpu_share <= 1
    assert 0 < sample.ram_used_bytes <= sample.ram_total_bytes
    assert sample.engine.resident_bytes > 1 << 20
    assert 0 <= sample.engine.cpu_share <= 1
    assert probe.sample(None).engine is None
    assert probe.sample(2**22 + 12345).engine is None


class FakeNvml:
    """Two cards; the second answers nothing but its memory."""

    def __init__(self):
        self.is_open = False

    def nvmlInit(self):  # noqa: N802
        self.is_open = True

    def nvmlShutdown(self):  # noqa: N802
        self.is_open = False

    def nvmlDeviceGetCount(self):  # noqa: N802
        return 2

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
        return index

    def nvmlDeviceGetMemoryInfo(self, handle):  # noqa: N802
        return SimpleNamespace(total=16 * GIB, used=(handle + 3) * GIB)

    def nvmlDeviceGetName(self, handle):  # noqa: N802
        return "Card A" if handle == 0 else b"Card B"

    def nvmlDeviceGetUtilizationRates(self, handle):  # noqa: N802
        self._only_first(handle)
        return SimpleNamespace(gpu=87)

    def nvmlDeviceGetTemperature(self, handle, _sensor):  # noqa: N802
        self._only_first(handle)
        return 91

    def nvmlDeviceGetPowerUsage(self, handle):  # noqa: N802
        self._only_first(handle)
        return 215_500

    def nvmlDeviceGetPcieThroughput(self, handle, which):  # noqa: N802
        self._only_first(handle)
        return 1000 * (which + 1)

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle):  # noqa: N802
        self._only_first(handle)
        return 0x40

    def nvmlDeviceGetComputeRunningProcesses(self, handle):  # noqa: N802
        self._only_first(handle)
        return [
            SimpleNamespace(pid=10, usedGpuMemory=2 * GIB),
            SimpleNamespace(pid=11, usedGpuMemory=3 * GIB),
        ]

    def _only_first(self, handle):
        if handle:
            raise RuntimeError("Not Supported")


def test_a_card_tells_what_it_can_and_the_rest_is_none():
    nvml = FakeNvml()
    probe = GpuProbe(nvml)
    first, second = probe.sample(frozenset({10}))
    assert (first.name, first.load, first.temperature_c, first.power_w) == (
        "Card A",
        0.87,
        91,
        215.5,
    )
    assert (first.sent_per_s, first.received_per_s) == (1_000_000, 2_000_000)
    assert first.others_bytes == 3 * GIB
    assert first.is_slowed_by_heat
    assert (second.name, second.vram_used_bytes) == ("Card B", 4 * GIB)
    assert second.load is second.power_w is second.others_bytes is None
    probe.close()
    assert not nvml.is_open


def test_a_machine_without_a_card_has_none():
    class Broken:
        def nvmlInit(self):  # noqa: N802
            raise OSError("no driver")

    probe = GpuProbe(Broken())
    assert probe.sample() == ()
    assert probe.sample() == ()
    probe.close()


def test_a_card_that_is_left_out_beside_one_that_computes_is_no_reason():
    assert codes(status=status(ops="cuda sm_89", card_notice="RTX is left out.")) == []


def test_nothing_unusual_gives_no_reason():
    assert codes() == []
    assert reasons(Facts()) == []


CARD = GpuSample(0, "RTX", 8 * GIB, 12 * GIB, load=0.9)


@pytest.mark.parametrize(
    ("code", "facts"),
    [
        ("plain_operations", {"status": status(ops="reference numpy")}),
        ("card_not_used", {"status": status(card_notice="RTX is not used: it hangs.")}),
        ("was_restarted", {"status": status(restarts=2)}),
        (
            "slower_than_tuned",
            {"measured": Measured(calibrated_per_s=20.0), "tokens_per_s": 8.0},
        ),
        (
            "card_too_hot",
            {"cards": (GpuSample(0, "RTX", 1, 2, temperature_c=91, is_slowed_by_heat=True),)},
        ),
        (
            "card_at_power_limit",
            {
                "cards": (GpuSample(0, "R", 1, 2, power_limit_w=200.0, is_slowed_by_power=True),),
                "is_answering": True,
            },
        ),
        ("others_on_card", {"cards": (GpuSample(0, "RTX", 1, 2, others_bytes=3 * GIB),)}),
        ("screen_on_card", {"cards": (CARD,), "measured": Measured(has_display=frozenset({0}))}),
        (
            "slow_slot",
            {
                "cards": (GpuSample(0, "R", 1, 2, load=0.9, pcie=(4, 4), pcie_max=(4, 16)),),
                "is_answering": True,
            },
        ),
        ("others_on_processor", {"measured": Measured(others=(("game", 0.4),))}),
        ("on_hard_disk", {"measured": Measured(is_hard_disk=True)}),
        ("slow_memory", {"measured": Measured(memory_per_s=15e9)}),
        (
            "memory_bound",
            {
                "measured": Measured(memory_per_s=50e9),
                "report": ModelReport(1, 1, (ModelPart("Experts", "ram", 9, ""),), 2 << 30, 9),
            },
        ),
        (
            "drafts_rejected",
            {
                "metrics": parse_metrics(
                    {"llm_draft_tokens_total": 400, "llm_draft_accepted_total": 4}
                )
            },
        ),
        (
            "prompts_read_anew",
            {
                "metrics": parse_metrics(
                    {"llm_prompt_tokens_total": 90_000, "llm_prompt_tokens_cached_total": 900}
                )
            },
        ),
        (
            "mostly_reading",
            {
                "metrics": parse_metrics(
                    {"llm_prompt_seconds_total": 300.0, "llm_generated_seconds_total": 20.0}
                )
            },
        ),
        (
            "requests_wait",
            {
                "metrics": parse_metrics(
                    {"llm_queue_wait_seconds": {"count": 10, "sum": 90.0, "buckets": {}}}
                )
            },
        ),
    ],
)
def test_each_reason_is_found_from_what_was_measured_and_has_a_sentence(code, facts):
    assert codes(**facts) == [code]
    (note,) = reasons(Facts(**{"machine": MACHINE, **facts}))
    assert "{" not in sentence(note)


@pytest.mark.parametrize(
    ("code", "changes", "is_answering"),
    [
        ("memory_is_full", {"ram_used_bytes": 31 * GIB}, False),
        ("memory_is_swapped", {"ram_used_bytes": 31 * GIB, "swapped_in_per_s": 50e6}, False),
        ("reads_from_disk", {"read_per_s": 400e6}, True),
        ("on_battery", {"on_battery": True}, False),
        ("low_clock", {"cpu_mhz": 1200.0, "cpu_mhz_max": 4800.0}, True),
    ],
)
def test_the_machines_own_reasons(code, changes, is_answering):
    from dataclasses import replace  # noqa: PLC0415  # beside its only use

    machine = replace(MACHINE, **changes)
    found = reasons(Facts(machine=machine, is_answering=is_answering))
    assert [note.code for note in found] == [code]
    assert "{" not in sentence(found[0])
    if is_answering:
        assert reasons(Facts(machine=machine)) == []


def test_every_code_of_a_reason_has_a_sentence():
    from pathlib import Path  # noqa: PLC0415

    import app.monitor.slow as module  # noqa: PLC0415

    text = Path(module.__file__).read_text("utf-8")
    for code in SENTENCES:
        assert f'"{code}"' in text, code


def test_a_request_that_is_cut_short_in_the_list_is_no_error():
    (ended,) = parse_recent(
        {"recent": [{"request_id": "a", "generated": 11, "generated_s": 2.0}, 5]}
    )
    assert ended.tokens_per_s == 5.0
    assert ended.first_token_s is None
    assert parse_recent({}) == ()


def test_the_engine_says_where_the_models_parts_live():
    report = read_model_report(None)
    assert report.context == 32_768
    assert report.bytes_of("Experts") > 0
    assert report.bytes_per_token > 0
    assert report.bytes_in("ram_mapped", "ram", "disk", "vram") == sum(
        part.num_bytes for part in report.parts
    )


def test_a_report_of_another_version_is_refused():
    with pytest.raises(KeyError):
        parse_report({})
