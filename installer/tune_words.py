"""What a measurement came to, in words. Reads the report of `engine calibrate --json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from installer.i18n.texts import Texts


@dataclass(frozen=True, slots=True)
class TuningWords:
    """Summary in a sentence, and a line for each setting."""

    summary: str
    lines: tuple[str, ...]


def tuning_words(report: Mapping[str, object], texts: Texts) -> TuningWords:
    """The words for a report."""
    settings = report.get("settings")
    kept = list(settings) if isinstance(settings, Mapping) else []
    findings = report.get("findings")
    lines = [
        _line(finding, texts)
        for finding in (findings if isinstance(findings, list) else [])
        if isinstance(finding, Mapping)
    ]
    if not kept:
        key = "tune.done_none" if lines else "tune.done_nothing"
        return TuningWords(texts.say(key), tuple(lines))
    names = ", ".join(setting_name(str(key), texts) for key in kept)
    return TuningWords(texts.say("tune.done_some", names=names), tuple(lines))


def setting_name(key: str, texts: Texts) -> str:
    """What a setting is called."""
    name = f"tune.name_{key}"
    return texts.say(name) if texts.has(name) else key


def _line(finding: Mapping[str, object], texts: Texts) -> str:
    gain = finding.get("gain")
    return texts.say(
        "tune.finding_kept" if finding.get("is_kept") else "tune.finding_default",
        name=setting_name(str(finding.get("key", "")), texts),
        value=str(finding.get("value")),
        default=str(finding.get("default")),
        percent=round(100 * gain, 1) if isinstance(gain, int | float) else 0,
    )
