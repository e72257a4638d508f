"""What do drafts give? Copying, editing code and chatting with them and without, turn about.

    python -m bench.drafts --rounds 5
    python -m bench.drafts --model SYNTHETIC.gguf --scripted 0.0 0.5 0.9

The answers must be the same, token for token; a difference ends the run. Both sides use one loaded
model, so they share its memory and whatever else the machine does. `--scripted` replaces the
drafters by one that knows the answer and is right with the given probability: for models whose
weights are random, to see that the controller wins or stays out. On a machine that others use too,
the ratio of the fastest rounds tells more than the median: nothing makes a round faster than it is.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from engine.core.config import BUNDLED_MODEL, RunConfig  # noqa: E402  # needs the path
from engine.decode.draft.costs import PassCosts  # noqa: E402
from engine.decode.draft.drafting import Drafting, DraftSettings  # noqa: E402
from engine.decode.draft.lookup import (  # noqa: E402
    LONGEST_MATCH,
    SHORTEST_MATCH,
    LookupIndex,
)
from engine.decode.draft.policy import DraftPolicy  # noqa: E402
from engine.sequence.running_request import RunningRequest  # noqa: E402
from engine.sequence.scheduler import Scheduler  # noqa: E402
from engine.text.tokenizer import Tokenizer  # noqa: E402
from engine.worker.drafters import make_drafting, model_bytes  # noqa: E402
from engine.worker.loading import LoadedModel, load_model  # noqa: E402
from engine.worker.messages import Done, SamplingParams, Start, Tokens  # noqa: E402

PASSAGE = (
    "The harbour lay quiet in the early morning, and only a few boats had left their moorings. "
    "An old man mended his nets on the stone steps while two children watched the gulls. "
    "Behind them the market opened slowly; crates of fruit were carried from the carts, and the "
    "smell of bread came from the bakery at the corner. Nobody was in a hurry that day. "
)
CODE = """def totals(rows, key):
    result = {}
    for row in rows:
        name = row[key]
        value = row.get("value", 0)
        result[name] = result.get(name, 0) + value
    return result


def report(rows, key):
    result = totals(rows, key)
    lines = []
    for name in sorted(result):
        lines.append(f"{name}: {result[name]}")
    return lines
