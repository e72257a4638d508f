"""What the person chose in the wizard or on the command line, before anything is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from engine.core.config import Effort
from engine.core.language import Language
from engine.core.setting_paths import UsablePath


class Choices(BaseModel):
    """All choices; None where none was made yet.

    Secrets (an access token, a proxy's password) are not among them: this is written to a file.

    Attributes:
        language: of the texts; None: the system's.
        is_for_agents: whether coding agents will use the model, which takes a long context.
        model_id: of the catalogue.
        context: context length in tokens.
        effort: thinking level of requests that name none.
        data_dir: where models, chats and caches go.
        starts_at_login: whether Stratum starts when the person logs in.
        resumes_at_login: whether an unfinished download goes on after a restart of the PC.
        accepted_licence: address of the licence that was accepted.
        mirror: address of the hub to download from.
        search: folders with model files that the person has already.
        has_draft_head: whether the model's draft head is fetched too.
        max_mb_per_s: limit of the download in megabytes a second.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    language: Language | None = None
    is_for_agents: bool = False
    model_id: str | None = None
    context: Annotated[int, Field(ge=16)] | None = None
    effort: Effort | None = None
    data_dir: UsablePath | None = None
    starts_at_login: bool = False
    resumes_at_login: bool = False
    accepted_licence: str | None = None
    mirror: str | None = None
    search: tuple[Path, ...] = ()
    has_draft_head: bool = True
    max_mb_per_s: Annotated[float, Field(gt=0)] | None = None
