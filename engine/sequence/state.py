"""A sequence's state: everything that must stand at one common length (spec section 6).

`StateStore` holds the memory of all sequences of a model; `SequenceState` is one of them. A pass
(`begin_pass`, `finish_pass`, both called by the model) changes nothing that counts; `commit(n)` makes
the state that of exactly the first n tokens of it. So a pass can be left anywhere, and drafts that
were not accepted cost nothing but the call. A `Checkpoint` shares pages with the sequence it was
taken from.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.core.errors import InputError, ResourceError
from engine.device.array import host_copy
from engine.memory.idle_pages import forget
from engine.memory.kv_pages import PagePool, PageTable
from engine.ops.base import Ops
from engine.ops.pools import DeltaPool, KvPool, PlePool
from engine.ops.weights import DeltaWeights, PleWeights
from engine.sequence.rope import RopePositions

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int32]


@dataclass(slots=True, eq=False)
class StateStore:
    """State memory of all sequences of one model.

    Attributes:
        ops: the operations that commit parts of passes.
        delta: weights and state of each DeltaNet layer.
        ple: weights and state of the n-gram layers.
        kv: key/value pages of each attention layer, the MTP head's last.
        pages: who holds which page.
        free_slots: slots that no sequence has.
        context: tokens that a sequence may have.
        max_window: rows of a pass that can be committed in part.
        num_tail_tokens: newest token ids that a sequence remembers (n-gram context).
        streams_shape: of a token's residual streams, `(hc, H)`.
    """

    ops: Ops
    delta: list[tuple[DeltaWeights, DeltaPool]]
    ple: list[tuple[PleWeights, PlePool]]
    kv: list[KvPool]
    pages: PagePool
    free_slots: list[int]
    context: int
    max_window: int
    num_tail_tokens: int
    streams_shape: tuple[int, int]

    def fixed_arrays(self, slot: int, half: int) -> list[FloatArray]:
        """Views of one slot's committed fixed-size states, in a constant order."""
        views: list[FloatArray] = []
        for _, delta in self.delta:
            views += [delta.state[slot, half], delta.conv[slot, half]]
        views += [ple.conv[slot, half] for _, ple in self.ple]
        return views

    @property
    def page_bytes(self) -> int:
        """Memory of one page in all layers."""
        return sum(array.nbytes for pool in self.kv for array in pool.page(0))

    def forget_free_pages(self) -> int:
        """Give memory of pages that nobody holds back to the system: how many bytes."""
        free, count = self.pages.free_pages, self.pages.num_pages
        return sum(
            forget(array, free)
            for pool in self.kv
            for array in (getattr(pool, field.name) for field in dataclasses.fields(pool))
            if isinstance(array, np.ndarray) and len(array) == count
        )

    def copy_pages(self, copies: list[tuple[int, int]]) -> None:
        """Copy pages in every layer: (from, to) pairs."""
        if copies and any(pool.far is not None for pool in self.kv):
            self.ops.synchronize()  # far pages are copied by the host, which sees no order of the card's
        for source, target in copies:
            for pool in self.kv:
                for values, to in zip(pool.page(source), pool.page(target), strict=True):
                    to[...] = values


@dataclass(slots=True, eq=False)
class Checkpoint:
    """A sequence's state at one length, independent of what the sequence does afterwards.

    Its pages are where those of sequences are; the rest lies on the host.
    """

    length: int
    token_tail: tuple[int, ...]
    mtp_length: int
    mtp_base: int
    rope: RopePositions
    pages: PageTable
    fixed: list[FloatArray]
    last_streams: FloatArray | None

    @property
    def num_bytes(self) -> int:
        """Memory of the fixed-size part; pages are counted by their pool."""
        streams = 0 if self.last_streams is None else self.last_streams.nbytes
        return sum(a.nbytes for a in self.fixed) + streams

    def release(self) -> None:
        """Give the pages back; idempotent. The checkpoint cannot be restored afterwards."""
        self.pages.release()
        self.fixed = []


