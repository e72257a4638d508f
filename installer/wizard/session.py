"""What all pages share: the installation, the language, what is known of the PC, and secrets.

`Doors` are the ways out of the window, so that a test can put something else there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from engine.core.catalog import Catalog
from engine.core.language import Language, system_language
from engine.core.survey import Survey, survey
from installer.card_check import CardCheckRun, card_results, seen_without
from installer.download.job import DownloadJob
from installer.download.options import DownloadOptions
from installer.engine_run import EngineRun
from installer.i18n.texts import Texts
from installer.launch import Started, has_app, start, wait_until_ready
from installer.offers import title_of
from installer.present import present_bytes
from installer.recommend import Recommendation, Wish, recommend
from installer.steps import Installation
from installer.tune import TuneRun, is_tuning_available


@dataclass(frozen=True, slots=True)
class Doors:
    """Ways out of the window.

    Attributes:
        survey: looks at the PC; blocks for seconds.
        recommend: what suits it; at once.
        make_job: a download.
        make_tuning: a measurement.
        can_tune: whether this engine can measure itself.
        make_card_check: a check of the graphics cards.
        start: starts what is installed.
        wait_until_ready: whether it answers in time; blocks.
        has_app: whether what is started has a window of its own.
    """

    survey: Callable[[Path], Survey] = survey
    recommend: Callable[[Survey, Catalog, Wish], Recommendation] = recommend
    make_job: Callable[[Catalog, str, DownloadOptions], DownloadJob] = DownloadJob
    make_tuning: Callable[[Path], TuneRun] = TuneRun
    can_tune: Callable[[], bool] = is_tuning_available
    make_card_check: Callable[[], EngineRun] = CardCheckRun
    start: Callable[[Path], Started] = start
    wait_until_ready: Callable[[Started, float], bool] = wait_until_ready
    has_app: Callable[[], bool] = has_app


@dataclass(slots=True)
class Session:
    """One run of the wizard.

    Attributes:
        installation: steps and choices.
        doors: ways out.
        texts: in the person's language.
        survey: what was found; None while nobody has looked.
        recommendation: what suits this PC, by the last question.
        token: for repositories that ask for an account; never written to a file.
        proxy: may hold a password; never written to a file.
        tuning_report: what the measurement came to.
        card_lines: what the check of the graphics cards came to, in sentences; None before it.
    """

    installation: Installation
    doors: Doors = field(default_factory=Doors)
    texts: Texts = field(init=False)
    survey: Survey | None = None
    recommendation: Recommendation | None = None
    token: str | None = field(default=None, repr=False)
    proxy: str | None = field(default=None, repr=False)
    tuning_report: Mapping[str, object] | None = None
    card_lines: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        self.texts = Texts(self.installation.choices.language or system_language())

    def set_language(self, language: Language) -> None:
        """Speak another language from now on."""
        choices = self.installation.choices
        self.installation.choose(choices.model_copy(update={"language": language}))
        self.texts = Texts(language)

    def recommend(self) -> Recommendation | None:
        """What suits this PC and the person's wish; None while nobody has looked at the PC."""
        if self.survey is None:
            return None
        installation = self.installation
        wish = Wish(
            for_coding_agents=installation.choices.is_for_agents,
            present_bytes=present_bytes(installation.catalog, installation.data_dir),
        )
        self.recommendation = self.doors.recommend(self.survey, installation.catalog, wish)
        return self.recommendation

    @property
    def wants_card_check(self) -> bool:
        """Whether a card may be there that this start of the program has not checked."""
        has_cards = self.survey is None or bool(self.survey.gpus.cards)
        return self.card_lines is None and has_cards

    def take_card_report(self, report: Mapping[str, object]) -> None:
        """Note what the check came to, and change what was chosen for a card that failed.

        Raises:
            EngineError: the run config cannot be written.
        """
        results = card_results(report)
        notes = [result.note for result in results]
        installation = self.installation
        if self.survey is not None and not all(result.is_passed for result in results):
            self.survey = seen_without(self.survey, results)
            self.recommend()
            notes += installation.adapt_to(self.survey)
        self.card_lines = tuple(self.texts.note(note) for note in notes)

    @property
    def model_title(self) -> str:
        """How the chosen model is called."""
        model = self.installation.model
        return title_of(self.installation.catalog, model, self.texts) if model is not None else ""
