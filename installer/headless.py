"""The installation in a terminal: the same steps as the wizard's, without a window.

    status = Headless(installation, HeadlessOptions(is_agreed=True, is_start_wanted=False), texts).run()

Sentences go to standard output, progress to standard error. With `as_json` standard output holds one
JSON object and nothing else, and standard error one JSON object a line while something goes on.
Nothing is asked when standard input is no terminal: then `--yes` must say that all is agreed to.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.core.catalog_file import PROGRAM_DIR, find_model
from engine.core.errors import EngineError, InputError
from engine.core.gpu import probe_gpus
from engine.core.note import as_plain
from engine.core.setting_paths import whole_path
from engine.core.survey import survey
from installer.card_check import CardCheckRun, card_results, seen_without
from installer.care import bring_calibration_in_line
from installer.check import check
from installer.child import child_environment
from installer.download.job import DownloadJob
from installer.download.plan import DownloadPlan
from installer.i18n.texts import Texts
from installer.launch import server_command
from installer.offers import choice_of, title_of
from installer.progress_words import plan_lines
from installer.recommend import Recommendation
from installer.steps import Installation, Step, Tuning
from installer.terminal import TerminalProgress, answer_is_yes, say
from installer.tune import TuneRun, is_tuning_available
from installer.tune_words import tuning_words

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HeadlessOptions:
    """What the command line says.

    Attributes:
        is_agreed: plan and licence are accepted without a question.
        is_start_wanted: start what was installed at the end.
        as_json: one JSON object.
        model_id: install this model; None: the one that suits this PC.
        data_dir: where to; None: the usual folder.
        context: context length; None: what suits.
        is_for_agents: coding agents will use it; None: as before.
    """

    is_agreed: bool = False
    is_start_wanted: bool = True
    as_json: bool = False
    model_id: str | None = None
    data_dir: Path | None = None
    context: int | None = None
    is_for_agents: bool | None = None


class Headless:
    """One installation in the terminal."""

    def __init__(
        self,
        installation: Installation,
        options: HeadlessOptions,
        texts: Texts,
        takes_over: Callable[[], bool] = lambda: True,
    ) -> None:
        """Prepare it.

        Args:
            installation: the steps.
            options: what the command line says.
            texts: in the person's language.
            takes_over: called before anything is fetched or started, to make this version the
                installed one; False when it does not work and the former one was started.
        """
        self._takes_over = takes_over
        self._installation = installation
        self._options = options
        self._texts = texts
        self._report: dict[str, object] = {}

    @property
    def report(self) -> Mapping[str, object]:
        """What was done, for `--json`."""
        return self._report

    def run(self) -> int:
        """Install, tune, start; the exit status.

        Raises:
            EngineError: it cannot go on; what was fetched is kept.
        """
        installation, options = self._installation, self._options
        wants_other = any(
            value is not None for value in (options.model_id, options.data_dir, options.context)
        )
        if not installation.is_finished or wants_other:
            if not self._install():
                return 0
        elif not self._takes_over():
            return 0
        self._fill_report()
        return self._start() if options.is_start_wanted and not options.as_json else 0

    def calibrate(self) -> int:
        """Measure what is installed, and nothing else; the exit status.

        Raises:
            EngineError: nothing is installed, or the measurement failed.
        """
        texts = self._texts
        if self._installation.config_path is None:
            raise InputError(texts.say("cli.nothing_installed"), code="nothing_installed")
        if not is_tuning_available():
            raise InputError(texts.say("cli.no_tuning"), code="no_tuning")
        self._measure(self._installation.config_path)
        self._fill_report()
        return 0

    # -- the steps ---------------------------------------------------------------------------------

    def _install(self) -> bool:
        """All steps up to the last; False when the person does not want it."""
        self._choose()
        installation = self._installation
        installation.accept_licence(is_accepted=False)
        job = DownloadJob(
            installation.catalog,
            installation.choices.model_id or "",
            installation.download_options(),
        )
        with self._progress() as progress:
            plan = job.plan(progress.show)
        self._show_plan(plan)
        if not self._is_agreed():
            self._say("cli.not_confirmed")
            return False
        if not self._takes_over():
            return False
        installation.accept_licence(is_accepted=True)
        self._go_to(Step.DOWNLOAD)
        installation.download_started()
        with self._progress() as progress:
            model = job.run(progress.show)
        path = installation.prepared(model)
        self._report["fetched_bytes"] = plan.fetch_bytes
        installation.next()
        self._check_card()
        is_large = installation.model is not None and not installation.model.is_bundled
        self._tune(is_wanted=is_large)
        installation.next()
        self._say("cli.ready", path=str(path))
        return True

    def _choose(self) -> None:
        """Fill in what the person left open."""
        installation, options = self._installation, self._options
        choices = installation.choices
        changes: dict[str, object] = {}
        if options.data_dir is not None:
            changes["data_dir"] = whole_path(options.data_dir)
        if options.is_for_agents is not None:
            changes["is_for_agents"] = options.is_for_agents
        model_id = options.model_id or choices.model_id
        if model_id is not None:
            find_model(installation.catalog, model_id)
        is_other = model_id != choices.model_id
        # What was chosen for another model says nothing of this one.
        context = options.context or (None if is_other else choices.context)
        effort = None if is_other else choices.effort
        if model_id is None or context is None or effort is None:
            found = self._look(choices.model_copy(update=changes).data_dir, model_id)
            model_id = model_id or found.choice.model_id
            model = find_model(installation.catalog, model_id)
            suits = choice_of(found, model) or found.choice
            context, effort = context or suits.context, effort or suits.effort
            self._report["verdict"] = found.verdict.value
        changes |= {"model_id": model_id, "context": context, "effort": effort}
        installation.choose(choices.model_copy(update=changes))

    def _look(self, data_dir: Path | None, model_id: str | None) -> Recommendation:
        installation, options = self._installation, self._options
        self._say("cli.looking")
        found = check(
            data_dir or installation.data_dir,
            installation.catalog,
            for_coding_agents=bool(options.is_for_agents),
            model_id=model_id,
            context=options.context,
        ).recommendation
        for note in found.reasons:
            self._print(self._texts.note(note))
        return found

    def _show_plan(self, plan: DownloadPlan) -> None:
        installation, texts = self._installation, self._texts
        self._say("cli.model", model=title_of(installation.catalog, plan.model, texts))
        self._say("cli.folder", path=str(plan.folder))
        for line in plan_lines(plan, texts):
            self._print(f"  {line}")
        self._say("cli.fetch", num_bytes=plan.fetch_bytes)
        family = installation.catalog.family_of(plan.model)
        if family.licence.must_accept:
            self._say("cli.licence", licence=family.licence.title, url=family.licence.url)
            if self._options.is_agreed:
                self._say("cli.licence_accepted")

    def _is_agreed(self) -> bool:
        """Whether the person wants this plan.

        Raises:
            InputError: nobody can be asked.
        """
        if self._options.is_agreed:
            return True
        if self._options.as_json or not sys.stdin.isatty():
            raise InputError(self._texts.say("cli.needs_yes"), code="needs_yes")
        return answer_is_yes(self._texts.say("cli.confirm"))

    def _go_to(self, step: Step) -> None:
        installation = self._installation
        if installation.step is Step.DONE:
            installation.begin_again()
        installation.go_back_to(step)
        while installation.step is not step:
            before = installation.step
            if installation.next() is before:
                raise RuntimeError(f"the step {before} cannot be left: {installation.problem}")

    def _check_card(self) -> None:
        """Check the graphics card, and change what was chosen for it if it fails."""
        installation, texts = self._installation, self._texts
        if not probe_gpus().cards:
            return
        self._say("cli.card_checking")
        try:
            with self._progress() as progress:
                results = card_results(CardCheckRun().run(progress.show_card_check))
        except EngineError as error:  # the engine tries again when it starts
            self._print(texts.error(error))
            return
        notes = [result.note for result in results]
        if not all(result.is_passed for result in results):
            data_dir = installation.data_dir
            notes += installation.adapt_to(seen_without(survey(data_dir, endpoints=()), results))
        self._report["cards"] = [as_plain(result) for result in results]
        for note in notes:
            self._print(texts.note(note))

    def _tune(self, *, is_wanted: bool) -> None:
        config = self._installation.config_path
        if not is_wanted or config is None or not is_tuning_available():
            if self._installation.tuning is Tuning.NOT_RUN:
                self._installation.tuned(Tuning.SKIPPED)
            return
        try:
            self._measure(config)
        except EngineError as error:  # the model works without
            self._installation.tuned(Tuning.FAILED)
            self._say("cli.tuning_failed", reason=self._texts.error(error))

    def _measure(self, config: Path) -> None:
        self._say("cli.tuning")
        with self._progress() as progress:
            found = TuneRun(config).run(progress.show_tuning)
        words = tuning_words(found, self._texts)
        for line in (*words.lines, words.summary):
            self._print(line)
        self._report["settings"] = found.get("settings", {})
        self._installation.tuned(Tuning.DONE)

    def _start(self) -> int:
        """Become what was installed, or run it; its exit status."""
        config = self._installation.config_path
        if config is None:
            return 0
        bring_calibration_in_line(config)
        command = server_command(config)
        self._say("cli.starting")
        sys.stdout.flush()
        if sys.platform == "win32":  # its exec ends before the new program does
            with contextlib.suppress(KeyboardInterrupt):
                return subprocess.run(
                    command, cwd=PROGRAM_DIR, env=child_environment(), check=False
                ).returncode
            return 130
        os.chdir(PROGRAM_DIR)
        os.execve(command[0], command, child_environment())  # noqa: S606  # a fixed list
        raise AssertionError("exec returns by an error only")

    # -- saying ------------------------------------------------------------------------------------

    def _fill_report(self) -> None:
        installation = self._installation
        self._report |= {
            "ok": True,
            "model": installation.choices.model_id,
            "config": str(installation.config_path),
            "data_dir": str(installation.data_dir),
            "context": installation.choices.context,
            "tuning": installation.tuning.value,
        }
        if installation.config_path is not None:
            self._report["start"] = server_command(installation.config_path)
            if not self._options.is_start_wanted:
                command = subprocess.list2cmdline(server_command(installation.config_path))
                self._say("cli.start_hint", command=command)

    def _progress(self) -> TerminalProgress:
        return TerminalProgress(self._texts, as_json=self._options.as_json)

    def _say(self, key: str, **params: str | int) -> None:
        self._print(self._texts.say(key, **params))

    def _print(self, line: str) -> None:
        if not self._options.as_json:
            say(line)
