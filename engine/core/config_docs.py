"""Write `docs/config.md` from `RunConfig`: `python -m engine.core.config_docs`.

A test compares the committed page with `render()`, so the two cannot drift apart.
"""

from __future__ import annotations

import enum
import json
import sys
from pathlib import Path

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from engine.core.config import RunConfig, SamplingDefaults
from engine.core.config_flags import NOT_FLAGS, flag_name
from engine.core.config_mcp import McpServerConfig, McpSettings
from engine.core.config_words import allowed_values

PAGE = Path(__file__).resolve().parents[2] / "docs" / "config.md"

INTRODUCTION = """\
# Configuration

This page is generated from `engine/core/config.py` by `python -m engine.core.config_docs`.

A run config is a JSON file with the keys below; `serve`, `run`, `bench` and `inspect` take it
with `--config FILE`, and each key is also a flag (`kv_type` is `--kv-type`), which wins over the file:

    {"format": 1, "model": "my-model.gguf", "port": 8081, "sampling": {"temperature": 0.6}}

- A relative `model` or `mtp_file` in a file is looked for beside the file; as a flag, in the current folder.
- Lists are comma-separated as flags, on/off settings are `--fit-max-tokens` and
  `--no-fit-max-tokens`, tables are JSON. An empty text (`--context ""`) puts a default back.
- Keys that this version does not know are kept, and warned about at start (a misspelt one with the
  key that it resembles). A bad value stops the start with exit status 2 and a sentence that names the key.
- A file of a newer format is refused; one of an older format is migrated, and kept as `.bak`.
"""

# What no config file says: the environment, for secrets and for trying things out.
ENVIRONMENT = """
## Environment variables

| variable | meaning |
| --- | --- |
| `STRATUM_API_KEYS` | Keys that `serve` asks for, comma-separated, beside those of `api_keys`. Other users of the machine can read a command line, not this. |
| `STRATUM_API_KEY` | The key that `chat` sends when it has no `--key`. |
| `STRATUM_UPSTREAM_KEY` | The key for `upstream`, when `upstream_key` is not set. |
| `STRATUM_HOME` | A folder for all that Stratum keeps of yours (its data is in `data/`), instead of the system's folders. |
| `STRATUM_LOG` | How much the process that holds the model logs: `INFO` (default), `WARNING`, `DEBUG`. |
| `STRATUM_CPU` | Kernels to use: `avx2`, `avxvnni` or `avx512`, instead of the best that the processor has. |
"""

TABLE_HEAD = "| key | flag | allowed | default | meaning |\n| --- | --- | --- | --- | --- |\n"
SAMPLING_HEAD = "\n## Keys of `sampling`\n\n| key | allowed |\n| --- | --- |\n"
SUB_TABLES: dict[str, type[BaseModel]] = {
    "Keys of `mcp`": McpSettings,
    "Keys of each entry of `mcp_servers`": McpServerConfig,
}
SUB_TABLE_HEAD = "\n## {}\n\n| key | allowed | default | meaning |\n| --- | --- | --- | --- |\n"


def render() -> str:
    """The whole page as Markdown."""
    rows = [_row(key, field) for key, field in RunConfig.model_fields.items()]
    sampling = [
        f"| `{key}` | {allowed_values(field)} |\n"
        for key, field in SamplingDefaults.model_fields.items()
    ]
    return (
        INTRODUCTION
        + "\n## Keys\n\n"
        + TABLE_HEAD
        + "".join(rows)
        + SAMPLING_HEAD
        + "".join(sampling)
        + "".join(_sub_table(title, table) for title, table in SUB_TABLES.items())
        + ENVIRONMENT
    )


def _sub_table(title: str, table: type[BaseModel]) -> str:
    rows = (
        f"| `{key}` | {allowed_values(field)} | {_default(field)} | {field.description} |\n"
        for key, field in table.model_fields.items()
    )
    return SUB_TABLE_HEAD.format(title) + "".join(rows)


def _row(key: str, field: FieldInfo) -> str:
    flag = "" if key in NOT_FLAGS else f"`{flag_name(key)}`"
    meaning = (field.description or "").replace("|", "\\|")
    return f"| `{key}` | {flag} | {allowed_values(field)} | {_default(field)} | {meaning} |\n"


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if value is None or value in ((), {}) or isinstance(value, BaseModel):
        return ""
    if isinstance(value, enum.Enum):
        return f"`{value.value}`"
    return f"`{json.dumps(value)}`" if not isinstance(value, str) else f"`{value}`"


def main() -> int:
    """Write the page."""
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(render(), encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
