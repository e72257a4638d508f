"""From a conversation to the token ids of its prompt.

A special token is recognised only inside the template's own text; content is tokenized as plain
text, whatever it spells (spec/tools_format.md, T2). The pieces between two special tokens are
joined before they are merged into tokens, across all borders of spans: byte-level BPE looks over
them (a template's newline and a content's first letter can be one pre-token). So for content
without special spellings the ids equal those of the whole text tokenized by the reference, with
special tokens on.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from engine.core.errors import InputError, ModelFileError
from engine.text.messages import normalise_messages
from engine.text.piece_cache import PieceCache
from engine.text.template import ChatTemplate, RenderedPrompt, TemplateOptions
from engine.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """A prompt that is ready for the model.

    Attributes:
        token_ids: the prompt.
        text: the same as text, for people who look for a mistake.
        starts_in_thinking: whether the model's first token belongs to its thinking.
    """

    token_ids: list[int]
    text: str
    starts_in_thinking: bool


class PromptTooLongError(InputError):
    """A prompt is certain to be longer than was allowed; it has `least_tokens` or more."""

    code = "prompt_too_long"

    def __init__(self, least_tokens: int) -> None:
        super().__init__(f"The prompt has at least {least_tokens} tokens. Shorten it.")
        self.least_tokens = least_tokens


def encode_prompt(
    tokenizer: Tokenizer, rendered: RenderedPrompt, cache: PieceCache | None = None
) -> list[int]:
    """The token ids of a rendered prompt.

    Args:
        tokenizer: of the model.
        rendered: the prompt.
        cache: of the same tokenizer, for prompts that have much in common.

    Raises:
        InputError: a content holds millions of blanks in a row.
    """
    encode = tokenizer.encode if cache is None else cache.encode
    ids: list[int] = []
    pending: list[str] = []  # plain text since the last special token
    for piece, special in _pieces(tokenizer, rendered):
        if special is None:
            pending.append(piece)
            continue
        ids += encode("".join(pending))
        pending.clear()
        ids.append(special)
    return ids + encode("".join(pending))


def _pieces(tokenizer: Tokenizer, rendered: RenderedPrompt) -> Iterator[tuple[str, int | None]]:
    # Neighbouring spans of one kind are one text: a template may spell a token in two pieces.
    for is_content, spans in itertools.groupby(rendered.spans, key=lambda span: span.is_content):
        text = "".join(span.text for span in spans)
        if is_content:
            yield text, None
        else:
            yield from tokenizer.split_special(text)


def starts_in_thinking(prompt_ids: Sequence[int], tokenizer: Tokenizer) -> bool:
    """Whether the model continues inside a thinking block.

    Read from the prompt's last turn and not from the request's wishes (T6): some templates close
    the block by themselves. Content cannot deceive it, since content never becomes such a token.
    """
    structure = tokenizer.structure
    for token_id in reversed(prompt_ids):
        if token_id == structure.think:
            return True
        if token_id in (structure.think_end, structure.im_start):
            return False
    return False


class ChatFormat:
    """One model's tokenizer and template together: what a server needs of its text side."""

    def __init__(self, tokenizer: Tokenizer, template: ChatTemplate) -> None:
        self.tokenizer = tokenizer
        self.template = template
        self._pieces = PieceCache(tokenizer.encode)

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, object], file_name: str) -> ChatFormat:
        """The text side of a model file.

        Args:
            metadata: of the file; `tokenizer.ggml.*` and `tokenizer.chat_template` are read.
            file_name: for the sentence when it has none.

        Raises:
            ModelFileError: its tokenizer or its template is missing or cannot be used.
        """
        source = metadata.get("tokenizer.chat_template")
        if not isinstance(source, str):
            raise ModelFileError(
                f"The model file {file_name} has no chat template (tokenizer.chat_template), "
                "so it cannot chat. Use an instruction-tuned model file."
            )
        return cls(Tokenizer.from_metadata(metadata), ChatTemplate(source))

    def prompt(
        self,
        messages: Sequence[Mapping[str, object]],
        tools: Sequence[Mapping[str, object]] | None = None,
        options: TemplateOptions | None = None,
        *,
        answer_start: str = "",
        max_tokens: int | None = None,
    ) -> ChatPrompt:
        """The prompt for OpenAI-shaped messages (they are normalised here).

        Args:
            messages: the conversation.
            tools: declarations as the client sent them.
            options: thinking level and the like.
            answer_start: text that the model goes on from; special tokens in it are plain text.
            max_tokens: refuse a prompt that is certain to be longer without the work of counting.
                One that is returned may be longer still.

        Raises:
            PromptTooLongError: see `max_tokens`.
            InputError: the conversation cannot be rendered (code `template_error`).
        """
        # Whatever the template, a message is at least one token.
        self._check_least(len(messages), max_tokens)
        rendered = self.template.render(normalise_messages(messages), tools=tools, options=options)
        num_chars = len(answer_start) + sum(len(span.text) for span in rendered.spans)
        self._check_least(self.tokenizer.least_tokens(num_chars), max_tokens)
        token_ids = encode_prompt(self.tokenizer, rendered, self._pieces)
        token_ids += self.tokenizer.encode(answer_start)
        return ChatPrompt(
            token_ids=token_ids,
            text=rendered.text,
            starts_in_thinking=starts_in_thinking(token_ids, self.tokenizer),
        )

    def _check_least(self, num_tokens: int, max_tokens: int | None) -> None:
        if max_tokens is not None and num_tokens > max_tokens:
            raise PromptTooLongError(num_tokens)
