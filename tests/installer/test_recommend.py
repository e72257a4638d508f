"""Recommendations for a table of PCs, with their cards and with cards that failed their check."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

import pytest

from engine.core.catalog import Catalog
from engine.core.catalog_file import load_catalog
from engine.core.gpu import Gpu, GpuProcess
from engine.core.language import Language
from engine.core.network_reach import ReachState
from engine.core.note import Note
from engine.core.other_cards import ListedCard, Maker
from engine.core.placement import Verdict
from engine.core.survey import Survey
from installer.i18n.texts import Texts
from installer.pc_findings import Subject, pc_findings
from installer.recommend import Mark, Wish, recommend
from tests.support.pc_profiles import HARD_DISK, SATA_SSD, USB_STICK, card, drive, pc

GREEN, AMBER, RED = Mark.GREEN, Mark.AMBER, Mark.RED
AGENTS = Wish(for_coding_agents=True)

AMD_CARD = ListedCard(Maker.AMD, "Radeon RX 7900 XTX", "amdgpu")
RTX_4060 = card("RTX 4060", 8, per_s=272e9)
RTX_3060 = card("RTX 3060", 12, (8, 6), per_s=360e9)
RTX_5070 = card("RTX 5070", 12, (12, 0), per_s=672e9)
RTX_4080 = card("RTX 4080", 16, per_s=717e9)
RTX_4090 = card("RTX 4090", 24, per_s=1008e9)
RTX_5090 = card("RTX 5090", 32, (12, 0), per_s=1792e9)
LAPTOP_CARD = card("RTX 4060 Laptop", 8, has_display=True, taken_gib=1.4, lanes=4)
SCREEN_CARD = card("RTX 2070", 8, (7, 5), has_display=True, taken_gib=0.8, per_s=448e9)
SMALL_AND_LARGE = [
    card("RTX 2060", 6, (7, 5), has_display=True),
    card("RTX 3090", 24, (8, 6), index=1, per_s=936e9),
]
BUSY_CARD = card(
    "RTX 4070", 12, has_display=True, taken_gib=9.5, processes=[GpuProcess(4711, "game.exe", None)]
)

LITTLE = "tiny"
CODER, IQ2, IQ3 = "coder-iq1_m", "qwen-iq2_xs", "qwen-iq3_xxs"


@dataclass(frozen=True)
class Row:
    """A PC and what it must get.

    Attributes:
        survey: the PC.
        on_cpu: verdict, model and context when no card passed its check.
        on_card: the same when nothing is known against the cards; None: the same.
        index: the card that is used for it.
        says: codes that must be among findings, reasons or the choice's notes.
    """

    survey: Survey
    on_cpu: tuple[Mark, str, int]
    on_card: tuple[Mark, str, int] | None = None
    index: int | None = None
    says: tuple[str, ...] = ()
    wish: Wish = field(default_factory=Wish)


ROWS = {
    "16 GB": Row(pc(15.4), (RED, LITTLE, 32768), says=("no_model_fits", "memory_little")),
    "24 GB": Row(pc(23.4), (RED, LITTLE, 32768), says=("no_model_fits",)),
    "32 GB kit, reports 31.1": Row(
        pc(31.1), (AMBER, CODER, 32768), says=("ram_tight", "code_only")
    ),
    "32 GB kit, reports 31.9": Row(pc(31.9), (AMBER, CODER, 32768), says=("english_only",)),
    "32 GB, 4 of it for graphics": Row(pc(27.4), (RED, LITTLE, 32768), says=("memory_little",)),
    "40 GB": Row(pc(39.1), (GREEN, CODER, 32768)),
    "48 GB kit, reports 46.9": Row(pc(46.9), (GREEN, IQ2, 32768), says=("no_nvidia_card",)),
    "48 GB kit, reports 47.7": Row(pc(47.7), (GREEN, IQ2, 32768)),
    "64 GB kit, reports 62.7": Row(pc(62.7), (GREEN, IQ3, 32768), says=("recommended_for_ram",)),
    "96 GB": Row(pc(94.0), (GREEN, IQ3, 32768)),
    "128 GB": Row(pc(125.6), (GREEN, IQ3, 32768)),
    "64 GB, busy": Row(pc(62.7, free_share=0.4), (GREEN, IQ3, 32768), says=("ram_taken_now",)),
    "16 GB, card of 8": Row(
        pc(15.4, cards=[RTX_4060]),
        (RED, LITTLE, 32768),
        index=0,
    ),
    "32 GB, card of 8": Row(
        pc(31.1, cards=[RTX_4060]), (AMBER, CODER, 32768), (GREEN, CODER, 32768), 0
    ),
    "32 GB, card of 12": Row(
        pc(31.1, cards=[RTX_3060]), (AMBER, CODER, 32768), (GREEN, CODER, 32768), 0
    ),
    "32 GB, card of 24": Row(
        pc(31.1, cards=[RTX_4090]), (AMBER, CODER, 32768), (GREEN, CODER, 131072), 0
    ),
    "48 GB, card of 12": Row(
        pc(46.9, cards=[RTX_3060]), (GREEN, IQ2, 32768), (GREEN, IQ2, 32768), 0
    ),
    "64 GB, card of 8 with a screen": Row(
        pc(62.7, cards=[SCREEN_CARD]),
        (GREEN, IQ3, 32768),
        (GREEN, IQ3, 32768),
        0,
        ("display_on_card",),
    ),
    "64 GB, card of 12": Row(
        pc(62.7, cards=[RTX_5070], system="Windows"),
        (GREEN, IQ3, 32768),
        (GREEN, IQ3, 32768),
        0,
        ("card_found",),
    ),
    "64 GB, card of 16": Row(
        pc(62.7, cards=[RTX_4080]), (GREEN, IQ3, 32768), (GREEN, IQ3, 65536), 0
    ),
    "64 GB, card of 24": Row(
        pc(62.7, cards=[RTX_4090]), (GREEN, IQ3, 32768), (GREEN, IQ3, 131072), 0
    ),
    "64 GB, card of 32": Row(
        pc(62.7, cards=[RTX_5090]), (GREEN, IQ3, 32768), (GREEN, IQ3, 131072), 0
    ),
    "64 GB, two cards": Row(
        pc(62.7, cards=SMALL_AND_LARGE), (GREEN, IQ3, 32768), (GREEN, IQ3, 131072), 1
    ),
    "64 GB, a game on the card": Row(
        pc(62.7, cards=[BUSY_CARD]),
        (GREEN, IQ3, 32768),
        (GREEN, IQ3, 32768),
        0,
        ("vram_taken_by",),
    ),
    "64 GB, driver 470": Row(
        pc(62.7, cards=[card("RTX 3080", 10, (8, 6))], driver="470.82.01"),
        (GREEN, IQ3, 32768),
        says=("driver_too_old",),
    ),
    "64 GB, driver 526 on Windows": Row(
        pc(62.7, cards=[RTX_3060], driver="526.47", system="Windows"),
        (GREEN, IQ3, 32768),
        says=("driver_too_old",),
    ),
    "64 GB, driver 526 on Linux": Row(
        pc(62.7, cards=[RTX_3060], driver="526.47"), (GREEN, IQ3, 32768), index=0
    ),
    "64 GB, new card, driver 560": Row(
        pc(62.7, cards=[RTX_5070], driver="560.94", system="Windows"),
        (GREEN, IQ3, 32768),
        says=("driver_too_old",),
    ),
    "64 GB, card of 2016": Row(
        pc(62.7, cards=[card("GTX 1080", 8, (6, 1))]), (GREEN, IQ3, 32768), says=("gpu_too_old",)
    ),
    "64 GB, AMD card": Row(
        pc(62.7, other_cards=[AMD_CARD]),
        (GREEN, IQ3, 32768),
        says=("other_card_not_used", "no_nvidia_card"),
    ),
    "64 GB, no AVX2": Row(pc(62.7, cpu="old"), (RED, LITTLE, 32768), says=("cpu_too_old",)),
    "64 GB, another processor": Row(
        pc(62.7, cpu="arm"), (RED, LITTLE, 32768), says=("cpu_unknown",)
    ),
    "64 GB, hard disk": Row(
        pc(62.7, data_drive=drive(900, HARD_DISK)),
        (AMBER, IQ3, 32768),
        says=("drive_hard_disk", "on_hard_disk"),
    ),
    "64 GB, folder on the hard disk beside an SSD": Row(
        pc(
            62.7,
            data_drive=drive(900, HARD_DISK, "D:\\", "ntfs"),
            other_drives=[drive(200, SATA_SSD, "C:\\", "ntfs")],
        ),
        (AMBER, IQ3, 32768),
        says=("faster_drive_has_room",),
    ),
    "64 GB, USB stick": Row(
        pc(62.7, data_drive=drive(900, USB_STICK)), (GREEN, IQ3, 32768), says=("drive_slow",)
    ),
    "64 GB, full drive, roomy second one": Row(
        pc(
            62.7,
            data_drive=drive(40, SATA_SSD, "C:\\", "ntfs"),
            other_drives=[drive(800, HARD_DISK, "D:\\", "ntfs")],
        ),
        (AMBER, IQ3, 32768),
        says=("drive_short", "other_drive_has_room"),
    ),
    "64 GB, room for a smaller one": Row(pc(62.7, data_drive=drive(73)), (GREEN, IQ2, 32768)),
    "64 GB, no drive with room": Row(
        pc(62.7, data_drive=drive(30)), (RED, LITTLE, 32768), says=("no_drive_has_room",)
    ),
    "WSL with half of 64 GB": Row(
        pc(31.2, is_wsl=True, cards=[RTX_3060]),
        (AMBER, CODER, 32768),
        (GREEN, CODER, 32768),
        0,
        ("in_wsl",),
    ),
    "laptop on its battery": Row(
        pc(
            31.5,
            cards=[LAPTOP_CARD],
            cpu="avxvnni",
            cores=6,
            slow_cores=8,
            is_laptop=True,
            on_battery=True,
        ),
        (AMBER, CODER, 32768),
        says=("on_battery", "few_pcie_lanes", "cpu_found_hybrid"),
    ),
    "container of 40 GB and 4 processors": Row(
        pc(40.0, container="docker", has_memory_limit=True, cpu_limit=4.0),
        (GREEN, CODER, 32768),
        says=("memory_limited", "cpu_limited", "in_container"),
    ),
    "Windows without a page file": Row(
        pc(62.7, system="Windows", swap_gib=0), (GREEN, IQ3, 32768), says=("page_file_small",)
    ),
    "slow memory, two cores": Row(
        pc(62.7, cpu="avx2", cores=2, bandwidth=9e9),
        (AMBER, IQ3, 32768),
        says=("slower_than_reading",),
    ),
    "agents on 64 GB": Row(
        pc(62.7), (GREEN, IQ3, 65536), says=("context_for_agents",), wish=AGENTS
    ),
    "agents on 32 GB": Row(
        pc(31.1), (AMBER, CODER, 65536), says=("one_request_at_a_time",), wish=AGENTS
    ),
    "agents on less than 32 GB": Row(
        pc(30.2), (AMBER, CODER, 32768), says=("context_short_for_agents",), wish=AGENTS
    ),
    "agents, card of 24": Row(
        pc(62.7, cards=[RTX_4090]), (GREEN, IQ3, 65536), (GREEN, IQ3, 131072), 0, wish=AGENTS
    ),
    "no network": Row(
        pc(62.7, reach=(ReachState.NO_NETWORK, ReachState.NO_NETWORK)),
        (AMBER, IQ3, 32768),
        says=("hub_no_network", "no_hub_reached"),
    ),
    "only the mirror": Row(
        pc(62.7, reach=(ReachState.TIMED_OUT, ReachState.REACHED)),
        (GREEN, IQ3, 32768),
        says=("only_mirror_reached",),
    ),
}


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog()


def with_failed_cards(seen: Survey) -> Survey:
    """The PC after each of its cards failed its check."""
    failed = {
        card.index: Note("card_hangs", {"card": card.name, "seconds": 120})
        for card in seen.gpus.cards
    }
    return dataclasses.replace(seen, card_troubles=failed)


@pytest.mark.parametrize("name", ROWS)
def test_a_pc_whose_cards_failed_gets_the_model_that_suits_its_processor(
    name: str, catalog: Catalog
) -> None:
    row = ROWS[name]
    seen = with_failed_cards(row.survey)
    found = recommend(seen, catalog, row.wish)
    assert (found.verdict, found.choice.model_id, found.choice.context) == row.on_cpu
    assert not found.uses_gpu
    assert found.gpu_index is None
    assert found.exit_status == (1 if found.verdict is RED else 0)
    findings = pc_findings(seen, catalog)
    notes = [finding.note for finding in findings]
    if seen.gpus.cards:
        said = {note.code for note in notes}
        assert said & {"card_hangs", "gpu_too_old", "driver_too_old"}
        assert {note.code for note in found.reasons} & said


@pytest.mark.parametrize("name", ROWS)
def test_a_pc_gets_the_model_that_suits_it(name: str, catalog: Catalog) -> None:
    row = ROWS[name]
    found = recommend(row.survey, catalog, row.wish)
    assert (found.verdict, found.choice.model_id, found.choice.context) == (
        row.on_card or row.on_cpu
    )
    assert found.choice.placement.gpu_index == row.index or found.choice.model_id == LITTLE
    assert found.uses_gpu == (found.choice.placement.gpu_index is not None)
    assert found.exit_status == (1 if found.verdict is RED else 0)
    findings = pc_findings(row.survey, catalog)
    notes = [finding.note for finding in findings] + [*found.reasons, *found.choice.notes]
    assert set(row.says) <= {note.code for note in notes}


def test_one_card_that_failed_leaves_the_other_in_use(catalog: Catalog) -> None:
    trouble = Note("card_wrong", {"card": "RTX 3090", "wrong": 1, "checks": 61, "names": "route"})
    seen = dataclasses.replace(pc(62.7, cards=SMALL_AND_LARGE), card_troubles={1: trouble})
    found = recommend(seen, catalog)
    assert found.gpu_index == 0
    assert trouble in [finding.note for finding in pc_findings(seen, catalog)]


def test_two_cards_that_would_share_a_model_are_counted_together(catalog: Catalog) -> None:
    second = dataclasses.replace(RTX_4090, index=1)
    alone = recommend(pc(62.7, cards=[RTX_4090]), catalog)
    found = recommend(pc(62.7, cards=[RTX_4090, second]), catalog)
    said = {note.code: note for note in found.reasons}
    assert said["gpus_used"].params["cards"] == f"{RTX_4090.name} + {RTX_4090.name}"
    assert "one_card_of_several" not in said
    assert found.choice.placement.expert_slots > alone.choice.placement.expert_slots
    assert found.choice.speed.high > alone.choice.speed.high
    failed = dataclasses.replace(
        pc(62.7, cards=[RTX_4090, second]), card_troubles={1: Note("card_hangs", {})}
    )
    assert recommend(failed, catalog).choice.placement == alone.choice.placement


def test_a_card_whose_packages_are_missing_is_named_with_the_way_out(catalog: Catalog) -> None:
    trouble = Note("gpu_packages_missing", {"card": RTX_4090.name})
    seen = dataclasses.replace(pc(62.7, cards=[RTX_4090]), card_troubles={0: trouble})
    found = recommend(seen, catalog)
    assert trouble in found.reasons
    assert not found.uses_gpu
    assert "internet" in Texts(Language.ENGLISH).note(trouble)


@pytest.mark.parametrize("name", ROWS)
def test_every_model_stays_a_choice_and_the_bundled_one_always_works(
    name: str, catalog: Catalog
) -> None:
    row = ROWS[name]
    found = recommend(row.survey, catalog, row.wish)
    assert [choice.model_id for choice in found.choices] == [model.id for model in catalog.models]
    bundled = found.choices[-1]
    assert bundled.model_id == catalog.bundled.id
    assert bundled.mark is GREEN
    for choice in found.choices:
        speed = choice.speed
        assert 0 < speed.low < speed.high
        assert choice.context in catalog.context_choices or choice.context == 16_384
        assert choice.context != 204_800
        if choice.mark is not GREEN:
            assert choice.notes, "a choice that is not good says why"


def test_the_verdict_is_red_exactly_when_only_the_bundled_model_is_recommended(
    catalog: Catalog,
) -> None:
    for row in ROWS.values():
        found = recommend(row.survey, catalog, row.wish)
        assert (found.verdict is RED) == (found.choice.model_id == catalog.bundled.id)


@pytest.mark.parametrize("gpu", [None, RTX_3060, RTX_4090])
def test_the_line_on_memory_never_contradicts_the_verdict(
    gpu: Gpu | None, catalog: Catalog
) -> None:
    last = RED
    for half_gib in range(24, 140):
        seen = pc(half_gib / 2, cards=[gpu] if gpu is not None else [])
        verdict = recommend(seen, catalog).verdict
        findings = pc_findings(seen, catalog)
        memory = next(f for f in findings if f.subject is Subject.MEMORY)
        small = any(
            c.fit is not Verdict.DOES_NOT_FIT for c in recommend(seen, catalog).choices[:-1]
        )
        assert (memory.mark is RED) <= (verdict is RED)
        assert (memory.mark is RED) <= (not small)
        assert not (verdict is RED and last is not RED), "more memory is never worse"
        last = verdict
    assert last is GREEN
