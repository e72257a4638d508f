"""The run config: everything that one installed model is run with.

One pydantic model is the only place where a setting is declared: its keys are the keys of the config
file, the flags of `serve`, `run` and `bench` (`kv_type` is `--kv-type`), and the rows of
`docs/config.md`. Unknown keys are kept when a config is read and written, and warned about at start.
"""

from __future__ import annotations

import enum
import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from engine.core.config_gpus import AUTO_GPUS, GpuNames
from engine.core.config_mcp import McpServerConfig, McpSettings
from engine.core.kv_type import KvType
from engine.core.setting_paths import UsablePath

CONFIG_FORMAT: Literal[1] = 1

# The model that comes with the program, so that a machine without network has one.
BUNDLED_MODEL = Path(__file__).resolve().parents[2] / "assets" / "models" / "stratum-tiny.gguf"

_SHARD_SUFFIX = re.compile(r"-\d{5}-of-\d{5}$")


class OpsName(enum.StrEnum):
    """Which implementation of the operations runs the model."""

    AUTO = "auto"
    REFERENCE = "reference"
    HOST = "host"
    CUDA = "cuda"


class ExpertMode(enum.StrEnum):
    """Where the experts of a model are while it runs."""

    AUTO = "auto"
    MAPPED = "mapped"
    RESIDENT = "resident"
    BUDGET = "budget"


class LookAhead(enum.StrEnum):
    """When experts are asked for before they are computed with."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


class NgramMode(enum.StrEnum):
    """How the n-gram table is read."""

    AUTO = "auto"
    DIRECT = "direct"
    MAPPED = "mapped"
    RAM = "ram"


class Effort(enum.StrEnum):
    """Thinking levels as clients see them."""

    NONE = "none"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class AnthropicThinking(enum.StrEnum):
    """When requests of the Anthropic protocol that say nothing of thinking get it."""

    WHEN_ASKED = "when_asked"
    ALWAYS = "always"


class SamplingDefaults(BaseModel):
    """Sampling values for requests that give none; null leaves the model's published value."""

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False)

    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=0)] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    repetition_penalty: Annotated[float, Field(gt=0, le=2)] | None = None


