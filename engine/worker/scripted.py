"""The script of a scripted worker: which answers it gives, how fast, and what goes wrong.

`serve --script FILE.json` puts a worker that plays such a file below the real front; the format is
described in docs/how-it-works/scripted-worker.md. This module reads and checks it; `script_player`
plays it.
"""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from engine.core.config import BUNDLED_MODEL
from engine.core.errors import InputError
from engine.core.files import read_json_value

_FORMAT_PAGE = "docs/how-it-works/scripted-worker.md"

Milliseconds = Annotated[float, Field(ge=0, le=3_600_000)]


class FaultKind(enum.StrEnum):
    """What goes wrong."""

    CRASH = "crash"  # the process ends without a word
    HANG = "hang"  # the process says nothing more and answers nothing
    GARBAGE = "garbage"  # a line that is no message, as from a stray print
    ERROR = "error"  # the request ends with an error, the worker goes on


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Fault(_Part):
    """Something that goes wrong after so many tokens of an answer (0: after the prompt)."""

    kind: FaultKind
    after: Annotated[int, Field(ge=0)] = 0
    message: str = "The script says that this request fails."
    exit_status: int = 70


class LoadScript(_Part):
    """How loading goes."""

    delay_ms: Milliseconds = 0
    steps: Annotated[int, Field(ge=1, le=1000)] = 4
    fail_code: str | None = None
    fail_message: str = "The script says that the model cannot be loaded."
    is_crash: bool = Field(default=False, alias="crash")


class Answer(_Part):
    """One answer. Exactly one of text, pieces and token_ids says what it consists of."""

    when: str | None = None
    times: Annotated[int, Field(ge=0)] = 1
    text: str | None = None
    pieces: tuple[str, ...] | None = None
    token_ids: tuple[Annotated[int, Field(ge=0)], ...] | None = None
    after_force: str | None = None
    finish: Literal["stop", "length", "context", "repeat"] = "stop"
    group: Annotated[int, Field(ge=1)] = 1
    delay_ms: Milliseconds = 0
    prompt_delay_ms: Milliseconds = 0
    prompt_steps: Annotated[int, Field(ge=1, le=10_000)] = 1
    cached_tokens: Annotated[int, Field(ge=0)] = 0
    settings: dict[str, float] = {}
    generated_ms: Milliseconds | None = None
    fault: Fault | None = None

    @model_validator(mode="after")
    def _has_one_content(self) -> Answer:
        given = [self.text, self.pieces, self.token_ids]
        if sum(content is not None for content in given) != 1:
            raise ValueError("needs exactly one of text, pieces and token_ids")
        return self


class Script(_Part):
    """A whole script. `model` names the GGUF whose tokenizer and template the front uses."""

    format: Literal[1]
    model: Path | None = None
    context: Annotated[int, Field(ge=16)] = 4096
    parallel: Annotated[int, Field(ge=1, le=16)] | None = None
    load: LoadScript = LoadScript()
    answers: tuple[Answer, ...] = ()

    @property
    def model_path(self) -> Path:
        """The model file: the named one, else the bundled one."""
        return self.model if self.model is not None else BUNDLED_MODEL


def load_script(path: Path) -> Script:
    """The script in a file; a relative `model` is taken from the script's folder.

    Raises:
        InputError: the file cannot be read or is no script.
    """
    content = read_json_value(path, f"write a script as {_FORMAT_PAGE} describes it")
    try:
        script = Script.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the whole"
        raise InputError(
            f"The script {path} cannot be used: {where}: {first['msg']}. "
            f"{_FORMAT_PAGE} describes the format."
        ) from error
    if script.model is not None:
        script = script.model_copy(update={"model": path.resolve().parent / script.model})
    return script
