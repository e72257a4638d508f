"""What the settings that are left to the program come to on this machine: the values behind "auto".

The engine that runs is asked (`/props`, `/status`); what it does not say comes from the same placement
that it uses. Blocks: use it off the main thread.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from app.engine_http import EngineHttp, EngineHttpError
from app.model_report import ModelReport
from engine.core.config import RunConfig
from engine.core.topology import default_threads_here

logger = logging.getLogger(__name__)

_SAMPLING = (
    *("temperature", "top_p", "top_k", "min_p"),
    *("presence_penalty", "frequency_penalty", "repetition_penalty"),
)


def ask_engine(http: EngineHttp) -> tuple[Mapping[str, object], Mapping[str, object]]:
    """`/props` and `/status` of the engine that runs; empty ones when none does."""
    try:
        return http.get("/props", read_timeout_s=5.0), http.get("/status", read_timeout_s=5.0)
    except EngineHttpError as error:
        logger.debug("nothing is known of a running engine: %s", error)
        return {}, {}


def resolved_values(
    config: RunConfig,
    props: Mapping[str, object],
    status: Mapping[str, object],
    report: ModelReport | None,
) -> dict[str, str]:
    """What each key that is left to the program comes to, by key; unknown ones are not there.

    Args:
        config: as it is saved.
        props: of the engine that runs; empty when none does.
        status: the same.
        report: of the model on this machine.
    """
    found: dict[str, str] = {}
    defaults = _table(props, "default_generation_settings")
    if config.context is None:
        context = defaults.get("n_ctx") or (report.context if report is not None else None)
        if context:
            found["context"] = str(context)
    if config.threads == 0:
        found["threads"] = str(default_threads_here())
    ops = status.get("ops")
    if config.ops == "auto" and isinstance(ops, str):
        found["ops"] = ops
    if config.session_cache_mib is None and report is not None:
        num_bytes = report.bytes_of("Warm conversations")
        found["session_cache_mib"] = str(num_bytes >> 20)
    if config.model is None:
        found["model"] = config.model_path.name
    if config.model_id is None:
        name = status.get("model")
        found["model_id"] = name if isinstance(name, str) and name else config.model_name
    params = _table(defaults, "params")
    for name in _SAMPLING:
        value = params.get(name)
        if getattr(config.sampling, name) is None and isinstance(value, int | float):
            found[f"sampling.{name}"] = f"{value:g}"
    return found


def _table(content: Mapping[str, object], key: str) -> Mapping[str, object]:
    value = content.get(key)
    return value if isinstance(value, dict) else {}
