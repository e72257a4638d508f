"""What the server counts (spec/api.md section 1, `/metrics`). No text of any request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.core.disk_reads import DiskReads
from engine.server.metrics import Counter, Gauge, Histogram, LabelledGauge, Metric
from engine.worker.messages import Timings

FIRST_TOKEN_BOUNDS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
QUEUE_WAIT_BOUNDS_S = (0.001, 0.01, 0.1, 0.5, 1, 5, 10, 30, 60, 120, 300, 600)


class EngineMetrics:
    """All metrics of one server, in the order in which they are shown."""

    def __init__(self) -> None:
        self.prompt_tokens = Counter("prompt_tokens_total", "Prompt tokens of ended requests.")
        self.prompt_tokens_cached = Counter(
            "prompt_tokens_cached_total", "Prompt tokens that were taken from kept states."
        )
        self.prompt_seconds = Counter("prompt_seconds_total", "Time spent reading prompts.")
        self.generated_tokens = Counter(
            "generated_tokens_total", "Output tokens, thinking included."
        )
        self.generated_seconds = Counter("generated_seconds_total", "Time spent generating.")
        self.requests = Counter("requests_total", "Ended requests.", "protocol", "finish")
        self.request_errors = Counter(
            "request_errors_total", "Requests answered with an error.", "code"
        )
        self.queue_rejected = Counter(
            "queue_rejected_total", "Requests refused because the queue was full."
        )
        self.draft_tokens = Counter("draft_tokens_total", "Tokens that were drafted.")
        self.draft_accepted = Counter("draft_accepted_total", "Drafted tokens that were right.")
        self.drafter_tokens = Counter(
            "drafter_tokens_total", "Tokens that each drafter offered.", "drafter"
        )
        self.drafter_accepted = Counter(
            "drafter_accepted_total", "Tokens of each drafter that were right.", "drafter"
        )
        self.tool_call_broken = Counter(
            "tool_call_broken_total", "Tool calls that the end of the answer cut."
        )
        self.tool_call_stranded = Counter(
            "tool_call_stranded_total", "Undeclared tool calls that were left inside thinking."
        )
        self.disk_reads = Counter(
            "disk_reads_total", "Parts of the model that were read from the disk.", "tier"
        )
        self.disk_bytes = Counter("disk_read_bytes_total", "Bytes of these.", "tier")
        self.disk_hits = Counter(
            "disk_hits_total", "Parts that were in memory when they were wanted.", "tier"
        )
        self.disk_wait = Counter(
            "disk_wait_seconds_total", "How long computing waited for the disk.", "tier"
        )
        self.loads = Counter("loads_total", "Times that the model was loaded.")
        self.unloads = Counter("unloads_total", "Times that the model was unloaded.")
        self.queue_length = Gauge("queue_length", "Requests that wait.")
        self.requests_running = Gauge("requests_running", "Requests that run.")
        self.tokens_per_second = Gauge(
            "tokens_per_second", "Generation speed of all running requests together."
        )
        self.loaded = Gauge("loaded", "Whether the model is loaded (1) or not (0).")
        self.context_used = Gauge("context_used_tokens", "Tokens of running requests.")
        self.sessions_warm = Gauge("sessions_warm", "Conversations that are kept warm.")
        self.session_tokens = Gauge("session_tokens", "Tokens that their states stand for.")
        self.session_bytes = Gauge("session_bytes", "Memory that they take.")
        self.vram_used = Gauge("vram_used_bytes", "Memory in use on all graphics cards.")
        self.card_vram_used = LabelledGauge(
            "card_vram_used_bytes", "Memory in use on each graphics card.", "card", "name"
        )
        self.first_token = Histogram(
            "time_to_first_token_seconds",
            "From admission to the first token.",
            FIRST_TOKEN_BOUNDS_S,
        )
        self.queue_wait = Histogram(
            "queue_wait_seconds", "From admission to the work's begin.", QUEUE_WAIT_BOUNDS_S
        )

    def __iter__(self) -> Iterator[Metric]:
        return iter(vars(self).values())

    def count_timings(self, timings: Timings) -> None:
        """Count what the worker said of one answer; its prompt's tokens are counted elsewhere."""
        self.prompt_seconds.add(timings.prompt_ms / 1000)
        self.generated_seconds.add(timings.generated_ms / 1000)
        self.draft_tokens.add(timings.draft_tokens)
        self.draft_accepted.add(timings.draft_accepted)
        for name, offered, accepted in timings.drafters:
            self.drafter_tokens.add(offered, name)
            self.drafter_accepted.add(accepted, name)

    def take_over_disk(self, reads: Sequence[DiskReads]) -> None:
        """Show what the worker has counted; what it cannot know is left out."""
        for one in reads:
            for counter, value in (
                (self.disk_reads, one.reads),
                (self.disk_bytes, one.num_bytes),
                (self.disk_hits, one.hits),
                (self.disk_wait, one.waited_ms / 1000 if one.waited_ms >= 0 else -1),
            ):
                if value >= 0:
                    counter.take_over(value, one.tier)

    def note_error(self, code: str) -> None:
        """Count an error that a client got."""
        self.request_errors.add(1, code)
        if code == "queue_full":
            self.queue_rejected.add()
