"""Requests that have not begun: in which order they do, and what is refused at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from engine.worker.messages import Start


class WaitingRequests:
    """A queue of requests; one that cannot begin yet does not hold up those behind it."""

    def __init__(self, context: int, vocab_size: int, is_ready: Callable[[Start], bool]) -> None:
        """Begin empty.

        Args:
            context: tokens of one request, prompt and answer.
            vocab_size: token ids are below this.
            is_ready: whether a request can begin.
        """
        self._context = context
        self._vocab_size = vocab_size
        self._is_ready = is_ready
        self._starts: deque[Start] = deque()
        self._forced: dict[str, deque[int]] = {}  # that shall follow their first tokens

    def __len__(self) -> int:
        return len(self._starts)

    def objection(self, start: Start) -> str:
        """Why a request can never run, in a sentence; empty = it can."""
        if not start.prompt or start.max_tokens < 1:
            return "A request needs at least one prompt token and room for one more."
        forced = (*start.rescue_ids, *start.budget_ids, *(i for i, _ in start.sampling.logit_bias))
        if not (self.are_known(start.prompt) and self.are_known(forced)):
            return f"A token id is not in the model's vocabulary of {self._vocab_size} tokens."
        if len(start.prompt) >= self._context:
            return (
                f"The prompt has {len(start.prompt)} tokens, but the context is {self._context}; "
                "shorten it, or start with a larger context."
            )
        return ""

    def are_known(self, token_ids: Sequence[int]) -> bool:
        """Whether the model has all these tokens."""
        return not token_ids or (min(token_ids) >= 0 and max(token_ids) < self._vocab_size)

    def add(self, start: Start) -> None:
        """Queue a request."""
        self._starts.append(start)

    def next(self) -> Start | None:
        """The request that has waited longest of those that can begin."""
        if not self._starts:  # asked before every token
            return None
        return next((start for start in self._starts if self._is_ready(start)), None)

    def force(self, request_id: str, token_ids: Iterable[int]) -> None:
        """Let tokens follow the first one of an answer; unknown requests are ignored."""
        if any(start.request_id == request_id for start in self._starts):
            self._forced.setdefault(request_id, deque()).extend(token_ids)

    def take(self, start: Start) -> deque[int]:
        """Take a request out; the tokens that shall follow its first one."""
        self._starts.remove(start)
        return self._forced.pop(start.request_id, deque())

    def cancel(self, request_id: str) -> bool:
        """Take a request out that nobody wants any more; whether it was there."""
        for start in self._starts:
            if start.request_id == request_id:
                self.take(start)
                return True
        return False

    def ids(self) -> list[str]:
        """Of all that wait."""
        return [start.request_id for start in self._starts]
