"""The worker's main loop: commands in, one scheduler step after the other, events out.

Commands that arrive during a pass are handled between its layers, so a cancelled prompt costs at
most one layer more.
"""

from __future__ import annotations

import logging
import queue
import traceback

import numpy as np
import psutil
from pydantic import ValidationError

from engine.core.config import RunConfig
from engine.core.errors import ConfigError, EngineError
from engine.core.gguf_header import read_model_header
from engine.core.memory_pressure import system_watch
from engine.decode.constraint import AnswerConstraint
from engine.decode.grammar_vocabulary import GrammarVocabulary, LazyVocabulary
from engine.sequence.scheduler import Scheduler
from engine.worker.card_gate import distrust, trusted_keys
from engine.worker.channel import Channel
from engine.worker.grammars_ahead import GrammarsAhead
from engine.worker.loading import LoadedModel, load_model
from engine.worker.memory_guard import MemoryGuard
from engine.worker.messages import (
    Cancel,
    Failed,
    Force,
    Hold,
    Load,
    Message,
    Progress,
    Quit,
    Ready,
    Start,
    StatusQuery,
)
from engine.worker.outbox import Outbox
from engine.worker.stall_watch import StallWatch

logger = logging.getLogger(__name__)

# The front takes a long silence for a fault; a pass over a model that is still on the disk can take
# minutes.
SIGN_OF_LIFE_S = 10.0
CARD_LOOK_S = 1.0  # without requests: at what other programs leave of a card's memory
SAVING_PATIENCE_S = 120.0  # for writing warm conversations and counts at the end


def run_worker(channel: Channel) -> int:
    """Serve the front until it asks to quit; the result is the exit status."""
    worker = Worker(channel)
    try:
        with np.errstate(all="ignore"):  # numbers that are none are found where tokens are chosen
            worker.serve()
    except EngineError as error:
        logger.error("the worker ends: %s", error)  # noqa: TRY400  # a sentence, not a fault of ours
        channel.send(Failed(error.code, error.message, error.params))
        return error.exit_status
    except MemoryError:
        logger.exception("memory ran out")
        sentence = "The memory of this machine ran out. Lower context or parallel."
        channel.send(Failed("insufficient_ram", sentence, {}))
        return 1
    except Exception as error:  # noqa: BLE001  # the last stop: log it, tell the front, end
        logger.critical("the worker failed: %s\n%s", error, traceback.format_exc())
        sentence = "The model process met an unexpected error; the log says more."
        channel.send(Failed("internal_error", sentence, {"kind": type(error).__name__}))
        return 1
    finally:
        worker.close()
    return 0


