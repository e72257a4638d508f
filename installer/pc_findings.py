"""What a person should know about this PC: one line a subject, each with a colour.

    for finding in pc_findings(survey, catalog): finding.mark, finding.subject, finding.note

The wizard's page "your PC" and `--check` show the same lines. Pure; sentences are codes with values.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass

from engine.core.catalog import Catalog
from engine.core.drive_speed import DriveKind
from engine.core.drives import Drive
from engine.core.errors import ParameterValue
from engine.core.gpu import Gpu
from engine.core.network_reach import ReachState
from engine.core.note import Note
from engine.core.placement import Verdict
from engine.core.placement_hybrid import reserve_bytes, vram_taken
from engine.core.survey import Survey
from installer.recommend import Mark, Wish, card_problems, recommend

_SMALLEST_PAGE_FILE = 4 << 30  # Windows charges video memory to it: programs fail without
_WORTH_NAMING_BYTES = 1 << 30
_SMALL_LANES = 8


class Subject(enum.StrEnum):
    """What a finding is about."""

    GRAPHICS = "graphics"
    PROCESSOR = "processor"
    MEMORY = "memory"
    DRIVE = "drive"
    NETWORK = "network"
    SYSTEM = "system"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line."""

    subject: Subject
    mark: Mark
    note: Note


def pc_findings(survey: Survey, catalog: Catalog, wish: Wish | None = None) -> tuple[Finding, ...]:
    """All lines, in the order in which they are shown."""
    # Memory and drive are judged by what fits, so that no line contradicts the verdict.
    found = recommend(survey, catalog, wish)
    large = [choice for choice in found.choices if choice.model_id != catalog.bundled.id]
    return (
        *_graphics(survey, catalog),
        *_processor(survey),
        *_memory(survey, any_fits=any(c.fit is not Verdict.DOES_NOT_FIT for c in large)),
        *_drives(survey, has_room=found.choice.fits_on_disk is not False),
        *_network(survey),
        *_system(survey),
    )


def _graphics(survey: Survey, catalog: Catalog) -> Iterator[Finding]:
    gpus = survey.gpus
    for card in gpus.cards:
        facts: dict[str, ParameterValue] = {
            "card": card.name,
            "vram_bytes": card.vram_total_bytes,
            "free_bytes": card.vram_free_bytes,
            "driver": gpus.driver,
        }
        problems = card_problems(survey, catalog, card)
        if problems:
            yield Finding(Subject.GRAPHICS, Mark.AMBER, Note("card_found", facts))
            for problem in problems:
                yield Finding(Subject.GRAPHICS, Mark.AMBER, problem)
            continue
        yield Finding(Subject.GRAPHICS, Mark.GREEN, Note("card_found", facts))
        yield from _card_details(card)
    if not gpus.cards:
        yield Finding(Subject.GRAPHICS, Mark.AMBER, Note("no_nvidia_card"))
    for other in survey.other_cards:
        note = Note("other_card_not_used", {"card": other.name, "maker": other.maker.value})
        yield Finding(Subject.GRAPHICS, Mark.GREEN if gpus.cards else Mark.AMBER, note)


def _card_details(card: Gpu) -> Iterator[Finding]:
    if card.has_display:
        note = Note("display_on_card", {"card": card.name, "reserve_bytes": reserve_bytes(card)})
        yield Finding(Subject.GRAPHICS, Mark.GREEN, note)
    if card.vram_total_bytes - card.vram_free_bytes >= _WORTH_NAMING_BYTES:
        yield Finding(Subject.GRAPHICS, Mark.AMBER, vram_taken(card))
    lanes = card.pcie_width_max
    if lanes is not None and lanes < _SMALL_LANES:
        params: dict[str, ParameterValue] = {"card": card.name, "lanes": lanes}
        yield Finding(Subject.GRAPHICS, Mark.AMBER, Note("few_pcie_lanes", params))


def _processor(survey: Survey) -> Iterator[Finding]:
    params: dict[str, ParameterValue] = {
        "cpu": survey.machine.cpu_name,
        "cores": survey.fast_cores + survey.slow_cores,
        "slow_cores": survey.slow_cores,
        "variant": survey.cpu.best,
    }
    if not survey.cpu.is_x86:
        note = Note("cpu_unknown", {"architecture": survey.environment.architecture})
        yield Finding(Subject.PROCESSOR, Mark.RED, note)
    elif not survey.cpu.avx2:
        yield Finding(Subject.PROCESSOR, Mark.RED, Note("cpu_too_old", params))
    else:
        code = "cpu_found_hybrid" if survey.slow_cores else "cpu_found"
        yield Finding(Subject.PROCESSOR, Mark.GREEN, Note(code, params))
    if survey.environment.cpu_limit is not None:
        limit = round(survey.environment.cpu_limit, 1)
        note = Note("cpu_limited", {"limit": limit, "cores": survey.machine.logical_cores})
        yield Finding(Subject.PROCESSOR, Mark.AMBER, note)


