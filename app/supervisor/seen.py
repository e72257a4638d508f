"""What `/status` makes of the state that people see."""

from __future__ import annotations

from app.engine_status import EngineStatus, ServerState
from app.supervisor.reasons import reason_of_code
from app.supervisor.state import Activity, EngineState, LoadProgress, Phase, Reason, ReasonCode

_ACTIVITIES = {
    ServerState.READING: Activity.READING,
    ServerState.THINKING: Activity.THINKING,
    ServerState.ANSWERING: Activity.ANSWERING,
    ServerState.TOOL_CALL: Activity.TOOL_CALL,
}


def state_seen(old: EngineState, status: EngineStatus) -> EngineState:
    """The state after an answer; what the answer does not tell stays as it was."""
    phase, reason, progress = Phase.READY, None, None
    activity = Activity.NONE
    if status.state is ServerState.LOADING:
        phase = Phase.LOADING
        if status.loading is not None:
            loading = status.loading
            progress = LoadProgress(loading.phase, loading.done_bytes, loading.total_bytes)
    elif status.state is ServerState.FAILED:
        phase, failure = Phase.FAILED, status.failure
        reason = (
            Reason(ReasonCode.UNKNOWN)
            if failure is None
            else reason_of_code(failure.code, failure.message, failure.params)
        )
    elif status.state in _ACTIVITIES:
        phase, activity = Phase.BUSY, _ACTIVITIES[status.state]
    if old.activity is Activity.RELEASING and phase in {Phase.READY, Phase.LOADING}:
        activity = Activity.RELEASING
    return EngineState(
        phase=phase,
        progress=progress,
        reason=reason,
        model=status.model or old.model,
        base_url=old.base_url,
        activity=activity,
        is_loaded=status.is_loaded,
        pid=old.pid,
        is_adopted=old.is_adopted,
        queued=status.queued,
    )