class RunConfig(BaseModel):
    """Settings of one run. Defaults suit a PC with one user."""

    model_config = ConfigDict(
        extra="allow", frozen=True, validate_default=True, allow_inf_nan=False
    )

    format: Literal[1] = Field(
        default=CONFIG_FORMAT, description="Format of this file; a newer one is refused."
    )

    # -- model -----------------------------------------------------------------------------------
    model: UsablePath | None = Field(
        default=None,
        description="Model file (GGUF); any shard of a split model. Default: the bundled model.",
    )
    mtp_file: UsablePath | None = Field(
        default=None,
        description="File with the draft head (MTP layer) for a model that brings none itself. "
        "Default: what the model file has.",
    )
    model_id: str | None = Field(
        default=None, description="Name under which the model is served. Default: the file's name."
    )
    aliases: tuple[str, ...] = Field(
        default=(), description="Further names in the model list, comma-separated as a flag."
    )
    context: Annotated[int, Field(ge=16)] | None = Field(
        default=None,
        description="Context length in tokens, prompt and answer together. "
        "Default: the smaller of what the model was trained for and 32768.",
    )

    # -- computing -------------------------------------------------------------------------------
    ops: OpsName = Field(
        default=OpsName.AUTO,
        description="Implementation of the operations: `auto` takes a graphics card that passed its check "
        "on this PC, else the fastest of the processor.",
    )
    reproducible: bool = Field(
        default=False,
        description="An answer depends on the request, its seed, the model and the version alone, not on what "
        "is kept warm, drafted or answered beside it. On the processor that holds anyway; a graphics card "
        "computes what its cache has just then, so it is not used, and answers may take longer.",
    )
    threads: Annotated[int, Field(ge=0, le=1024)] = Field(
        default=0,
        description="Threads of the CPU kernels; 0 = one for each physical core, less on processors "
        "with many slow cores and in containers with a limit.",
    )
    pin_threads: bool = Field(
        default=False,
        description="Hold each of these threads to one core. For a machine that does nothing else.",
    )
    lock_memory: bool = Field(
        default=False,
        description="Lock the model into memory, so that other programs cannot push parts of it out. "
        "Needs the permission to do so; without it a warning says why and the engine runs on.",
    )
    ngram_mode: NgramMode = Field(
        default=NgramMode.AUTO,
        description="How rows of the n-gram table come from the disk: `direct` reads them early and "
        "past the system's cache, `mapped` leaves it to the system's paging, `ram` holds the whole "
        "table. `auto` is `direct`, or `ram` for a small table or a slow drive if memory is free.",
    )
    ngram_cache_rows: Annotated[int, Field(ge=16, le=100_000_000)] = Field(
        default=1_000_000,
        description="Rows of the n-gram table that `direct` keeps in memory, about 95 bytes each.",
    )
    expert_mode: ExpertMode = Field(
        default=ExpertMode.AUTO,
        description="Where experts are: `mapped` leaves them to the system's file cache, `resident` "
        "keeps all of them in memory, `budget` those that are used most. `auto` is `mapped`.",
    )
    expert_ram_mib: Annotated[int, Field(ge=0)] | None = Field(
        default=None,
        description="Memory in MiB for the experts that `budget` keeps. Default: 80 % of what "
        "everything else leaves free.",
    )
    expert_look_ahead: LookAhead = Field(
        default=LookAhead.AUTO,
        description="Ask the disk for experts as soon as they are known, and for those that the next "
        "layer will probably want; `auto` does so when memory does not hold all of them.",
    )
    expert_profile: UsablePath | None = Field(
        default=None,
        description="File with counts of which experts are used. Default: this model's in the data "
        "folder.",
    )
    expert_profile_learn: bool = Field(
        default=False,
        description="Count which experts are used, and write the counts when the model is unloaded. "
        "The file holds no text.",
    )
    gpus: GpuNames = Field(
        default=AUTO_GPUS,
        description="NVIDIA cards that compute, by the numbers of `nvidia-smi` or the UUIDs of "
        "`nvidia-smi -L`; several share the layers of the model. `auto` takes those that make answers "
        "faster, and leaves out what cannot be used; cards that are named are all used.",
    )
    pcie_frac: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.0,
        description="Share of the experts that the graphics card lacks which is copied to it and computed "
        "there, instead of on the processor.",
    )
    expert_vram_mib: Annotated[int, Field(ge=0)] | None = Field(
        default=None,
        description="Graphics memory in MiB for experts, of all cards together. Default: all that is left "
        "beside the reserve.",
    )
    vram_reserve_mib: Annotated[int, Field(ge=0)] | None = Field(
        default=None,
        description="Graphics memory in MiB that is left to other programs, on each card, also to those that are "
        "started later. Default: 700, or 1500 where a screen may hang on the card.",
    )
    kv_type: KvType = Field(
        default=KvType.F16,
        description="Number format of the KV cache; `i8` takes about half of what `f16` does, and needs a "
        "graphics card that computes.",
    )
    kv_vram_tokens: Annotated[int, Field(ge=0)] | None = Field(
        default=None,
        description="Tokens whose keys and values stay in graphics memory; those of all others lie in RAM, "
        "where the card reads them over the bus. Default: those of one full context, as far as "
        "everything else leaves room for them; more only where all experts fit too.",
    )
    requant: bool = Field(
        default=False,
        description="Hold stream projections that the file keeps in 16 or 32 bits as Q8_0: "
        "faster, with a small change of the output; takes memory of its own and some seconds.",
    )
    prompt_chunk: Annotated[int, Field(ge=1, le=8192)] | None = Field(
        default=None,
        description="Prompt tokens computed in one pass; also bounds workspaces. Default: 256 on the "
        "processor; on a graphics card 256 to 8192, as its memory and the bus make prompts and answers "
        "fastest together.",
    )
    parallel: Annotated[int, Field(ge=1, le=16)] = Field(
        default=4, description="Requests that decode together; others wait."
    )
    prompt_slice_ms: Annotated[int, Field(ge=1, le=60_000)] = Field(
        default=100,
        description="How long a running answer waits for its next token while another request's "
        "prompt is read, in milliseconds. More reads prompts faster, less keeps answers fluent.",
    )

    # -- drafts ----------------------------------------------------------------------------------
    spec_lookup: bool = Field(
        default=True,
        description="Guess the next tokens from what the conversation already holds. Guesses are "
        "verified: they make answers faster where text is repeated, and never change them.",
    )
    spec_mtp: Annotated[int, Field(ge=0, le=8)] = Field(
        default=3,
        description="Most tokens in a row that the model's draft head (MTP) may guess; 0 = none.",
    )
    spec_min_p: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.0,
        description="The draft head stops guessing at a token that it gives a smaller probability.",
    )
    spec_vocabulary: str = Field(
        default="all",
        description="Tokens that the draft head may guess: `all`, those of a script (`en`, `cjk`, "
        "`cyrillic`, each with ASCII), or a file of `python -m tools.draft_vocabulary`. Fewer make "
        "each guess cheaper, and leave texts in other scripts without any.",
    )
    spec_ngram: bool = Field(
        default=False,
        description="Guess by which tokens followed the same one to four tokens most often, where "
        "nothing better is known.",
    )
    spec_ngram_file: UsablePath | None = Field(
        default=None,
        description="A corpus for these guesses, made by `engine lookup build` for this model.",
    )
    spec_ngram_learn: bool = Field(
        default=False,
        description="Count what all requests hold for these guesses, and keep the counts in the "
        "data folder. The file holds what was said.",
    )

    # -- sessions --------------------------------------------------------------------------------
    session_cache_mib: Annotated[int, Field(ge=0)] | None = Field(
        default=None,
        description="Memory in MiB that keeps conversations warm, so that a further turn reads only "
        "what is new; 0 = none. Default: the smaller of 8192 and 40 % of what is left free.",
    )
    save_sessions: bool = Field(
        default=False,
        description="Write warm conversations to the data folder when the model is unloaded, and "
        "read them when it is loaded again. The file holds what was said.",
    )
    save_sessions_mib: Annotated[int, Field(ge=1)] = Field(
        default=4096, description="Most disk space in MiB for them, all models together."
    )

    # -- server ----------------------------------------------------------------------------------
    host: str = Field(default="127.0.0.1", description="Address to listen on.")
    port: Annotated[int, Field(ge=0, le=65535)] = Field(
        default=8080, description="Port to listen on; 0 = any free one."
    )
    api_keys: tuple[Annotated[str, StringConstraints(min_length=16)], ...] = Field(
        default=(),
        description="Keys that clients must send, 16 characters or more each. "
        "Needed to listen beyond this machine.",
    )
    allowed_hosts: tuple[str, ...] = Field(
        default=(), description="Further host names that requests may carry."
    )
    trusted_origins: tuple[str, ...] = Field(
        default=(), description="Origins of web pages that may use and control the server."
    )
    cors_origins: tuple[str, ...] = Field(
        default=(), description="Origins of web pages that may generate text (CORS)."
    )
    strict_model: bool = Field(
        default=False, description="Refuse requests that name another model than the served one."
    )
    queue_max: Annotated[int, Field(ge=0, le=256)] = Field(
        default=16, description="Requests that may wait; further ones get 429."
    )
    queue_timeout_s: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description="Longest wait in the queue in seconds; then 503."
    )
    max_body_mib: Annotated[int, Field(ge=1, le=1024)] = Field(
        default=64, description="Largest request body in MiB."
    )
    sse_keepalive_s: Annotated[float, Field(ge=1, le=60)] = Field(
        default=5.0, description="Silence in seconds after which a stream gets a keep-alive."
    )

    # -- loading ---------------------------------------------------------------------------------
    lazy_load: bool = Field(
        default=False, description="Load the model with the first request instead of at start."
    )
    idle_unload_s: Annotated[float, Field(ge=0)] = Field(
        default=0.0,
        description="Seconds without generation after which the model is unloaded; the next "
        "request loads it again. 0 = never.",
    )
    min_free_vram_mib: Annotated[int, Field(ge=0)] = Field(
        default=0,
        description="Refuse to load while less graphics memory is free, in MiB; needs the package "
        "`nvidia-ml-py`. 0 = not checked.",
    )
    before_load: tuple[str, ...] = Field(
        default=(),
        description="Program with its arguments, run before each load (to free a graphics card, "
        "say); loading goes on when it ends with exit status 0.",
    )
    before_load_timeout_s: Annotated[float, Field(gt=0, le=3600)] = Field(
        default=60.0, description="Longest time in seconds that this program may take."
    )

    # -- answers ---------------------------------------------------------------------------------
    sampling: SamplingDefaults = Field(
        default_factory=SamplingDefaults,
        description="Sampling values for requests that give none (a table in the file; "
        "as a flag, JSON).",
    )
    default_reasoning_effort: Effort = Field(
        default=Effort.HIGH, description="Thinking level of requests that name none."
    )
    anthropic_thinking: AnthropicThinking = Field(
        default=AnthropicThinking.WHEN_ASKED,
        description="Whether requests to /v1/messages that name no thinking level think: "
        "`when_asked` does not (Anthropic's own rule), `always` takes the level above.",
    )
    reasoning_budget_tokens: Annotated[int, Field(ge=0)] | None = Field(
        default=None,
        description="Most tokens that one answer may think for; 0 = no limit. A request may ask "
        "for less.",
    )
    fit_max_tokens: bool = Field(
        default=True,
        description="Lower a request's output cap to the room that the context leaves "
        "(said in a header) instead of refusing it.",
    )
    repeat_stop_tokens: Annotated[int, Field(ge=0)] = Field(
        default=256,
        description="End an answer when one token repeats this often in a row; 0 = never.",
    )

    # -- tools and other servers -----------------------------------------------------------------
    mcp_servers: dict[str, McpServerConfig] = Field(
        default_factory=dict,
        description="MCP servers whose tools the chat window, and requests that ask for it, may use "
        "(docs/mcp.md).",
    )
    mcp: McpSettings = Field(
        default_factory=McpSettings, description="Limits of these tools (docs/mcp.md)."
    )
    upstream: str | None = Field(
        default=None,
        description="Base URL of an OpenAI-compatible server, such as http://host:8000/v1, that "
        "answers instead of a model on this machine (docs/scale.md).",
    )
    upstream_key: str | None = Field(
        default=None,
        description="Key that the upstream asks for; as STRATUM_UPSTREAM_KEY in the environment "
        "no other user of the machine sees it.",
    )
    upstream_timeout_s: Annotated[float, Field(ge=1, le=3600)] = Field(
        default=300.0,
        description="Silence of the upstream in seconds after which a request ends with an error.",
    )

    @property
    def model_path(self) -> Path:
        """The model file to run: the configured one, else the bundled one."""
        return self.model if self.model is not None else BUNDLED_MODEL

    @property
    def model_name(self) -> str:
        """The name under which the model is served: `model_id`, else the file's name."""
        return self.model_id or _SHARD_SUFFIX.sub("", self.model_path.stem) or "model"
