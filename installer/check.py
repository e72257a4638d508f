"""`--check`: what this PC has, what suits it, and one verdict. Changes nothing.

    report = check(data_dir, load_catalog())
    for line in check_lines(report, Texts(Language.ENGLISH)): print(line)
    sys.exit(report.exit_status)

Exit status 0 when a large model can run (perhaps with a limit), 1 when only the bundled one can. The
window shows the same findings and the same verdict.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.core.catalog import Catalog
from engine.core.language import Language
from engine.core.note import Note, PlainValue, as_plain
from engine.core.survey import TIMEOUT_S, Survey, survey
from installer.i18n.texts import Texts
from installer.pc_findings import Finding, pc_findings
from installer.present import present_bytes
from installer.recommend import Choice, Mark, Recommendation, Wish, recommend

REPORT_FORMAT = 1
_SIGNS = {Mark.GREEN: "ok  ", Mark.AMBER: "look", Mark.RED: "FAIL"}


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What was found.

    Attributes:
        survey: the PC.
        findings: one line a subject, with a colour.
        recommendation: what suits it, and the verdict.
    """

    survey: Survey
    findings: tuple[Finding, ...]
    recommendation: Recommendation

    @property
    def exit_status(self) -> int:
        """What the command line returns."""
        return self.recommendation.exit_status


def check(
    data_dir: Path,
    catalog: Catalog,
    *,
    for_coding_agents: bool = False,
    model_id: str | None = None,
    context: int | None = None,
    endpoints: Sequence[str] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> CheckReport:
    """Look at this PC and say what suits it.

    Args:
        data_dir: where models are, or would go.
        catalog: what there is.
        for_coding_agents: whether agents will use it.
        model_id: judge this model instead of recommending one.
        context: with this context.
        endpoints: hubs to try; None: the one that is set, and a mirror.
        timeout_s: for the look at the PC.
    """
    wish = Wish(for_coding_agents, model_id, context, present_bytes(catalog, data_dir))
    return report_on(survey(data_dir, timeout_s, endpoints), catalog, wish)


def report_on(seen: Survey, catalog: Catalog, wish: Wish) -> CheckReport:
    """The report on a PC that was looked at."""
    return CheckReport(seen, pc_findings(seen, catalog, wish), recommend(seen, catalog, wish))


def check_lines(report: CheckReport, texts: Texts) -> Iterator[str]:
    """The report in words, a line at a time."""
    subject = None
    for finding in report.findings:
        name = texts.say(f"check.{finding.subject.value}") if finding.subject != subject else ""
        subject = finding.subject
        if name:
            yield name
        yield f"  {_SIGNS[finding.mark]}  {texts.note(finding.note)}"
    yield texts.say("check.models")
    for choice in report.recommendation.choices:
        is_chosen = choice is report.recommendation.choice
        yield from _choice_lines(choice, texts, is_chosen=is_chosen)
    is_own = any(note.code == "chosen_by_you" for note in report.recommendation.reasons)
    key = "check.chosen" if is_own else "check.recommendation"
    yield texts.say(key, model=report.recommendation.choice.title)
    for reason in report.recommendation.reasons:
        yield f"  {texts.note(reason)}"
    yield texts.say(f"check.verdict_{report.recommendation.verdict.value}")


def _choice_lines(choice: Choice, texts: Texts, *, is_chosen: bool) -> Iterator[str]:
    arrow = "->" if is_chosen else "  "
    speed = texts.say("check.speed", low=choice.speed.low, high=choice.speed.high)
    yield f"{arrow}{_SIGNS[choice.mark]}  {choice.model_id}: {choice.title}, {speed}"
    for note in choice.notes:
        yield f"          {texts.note(note)}"


def check_as_plain(report: CheckReport) -> dict[str, PlainValue]:
    """The report as a JSON object; each note has its English sentence beside its code."""
    texts = Texts(Language.ENGLISH)
    recommendation = report.recommendation
    return {
        "format": REPORT_FORMAT,
        "verdict": recommendation.verdict.value,
        "exit_status": report.exit_status,
        "recommended": recommendation.choice.model_id,
        "reasons": [_note(note, texts) for note in recommendation.reasons],
        "uses_gpu": recommendation.uses_gpu,
        "gpu_index": recommendation.gpu_index,
        "models": [_choice(choice, texts) for choice in recommendation.choices],
        "findings": [
            {
                "subject": finding.subject.value,
                "mark": finding.mark.value,
                **_note(finding.note, texts),
            }
            for finding in report.findings
        ],
        "pc": as_plain(report.survey),
    }


def _choice(choice: Choice, texts: Texts) -> dict[str, PlainValue]:
    plain = as_plain(choice)
    if not isinstance(plain, dict):
        raise TypeError("a choice is an object")
    return {**plain, "notes": [_note(note, texts) for note in choice.notes]}


def _note(note: Note, texts: Texts) -> dict[str, PlainValue]:
    return {"code": note.code, "params": as_plain(note.params), "text": texts.note(note)}