"""
WORDS = ("river", "dog", "house", "happy", "run", "music", "light", "horse", "city", "bread")


@dataclass(frozen=True, slots=True)
class Workload:
    """Requests that are answered one after the other."""

    name: str
    prompts: tuple[tuple[int, ...], ...]
    num_tokens: int  # of each answer


@dataclass(frozen=True, slots=True)
class Answers:
    """What a side wrote, and how fast."""

    token_ids: tuple[tuple[int, ...], ...]
    generated_s: float
    offered: int
    accepted: int

    @property
    def per_s(self) -> float:
        """Tokens per second behind the first of each answer."""
        return sum(len(ids) - 1 for ids in self.token_ids) / self.generated_s


class ScriptedIndex(LookupIndex):
    """Looks up what will be written, and is right with a fixed probability."""

    def __init__(self, answer: Sequence[int], num_prompt: int, right: float) -> None:
        super().__init__()
        self._answer = answer
        self._num_prompt = num_prompt
        self._right = right
        self._draw = random.Random(3)  # noqa: S311  # repeatable, no secret

    @property
    def num_matched(self) -> int:
        """As if a long match had been found."""
        return LONGEST_MATCH

    def draft(self, most: int, least_matched: int = SHORTEST_MATCH) -> list[int]:
        """What comes next, with mistakes."""
        if least_matched > LONGEST_MATCH:
            return []
        written = len(self) - self._num_prompt
        return [
            token if self._draw.random() < self._right else token + 1 if token == 0 else token - 1
            for token in self._answer[written : written + most]
        ]


class ScriptedDrafting(Drafting):
    """Drafts of `ScriptedIndex`, under the controller that serves everybody."""

    def __init__(
        self, policy: DraftPolicy, answers: Mapping[tuple[int, ...], Sequence[int]], right: float
    ) -> None:
        super().__init__(DraftSettings(use_head=False), policy)
        self._answers = answers
        self._right = right

    def begin(self, request: RunningRequest) -> None:
        """A request starts."""
        super().begin(request)
        if request.drafts is not None:
            prompt = request.start.prompt
            request.drafts.index = ScriptedIndex(self._answers[prompt], len(prompt), self._right)


def main(words: Sequence[str] | None = None) -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description="measure drafts against none")
    parser.add_argument("--model", type=Path, default=BUNDLED_MODEL)
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    parser.add_argument("--tokens", type=int, default=300, metavar="N")
    parser.add_argument("--threads", type=int, default=0, metavar="N")
    parser.add_argument("--mtp", type=int, default=3, metavar="N", help="longest chain of the head")
    parser.add_argument(
        "--workloads", nargs="+", choices=("copy", "edit", "chat"), default=("copy", "edit", "chat")
    )
    parser.add_argument("--scripted", type=float, nargs="+", default=(), metavar="P")
    arguments = parser.parse_args(words)
    config = RunConfig(
        model=arguments.model,
        context=4096,
        parallel=1,
        threads=arguments.threads,
        session_cache_mib=0,
        spec_mtp=arguments.mtp,
    )
    loaded = load_model(config)
    try:
        print(
            "| workload | without, tokens/s | with | ratio (rounds) | of the fastest rounds | "
            "drafts offered | accepted |\n"
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
        )
        for workload in _workloads(loaded, arguments.tokens):
            if not workload.name.startswith(tuple(arguments.workloads)):
                continue
            if arguments.scripted:
                for right in arguments.scripted:
                    _compare(loaded, config, workload, arguments.rounds, right)
            else:
                _compare(loaded, config, workload, arguments.rounds)
    finally:
        loaded.close()
    return 0


def _workloads(loaded: LoadedModel, num_tokens: int) -> list[Workload]:
    tokenizer = Tokenizer.from_metadata(loaded.header.metadata)

    def chat(text: str) -> tuple[int, ...]:
        source = (
            f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
        )
        return tuple(tokenizer.encode(source, parse_special=True))

    ask = "Rename result to sums in this function:\n\n"
    return [
        Workload("copy a text", (chat(f"Repeat this text: {PASSAGE}"),), num_tokens),
        # Of the shorter one a third of the answer is a copy; this one is copied to the end.
        Workload("copy a long text", (chat(f"Repeat this text: {PASSAGE * 3}"),), num_tokens),
        Workload("edit code", (chat(ask + CODE),), num_tokens),
        Workload("chat", tuple(chat(f"What does {word} mean?") for word in WORDS), 40),
    ]


def _compare(
    loaded: LoadedModel,
    config: RunConfig,
    workload: Workload,
    rounds: int,
    scripted: float | None = None,
) -> None:
    plain: list[Answers] = [_run(loaded, workload, None)]  # a warm-up, and the script
    drafting = (
        make_drafting(loaded.model, loaded.header, config)
        if scripted is None
        else _scripted(loaded, plain[0], workload, scripted)
    )
    drafted: list[Answers] = [_run(loaded, workload, drafting)]
    for _ in range(rounds):
        plain.append(_run(loaded, workload, None))
        drafted.append(_run(loaded, workload, drafting))
        if plain[-1].token_ids != drafted[-1].token_ids:
            raise SystemExit(f"{workload.name}: drafts changed the answer")
    ratios = [b.per_s / a.per_s for a, b in zip(plain[1:], drafted[1:], strict=True)]
    name = workload.name if scripted is None else f"{workload.name}, right {scripted:.0%}"
    last = drafted[-1]
    print(
        f"| {name} | {statistics.median(a.per_s for a in plain[1:]):.0f} | "
        f"{statistics.median(a.per_s for a in drafted[1:]):.0f} | "
        f"**{statistics.median(ratios):.2f}** ({min(ratios):.2f} to {max(ratios):.2f}) | "
        f"{max(b.per_s for b in drafted[1:]) / max(a.per_s for a in plain[1:]):.2f} | "
        f"{last.offered} | {last.accepted} |",
        flush=True,
    )


def _scripted(
    loaded: LoadedModel, plain: Answers, workload: Workload, right: float
) -> ScriptedDrafting:
    answers = dict(zip(workload.prompts, plain.token_ids, strict=True))
    policy = DraftPolicy(PassCosts(model_bytes(loaded.model, loaded.header)))
    return ScriptedDrafting(policy, answers, right)


def _run(loaded: LoadedModel, workload: Workload, drafting: Drafting | None) -> Answers:
    ids: list[list[int]] = []
    seconds, offered, accepted = 0.0, 0, 0
    for prompt in workload.prompts:
        written: list[int] = []
        ends: list[Done] = []

        def receive(event: object, written: list[int] = written, ends: list[Done] = ends) -> None:
            if isinstance(event, Tokens):
                written.extend(event.token_ids)
            elif isinstance(event, Done):
                ends.append(event)

        scheduler = Scheduler(
            loaded.model,
            loaded.limits,
            receive,
            drafting=drafting,
            new_sampler=loaded.new_sampler,
        )
        sampling = SamplingParams(temperature=0)
        scheduler.submit(
            Start("r", prompt, workload.num_tokens, (), sampling, repeat_stop_tokens=0)
        )
        while scheduler.has_work:
            scheduler.step()
        timings = ends[0].timings
        seconds += timings.generated_ms / 1000
        offered += timings.draft_tokens
        accepted += timings.draft_accepted
        ids.append(written)
    return Answers(tuple(map(tuple, ids)), seconds, offered, accepted)


if __name__ == "__main__":
    raise SystemExit(main())