def _memory(survey: Survey, *, any_fits: bool) -> Iterator[Finding]:
    machine = survey.machine
    params: dict[str, ParameterValue] = {
        "ram_bytes": machine.ram_total_bytes,
        "free_bytes": machine.ram_available_bytes,
        "swap_bytes": machine.swap_total_bytes,
    }
    code = "memory_found" if any_fits else "memory_little"
    yield Finding(Subject.MEMORY, Mark.GREEN if any_fits else Mark.RED, Note(code, params))
    if survey.environment.has_memory_limit:
        yield Finding(Subject.MEMORY, Mark.AMBER, Note("memory_limited", params))
    if survey.memory_bytes_per_s is not None:
        note = Note("memory_speed", {"bytes_per_s": round(survey.memory_bytes_per_s)})
        yield Finding(Subject.MEMORY, Mark.GREEN, note)
    is_windows = survey.environment.system == "Windows"
    if is_windows and machine.swap_total_bytes < _SMALLEST_PAGE_FILE:
        yield Finding(Subject.MEMORY, Mark.AMBER, Note("page_file_small", params))


def _drives(survey: Survey, *, has_room: bool) -> Iterator[Finding]:
    drive = survey.data_drive
    if drive is None:
        yield Finding(Subject.DRIVE, Mark.AMBER, Note("drive_unknown"))
        return
    params = _drive_params(drive)
    if drive.is_network:
        yield Finding(Subject.DRIVE, Mark.AMBER, Note("drive_network", params))
    elif drive.kind is DriveKind.HARD_DISK:
        yield Finding(Subject.DRIVE, Mark.AMBER, Note("drive_hard_disk", params))
    elif drive.kind is DriveKind.SLOW_SOLID_STATE:
        yield Finding(Subject.DRIVE, Mark.AMBER, Note("drive_slow", params))
    elif drive.speed is None:
        mark = Mark.GREEN if has_room else Mark.AMBER
        yield Finding(Subject.DRIVE, mark, Note("drive_not_measured", params))
    else:
        mark = Mark.GREEN if has_room else Mark.AMBER
        yield Finding(Subject.DRIVE, mark, Note("drive_found", params))
    for other in survey.drives:
        if other.mount != drive.mount:
            note = Note("drive_other", _drive_params(other))
            yield Finding(Subject.DRIVE, Mark.GREEN, note)


def _drive_params(drive: Drive) -> dict[str, ParameterValue]:
    speed = drive.speed
    return {
        "drive": str(drive.mount),
        "free_bytes": drive.free_bytes,
        "bytes_per_s": round(speed.sequential_bytes_per_s) if speed is not None else 0,
        "read_ms": round(speed.random_read_s * 1000, 2) if speed is not None else 0,
    }


def _network(survey: Survey) -> Iterator[Finding]:
    asked = [answer for answer in survey.reach if answer.state is not ReachState.NOT_ASKED]
    reached = [answer for answer in asked if answer.is_reached]
    if reached:
        yield Finding(Subject.NETWORK, Mark.GREEN, Note("hub_reached", {"host": reached[0].host}))
        for answer in asked[:1]:
            if not answer.is_reached:
                params = {"host": answer.host, "mirror": reached[0].host}
                yield Finding(Subject.NETWORK, Mark.AMBER, Note("only_mirror_reached", params))
    elif asked:
        first = asked[0]
        note = Note(f"hub_{first.state.value}", {"host": first.host})
        yield Finding(Subject.NETWORK, Mark.AMBER, note)


def _system(survey: Survey) -> Iterator[Finding]:
    environment = survey.environment
    facts: dict[str, ParameterValue] = {"system": environment.version}
    yield Finding(Subject.SYSTEM, Mark.GREEN, Note("system_found", facts))
    if environment.is_wsl:
        yield Finding(Subject.SYSTEM, Mark.AMBER, Note("in_wsl"))
    if environment.container:
        note = Note("in_container", {"container": environment.container})
        yield Finding(Subject.SYSTEM, Mark.GREEN, note)
    if environment.is_laptop and environment.on_battery:
        yield Finding(Subject.SYSTEM, Mark.AMBER, Note("on_battery"))
    elif environment.is_laptop:
        yield Finding(Subject.SYSTEM, Mark.GREEN, Note("is_laptop"))
    if environment.is_admin and not environment.container:
        yield Finding(Subject.SYSTEM, Mark.AMBER, Note("is_admin"))
    for note in survey.notes:
        yield Finding(Subject.SYSTEM, Mark.AMBER, note)
