"""Expected speeds: ranges that follow bandwidth, cores, formats, cards and drives."""

from __future__ import annotations

import pytest

from engine.core.catalog import Catalog
from engine.core.catalog_file import load_catalog
from engine.core.gpu import Gpu
from engine.core.model_numbers import numbers_of_catalog
from engine.core.placement_hybrid import place
from engine.core.survey import Survey
from installer.speed import SpeedRange, cpu_speed, gpu_speed
from tests.support.pc_profiles import HARD_DISK, NVME, card, drive, pc

RTX_5070 = card("RTX 5070", 12, (12, 0), per_s=672e9, has_display=True, taken_gib=0.6)


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog()


def speed_of(
    catalog: Catalog, seen: Survey, model_id: str = "qwen-iq2_xs", gpu: Gpu | None = None
) -> SpeedRange:
    model = catalog.find(model_id)
    assert model is not None
    numbers, shape = numbers_of_catalog(catalog, model), catalog.family_of(model).shape
    budget = model.needs.has_ram_budget
    placement = place(numbers, seen.machine, gpu, 32_768, may_read_disk=budget)
    if gpu is None:
        return cpu_speed(seen, model, shape, numbers, placement)
    found = gpu_speed(seen, gpu, model, shape, numbers, placement)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("model_id", "published"),
    [("qwen-q2_0", 94), ("qwen-iq2_xs", 79), ("qwen-iq3_xxs", 62), ("qwen-iq3_s", 53)],
)
def test_the_reference_machine_gets_its_published_speed(
    model_id: str, published: float, catalog: Catalog
) -> None:
    """Within a tenth of the range: what is published was measured with a shorter context."""
    seen = pc(62.7, bandwidth=62e9, cores=6, cards=[RTX_5070], system="Windows")
    found = speed_of(catalog, seen, model_id, RTX_5070)
    assert found.low < published < found.high * 1.1


def test_the_range_holds_what_was_measured_on_two_cores(catalog: Catalog) -> None:
    """Measured: 8 of 48 layers, IQ2_XS experts, 16.7 tokens/s on a busy machine, more on a quiet one."""
    seen = pc(62.7, bandwidth=36e9, cores=2)
    found = speed_of(catalog, seen)
    assert found.low < 16.7 * 8 / 48 * 1.3
    assert found.high > 16.7 * 8 / 48


def test_twice_the_bandwidth_helps_and_is_no_more_than_twice_as_fast(catalog: Catalog) -> None:
    slow, fast = (speed_of(catalog, pc(bandwidth=b)) for b in (30e9, 60e9))
    assert slow.high < fast.high <= 2 * slow.high
    assert slow.low < fast.low < 2 * slow.low


def test_better_instructions_and_more_cores_help(catalog: Catalog) -> None:
    assert speed_of(catalog, pc(cpu="avx2")).low < speed_of(catalog, pc(cpu="avx512")).low
    assert speed_of(catalog, pc(cores=2)).low < speed_of(catalog, pc(cores=8)).low
    assert speed_of(catalog, pc(cores=8, cpu_limit=2.0)).low == pytest.approx(
        speed_of(catalog, pc(cores=2)).low
    )


def test_without_avx2_a_large_model_is_unbearable(catalog: Catalog) -> None:
    assert speed_of(catalog, pc(cpu="old")).high < 0.2


def test_what_does_not_fit_is_as_slow_as_the_drive(catalog: Catalog) -> None:
    fits = speed_of(catalog, pc(62.7))
    on_nvme = speed_of(catalog, pc(31.1, data_drive=drive(900, NVME)))
    on_disk = speed_of(catalog, pc(31.1, data_drive=drive(900, HARD_DISK)))
    assert on_disk.high < on_nvme.low
    assert on_nvme.high < fits.high
    assert on_disk.high < 1


def test_a_hard_disk_holds_up_prompts_unless_the_table_fits_into_memory(catalog: Catalog) -> None:
    ssd = speed_of(catalog, pc(62.7, data_drive=drive(900, NVME)))
    disk = speed_of(catalog, pc(62.7, data_drive=drive(900, HARD_DISK)))
    ample = speed_of(catalog, pc(125.6, data_drive=drive(900, HARD_DISK)))
    assert disk.prompt_high < 25 < ssd.prompt_low
    assert disk.high < ssd.high
    assert ample.prompt_high > ssd.prompt_high * 0.99


def test_a_bandwidth_that_could_not_be_measured_is_assumed_low(catalog: Catalog) -> None:
    assert speed_of(catalog, pc(bandwidth=None)).high < speed_of(catalog, pc(bandwidth=60e9)).high


def test_a_larger_and_faster_card_is_faster(catalog: Catalog) -> None:
    cards = [
        card("RTX 4060", 9, per_s=272e9),
        RTX_5070,
        card("RTX 4090", 24, per_s=1008e9),
        card("RTX 5090", 32, (12, 0), per_s=1792e9),
    ]
    middles = [speed_of(catalog, pc(cards=[gpu]), gpu=gpu).middle for gpu in cards]
    assert middles == sorted(middles)


def test_a_model_without_published_figures_gets_that_of_its_size_and_no_prompt_speed(
    catalog: Catalog,
) -> None:
    found = speed_of(catalog, pc(), "swift-iq2_xs", RTX_5070)
    twin = speed_of(catalog, pc(), "qwen-iq2_xs", RTX_5070)
    assert (found.low, found.high) == (twin.low, twin.high)
    assert found.prompt_high == 0.0 < twin.prompt_high


def test_a_card_that_holds_no_experts_has_no_speed_of_its_own(catalog: Catalog) -> None:
    model = catalog.find("qwen-iq2_xs")
    assert model is not None
    numbers, shape = numbers_of_catalog(catalog, model), catalog.family_of(model).shape
    placement = place(numbers, pc().machine, None, 32_768)
    assert gpu_speed(pc(), RTX_5070, model, shape, numbers, placement) is None