@dataclass(slots=True, eq=False)
class OpenPass:
    """A sequence's part of a pass, from its begin to its commit.

    Attributes:
        token_ids: its rows.
        streams: once it is finished, those `[n, hc, H]` after which it can be committed: of all rows
            if they fit into a window, else of the last one.
    """

    token_ids: Sequence[int]
    streams: FloatArray | None = None


class SequenceState:
    """One sequence: a slot of the fixed-size states, pages, and the length they all stand at.

    Attributes:
        slot: of the fixed-size states.
        half: which half of the slot is the committed one.
        length: committed tokens.
        token_tail: the newest committed token ids, oldest first, for the n-gram layer.
        mtp_length: where the MTP head's cache ends; entry i is made from token i's streams and
            token i + 1.
        mtp_base: where it begins, at a page's start; the head does not look further back.
        last_streams: streams `[hc, H]` of the newest committed token, None before the first.
        rope: rotary positions of all tokens.
        pages: key/value pages.
    """

    def __init__(self, store: StateStore) -> None:
        if not store.free_slots:
            raise ResourceError(
                "All places for running conversations are taken; wait for one to end, or start "
                "with a higher number of parallel requests.",
                code="no_free_slot",
            )
        self._store = store
        self.slot = store.free_slots.pop()
        self.half = 0
        self.length = 0
        self.token_tail: tuple[int, ...] = ()
        self.mtp_length = 0
        self.mtp_base = 0
        self.last_streams: FloatArray | None = None
        self.rope = RopePositions()
        self.pages = PageTable(store.pages)
        self._pass: OpenPass | None = None
        self._released = False
        for view in store.fixed_arrays(self.slot, 0):
            view[...] = 0.0

    @property
    def fixed_bytes(self) -> int:
        """What a checkpoint's fixed-size part would take."""
        streams = 0 if self.last_streams is None else self.last_streams.nbytes
        fixed = self._store.fixed_arrays(self.slot, self.half)
        return sum(view.nbytes for view in fixed) + streams

    # -- passes, called by the model -------------------------------------------------------------

    def begin_pass(self, token_ids: Sequence[int], rope_positions: IntArray | None) -> OpenPass:
        """Make room for a pass over these tokens; an earlier uncommitted pass is forgotten.

        Raises:
            InputError: the context would be exceeded.
            ResourceError: no pages are left.
        """
        self._require_alive()
        if self._pass is not None:
            self.abandon_pass()
        store, first = self._store, self.length
        stop = first + len(token_ids)
        if stop > store.context:
            raise InputError(
                f"The conversation would have {stop} tokens, but the context is "
                f"{store.context}; shorten it, or start with a larger context.",
                code="context_exceeded",
                params={"tokens": stop, "context": store.context},
            )
        copies = self.pages.make_writable(first, stop)
        if copies:
            store.copy_pages(copies)
        self.rope.extend(len(token_ids), rope_positions)
        self._pass = OpenPass(token_ids)
        return self._pass

    def is_open(self, opened: OpenPass) -> bool:
        """Whether this pass is the sequence's newest, and the sequence still there."""
        return self._pass is opened

    def finish_pass(self, streams: FloatArray) -> None:
        """The pass has run through all layers and can be committed.

        Args:
            streams: `[n, hc, H]`, see `OpenPass`; they are kept, and must not change afterwards.
        """
        if self._pass is None:
            raise RuntimeError("no pass was begun")
        self._pass.streams = streams

    def abandon_pass(self) -> None:
        """Forget a pass that was not committed."""
        if self._pass is not None:
            self._pass = None
            self._trim()

    def _trim(self) -> None:
        self.rope.truncate(self.length)
        self.pages.truncate(max(self.length, self.mtp_length))

    # -- the committed state ---------------------------------------------------------------------

    def commit(self, num_tokens: int) -> None:
        """Make the state that of exactly the first `num_tokens` of the last pass.

        Args:
            num_tokens: all rows of that pass, or fewer if it had at most `max_window` rows; 0
                leaves the state as it was.
        """
        done = self._pass
        if done is None or done.streams is None:
            raise RuntimeError("there is no finished pass to commit")
        token_ids, streams = done.token_ids, done.streams
        num_rows = len(token_ids)
        if not 0 <= num_tokens <= num_rows:
            raise ValueError(f"cannot commit {num_tokens} of {num_rows} tokens")
        store = self._store
        if 0 < num_tokens < num_rows:
            if num_rows > store.max_window:
                raise ValueError(f"a pass of {num_rows} tokens can be committed only as a whole")
            store.ops.commit_states(store.delta, store.ple, self.slot, self.half, num_tokens)
        if num_tokens:
            self.half = 1 - self.half
            self.length += num_tokens
            self.last_streams = streams[num_tokens - 1 if len(streams) == num_rows else -1]
            keep = store.num_tail_tokens
            if keep:
                newest = map(int, token_ids[max(0, num_tokens - keep) : num_tokens])
                self.token_tail = (*self.token_tail, *newest)[-keep:]
        self._pass = None
        if num_tokens < num_rows:
            self._trim()

    def begin_mtp(self, num_entries: int) -> None:
        """Make room for entries of the MTP head behind `mtp_length`.

        Raises:
            InputError: the context would be exceeded.
            ResourceError: no pages are left.
        """
        self._require_alive()
        stop = self.mtp_length + num_entries
        if stop > self._store.context:
            raise InputError(
                f"Drafting would reach token {stop}, but the context is {self._store.context}.",
                code="context_exceeded",
            )
        self._store.copy_pages(self.pages.make_writable(self.mtp_length, stop))

    def restart_mtp(self, base: int) -> None:
        """Forget the MTP head's entries; the next one is of token `base`, a page's first."""
        if base % self._store.pages.page_tokens or base < self.mtp_length:
            raise ValueError(f"the head's cache cannot begin anew at {base}")
        self.mtp_base = self.mtp_length = base

    def truncate_mtp(self, length: int) -> None:
        """Throw away the MTP head's entries from position `length` on (those made by drafting)."""
        if not self.mtp_base <= length <= self.mtp_length:
            raise ValueError(f"cannot shorten {self.mtp_length} entries to {length}")
        self.mtp_length = length
        if self._pass is None:
            self.pages.truncate(max(self.length, self.mtp_length))

    def snapshot(self) -> Checkpoint:
        """The committed state, to be restored any number of times, here or in another sequence."""
        self._require_alive()
        rope = self.rope.copy()
        rope.truncate(self.length)
        # What follows another time is not known: the newest token's entry is made of that too.
        mtp_length = max(self.mtp_base, min(self.mtp_length, self.length - 1))
        return Checkpoint(
            length=self.length,
            token_tail=self.token_tail,
            mtp_length=mtp_length,
            mtp_base=self.mtp_base,
            rope=rope,
            pages=self.pages.fork(max(self.length, self.mtp_length)),
            fixed=[host_copy(view) for view in self._store.fixed_arrays(self.slot, self.half)],
            last_streams=None if self.last_streams is None else host_copy(self.last_streams),
        )

    def restore(self, checkpoint: Checkpoint) -> None:
        """Make the state that of the checkpoint, which stays as it is."""
        self._require_alive()
        self._pass = None
        pages = checkpoint.pages.fork(max(checkpoint.length, checkpoint.mtp_length))
        self.pages.release()
        self.pages = pages
        self.half = 0
        for view, saved in zip(
            self._store.fixed_arrays(self.slot, 0), checkpoint.fixed, strict=True
        ):
            view[...] = saved
        self.length = checkpoint.length
        self.token_tail = checkpoint.token_tail
        self.mtp_length = checkpoint.mtp_length
        self.mtp_base = checkpoint.mtp_base
        self.rope = checkpoint.rope.copy()
        last = checkpoint.last_streams
        self.last_streams = None if last is None else last.copy()

    def release(self) -> None:
        """Give slot and pages back; idempotent."""
        if self._released:
            return
        self._released = True
        self._pass = None
        self.pages.release()
        self._store.free_slots.append(self.slot)

    def _require_alive(self) -> None:
        if self._released:
            raise RuntimeError("the sequence was released")