class Worker:
    """One loaded model at the end of a channel."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._loaded: LoadedModel | None = None
        self._scheduler: Scheduler | None = None
        self._process = psutil.Process()
        self._guard: MemoryGuard | None = None
        self._stalls: StallWatch | None = None  # of a graphics card, when one computes
        self._is_quitting = False
        self._outbox = Outbox(channel.send)

    def serve(self) -> None:
        """Handle commands and compute until `quit`.

        Raises:
            EngineError: the model cannot be loaded.
        """
        while not self._is_quitting:
            scheduler = self._scheduler
            if scheduler is None or not scheduler.has_work:
                self._obey_next()
            else:
                self._beat()
                self._obey_all()
                if not self._is_quitting:
                    self._balance_card()
                    scheduler.step()
                    self._outbox.flush(more_comes=scheduler.has_work)
        if self._scheduler is not None:
            self._scheduler.close()  # what was in a pass until now keeps its finished part
            self._outbox.flush()
        if self._loaded is not None:
            self._loaded.save()

    def close(self) -> None:
        """Give the model's memory back."""
        if self._guard is not None:
            self._guard.close()
        if self._stalls is not None:
            self._stalls.close()
        if self._loaded is not None:
            self._loaded.close()

    def _obey_next(self) -> None:
        """Wait for a command; meanwhile a card's memory follows what other programs take of it."""
        timeout_s = None
        if self._stalls is not None:
            timeout_s = CARD_LOOK_S
        elif self._scheduler is not None and self._scheduler.has_requests:
            timeout_s = SIGN_OF_LIFE_S
        try:
            command = self._channel.commands.get(timeout=timeout_s)
        except queue.Empty:
            self._beat()
            self._balance_card()
            self._show_life()
        else:
            self._obey(command)

    def _show_life(self) -> None:
        """Say something to a front that waits for an answer and has heard nothing for long."""
        scheduler = self._scheduler
        if scheduler is None or not scheduler.has_requests:
            return
        if self._outbox.silent_s >= SIGN_OF_LIFE_S:
            self._report_status(scheduler)

    def _balance_card(self) -> None:
        if self._loaded is not None:
            self._loaded.ops.balance_memory()

    def _obey_all(self) -> None:
        """Handle what has arrived; called between layers too."""
        commands = self._channel.commands
        while not commands.empty():  # only this thread takes any
            self._obey(commands.get_nowait())

    def _beat(self) -> None:
        if self._stalls is not None:
            self._stalls.beat()

    def _stalled(self, silent_s: float) -> None:
        """End this process, which hangs in the driver; called in another thread."""
        sentence = (
            f"The graphics card has not answered for {silent_s:.0f} seconds; the model is started again. "
            "If this comes back, install a newer driver, or let the processor compute (setting: ops)."
        )
        distrust(silent_s)
        self._channel.end_with(Failed("gpu_stalled", sentence, {"seconds": round(silent_s)}))

    def _between_layers(self) -> None:
        self._beat()
        self._outbox.flush()
        self._obey_all()
        self._give_back_if_low()
        self._show_life()

    def _send(self, message: Message) -> None:
        self._outbox.add(message)
        self._outbox.flush()

    def _report_status(self, scheduler: Scheduler) -> None:
        self._send(scheduler.status(self._process.memory_info().rss))

    def _obey(self, command: Message) -> None:
        match command:
            case Load(config):
                self._load(config)
            case Quit():
                self._is_quitting = True
                if self._scheduler is not None:
                    self._scheduler.close()
                    self._outbox.flush()
            case Start() | Cancel() | Force() | Hold() | StatusQuery() if (
                self._scheduler is not None
            ):
                self._obey_request(self._scheduler, command)
            case _:
                logger.warning("a message of kind %s is not for the worker now", command.kind)

    def _obey_request(
        self, scheduler: Scheduler, command: Start | Cancel | Force | Hold | StatusQuery
    ) -> None:
        match command:
            case Start():
                scheduler.submit(command)
                self._outbox.flush()  # a request that can not run ends at once
            case Cancel(request_id):
                scheduler.cancel(request_id)
                self._outbox.flush()
            case Force(request_id, token_ids):
                scheduler.force(request_id, token_ids)
            case Hold(request_id, is_held):
                scheduler.hold(request_id, is_held=is_held)
            case StatusQuery():
                self._give_back_if_low()
                self._report_status(scheduler)

    def _give_back_if_low(self) -> None:
        if self._guard is not None and self._loaded is not None and self._guard.take_alarm():
            self._loaded.caches.release()

    def _load(self, plain_config: dict[str, object]) -> None:
        if self._loaded is not None:
            raise EngineError("This worker has a model already; start another one.")
        try:
            config = RunConfig.model_validate(plain_config)
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"])
            raise ConfigError(f"The setting {key} cannot be used: {first['msg']}.") from error
        header = read_model_header(config.model_path)
        vocabulary = LazyVocabulary(lambda: GrammarVocabulary.from_metadata(header.metadata))
        # A report is what a worker with nothing to do can be woken up with.
        ahead = GrammarsAhead(vocabulary, lambda: self._channel.commands.put(StatusQuery()))
        self._loaded = load_model(config, self._report, header=header)
        if self._loaded.saves:
            self._channel.quit_patience_s = SAVING_PATIENCE_S
        self._scheduler = Scheduler(
            self._loaded.model,
            self._loaded.limits,
            emit=self._outbox.add,
            between_layers=self._between_layers,
            sessions=self._loaded.sessions,
            constrain=lambda start: AnswerConstraint(start, vocabulary.get()),
            is_ready=ahead.is_ready,
            token_bytes=vocabulary.token_bytes,
            drafting=self._loaded.drafting,
            new_sampler=self._loaded.new_sampler,
            disk_reads=self._loaded.disk_reads,
            tune=self._loaded.model.ops.tune,
        )
        # With experts on the disk, the system pushes pages out all the time.
        has_disk = self._loaded.placement.experts.disk_bytes > 0
        self._guard = MemoryGuard(
            system_watch(watches_stalls=not has_disk),
            lambda: self._channel.commands.put(StatusQuery()),
        )
        self._guard.start()
        if self._loaded.ops.name == "cuda":
            self._stalls = StallWatch(self._stalled)
            self._stalls.start()
        loaded = self._loaded
        ready = Ready(
            *(loaded.limits.context, loaded.ops_label, loaded.fingerprint),
            *(loaded.card_notice, trusted_keys()),
        )
        logger.info("the model is loaded: context %d, operations %s", ready.context, ready.ops)
        self._send(ready)

    def _report(self, phase: str, done_bytes: int, total_bytes: int) -> None:
        self._send(Progress(phase, done_bytes, total_bytes))
