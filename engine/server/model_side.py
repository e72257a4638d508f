"""The text side of the served model: name, tokenizer, chat template, context (no weights).

The front opens the model file's header itself, so a file that cannot be used is refused before a
worker is started, and prompts are counted and checked without one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.core.config import RunConfig
from engine.core.draft_head_file import read_draft_head
from engine.core.errors import ModelFileError
from engine.core.gguf_header import ModelHeader, read_model_header
from engine.core.machine import probe_machine
from engine.core.placement import place_on_cpu, require_private_memory
from engine.server.errors import ApiError
from engine.text.prompt import ChatFormat
from engine.text.tokenizer import Tokenizer

MAX_VOCAB = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ModelSide:
    """What the front knows of the model.

    Attributes:
        name: the id under which it is served; `aliases` are its further names.
        file_name: of the first file, without its folder.
        created: Unix time of the file.
        chat_format: renders messages to token ids; None when another server has the model.
        context: the context that is planned; the worker may come to a smaller one.
        trained_context: what the model was trained for.
    """

    name: str
    aliases: tuple[str, ...]
    file_name: str
    created: int
    chat_format: ChatFormat | None
    context: int
    trained_context: int

    @property
    def chat(self) -> ChatFormat:
        """Template and tokenizer.

        Raises:
            ApiError: 400: another server has the model.
        """
        if self.chat_format is None:
            raise ApiError(
                400,
                "unsupported_value",
                "This server passes requests on to another one and has no model of its own, so it "
                "cannot do this.",
            )
        return self.chat_format

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer; an error as for `chat`."""
        return self.chat.tokenizer

    @property
    def vocab_size(self) -> int:
        """Token ids are below it; another server's model may have any."""
        return self.chat_format.tokenizer.vocab_size if self.chat_format is not None else MAX_VOCAB

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
        head = read_draft_head(config, header)
        placement = place_on_cpu(machine, header, config, draft_head=head)
        require_private_memory(placement, machine)
        context = placement.context
    chat = ChatFormat.from_metadata(header.metadata, header.paths[0].name)
    return ModelSide(
        name=config.model_name,
        aliases=tuple(alias for alias in config.aliases if alias != config.model_name),
        file_name=header.paths[0].name,
        created=int(header.paths[0].stat().st_mtime),
        chat_format=chat,
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
