"""The text side of the served model: name, tokenizer, chat template, context (no weights).

The front opens the model file's header itself, so a file that cannot be used is refused before a
worker is started, and prompts are counted and checked without one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.core.config import RunConfig
from engine.core.errors import ModelFileError
from engine.core.gguf_header import ModelHeader, read_model_header
from engine.core.machine import probe_machine
from engine.core.placement import place_on_cpu, require_private_memory
from engine.text.prompt import ChatFormat
from engine.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class ModelSide:
    """What the front knows of the model.

    Attributes:
        name: the id under which it is served; `aliases` are its further names.
        file_name: of the first file, without its folder.
        created: Unix time of the file.
        chat: renders messages to token ids.
        context: the context that is planned; the worker may come to a smaller one.
        trained_context: what the model was trained for.
    """

    name: str
    aliases: tuple[str, ...]
    file_name: str
    created: int
    tokenizer: Tokenizer
    chat: ChatFormat
    context: int
    trained_context: int

    def knows(self, name: str) -> bool:
        """Whether the name is one of the model's."""
        return name == self.name or name in self.aliases


def open_model_side(config: RunConfig, path: Path, context: int | None) -> ModelSide:
    """Read the header of a model file and build its tokenizer and chat template.

    Args:
        config: names and context.
        path: any file of the model.
        context: given by a script; None takes what placement gives the model on this machine.

    Raises:
        ModelFileError: the file cannot be used.
        ConfigError: the configured context is longer than the model's.
        ResourceError: this machine has too little memory.
    """
    header = read_model_header(path)
    if context is None:  # the worker will place it in the same way
        machine = probe_machine()
        placement = place_on_cpu(machine, header, config)
        require_private_memory(placement, machine)
        context = placement.context
    chat = ChatFormat.from_metadata(header.metadata, header.paths[0].name)
    return ModelSide(
        name=config.model_name,
        aliases=tuple(alias for alias in config.aliases if alias != config.model_name),
        file_name=header.paths[0].name,
        created=int(header.paths[0].stat().st_mtime),
        tokenizer=chat.tokenizer,
        chat=chat,
        context=context,
        trained_context=_trained_context(header),
    )


def _trained_context(header: ModelHeader) -> int:
    architecture = header.metadata.get("general.architecture")
    value = header.metadata.get(f"{architecture}.context_length")
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ModelFileError(
            f"The model file {header.paths[0].name} does not say its context length "
            f"({architecture}.context_length). Use another model file."
        )
    return value
