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
from engine.text.prompt import ChatFormat
from engine.text.template import ChatTemplate
from engine.text.tokenizer import Tokenizer

# Context of a run whose config names none: more costs memory that most chats never use.
DEFAULT_CONTEXT = 32768


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
        context: given by a script; None takes the config's or the model's.

    Raises:
        ModelFileError: the file cannot be used.
    """
    header = read_model_header(path)
    tokenizer = Tokenizer.from_metadata(header.metadata)
    trained = _trained_context(header)
    planned = context or config.context or min(trained, DEFAULT_CONTEXT)
    return ModelSide(
        name=config.model_name,
        aliases=tuple(alias for alias in config.aliases if alias != config.model_name),
        file_name=header.paths[0].name,
        created=int(header.paths[0].stat().st_mtime),
        tokenizer=tokenizer,
        chat=ChatFormat(tokenizer, ChatTemplate(_template_source(header))),
        context=min(planned, trained) if context is None else context,
        trained_context=trained,
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


def _template_source(header: ModelHeader) -> str:
    source = header.metadata.get("tokenizer.chat_template")
    if not isinstance(source, str):
        raise ModelFileError(
            f"The model file {header.paths[0].name} has no chat template "
            "(tokenizer.chat_template), so it cannot chat. Use an instruction-tuned model file."
        )
    return source
