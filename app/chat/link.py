"""What a conversation needs to know of the engine's process: can it be asked, and if not, why not."""

from __future__ import annotations

from dataclasses import dataclass

from app.chat.activity import Wait
from app.history.records import Problem
from app.supervisor.state import EngineState, Phase


@dataclass(frozen=True, slots=True)
class EngineLink:
    """The engine as a conversation sees it.

    Attributes:
        can_answer: a request would be taken now; it may have to wait for the model.
        wait: what it waits for, if anything.
        load_share: how much of the model is loaded, 0 to 1.
        problem: the engine does not run and will not by itself; None = it may.
        generation: changes when another process answers.
    """

    can_answer: bool = True
    wait: Wait = Wait.NOTHING
    load_share: float = 0.0
    problem: Problem | None = None
    generation: str = ""


def link_of(state: EngineState) -> EngineLink:
    """The same from the supervisor's state."""
    share = state.progress.share if state.progress is not None else 0.0
    generation = f"{state.pid} {state.base_url}"
    match state.phase:
        case Phase.READY | Phase.BUSY:
            return EngineLink(state.can_answer, generation=generation)
        case Phase.LOADING:
            return EngineLink(state.can_answer, Wait.LOADING, share, generation=generation)
        case Phase.STARTING:
            is_again = state.reason is not None
            wait = Wait.RESTARTING if is_again else Wait.STARTING
            return EngineLink(can_answer=False, wait=wait)
        case Phase.FAILED:
            return EngineLink(can_answer=False, wait=Wait.STOPPED, problem=_problem(state))
        case _:
            return EngineLink(can_answer=False, wait=Wait.STOPPED)


def _problem(state: EngineState) -> Problem:
    reason = state.reason
    if reason is None:
        return Problem("engine_failed", "The engine could not be started. Its log says why.")
    detail = reason.detail or "Its log says more."
    return Problem(
        f"engine_{reason.code.value}",
        f"The engine could not be started ({reason.code.value.replace('_', ' ')}). {detail}",
        {**reason.params, "detail": reason.detail, "engine_code": reason.engine_code},
    )
