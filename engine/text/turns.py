"""Where the turns of a prompt lie among its token ids.

Turns begin and end with tokens that only the template writes (`<|im_start|>`, `<|im_end|>`), so the
ids alone say it, whatever the contents spell. A vocabulary without these tokens has no borders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.text.tokenizer import Tokenizer

_ROLE_TOKENS = 8  # no role's name has more


@dataclass(frozen=True, slots=True)
class PromptBorders:
    """What of a prompt others are likely to begin with too.

    Attributes:
        system_stop: tokens of the system turn; 0 when there is none.
        turn_start: where the last turn begins (the one that the model writes); 0 when unknown.
    """

    system_stop: int = 0
    turn_start: int = 0


def prompt_borders(token_ids: Sequence[int], tokenizer: Tokenizer) -> PromptBorders:
    """The borders of a prompt."""
    im_start = tokenizer.structure.im_start
    if im_start is None:
        return PromptBorders()
    turn_start = next(
        (index for index in range(len(token_ids) - 1, 0, -1) if token_ids[index] == im_start), 0
    )
    system_stop = 0
    if turn_start and token_ids[0] == im_start and role_of(token_ids, 0, tokenizer) == "system":
        system_stop = token_ids.index(im_start, 1)
    return PromptBorders(system_stop, turn_start)


def role_of(token_ids: Sequence[int], turn_start: int, tokenizer: Tokenizer) -> str:
    """The role of the turn whose first token stands at `turn_start`."""
    header = token_ids[turn_start + 1 : turn_start + 1 + _ROLE_TOKENS]
    return tokenizer.decode(header, skip_control=False).split("\n", 1)[0].strip()
