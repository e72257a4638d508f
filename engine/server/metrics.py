"""Counters, gauges and histograms, and how they are written for Prometheus and as JSON.

The text is the exposition format 0.0.4: for each metric a HELP and a TYPE line, then one line per
value. There is no global registry: a server owns its metrics. Knows nothing of requests.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

PREFIX = "llm_"
TEXT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Sample:
    """One value: what is added to the metric's name, and the labels."""

    value: float
    suffix: str = ""
    labels: tuple[tuple[str, str], ...] = ()


class Counter:
    """Grows only; one value for each combination of labels.

    A counter without labels is there from the start, as 0; one with labels has a value from the first
    time that they occur.
    """

    kind = "counter"

    def __init__(self, name: str, help_text: str, *label_names: str) -> None:
        self.name = name
        self.help_text = help_text
        self._label_names = label_names
        self._values: dict[tuple[str, ...], float] = {} if label_names else {(): 0.0}

    def add(self, amount: float = 1.0, *labels: str) -> None:
        """Count."""
        self._values[labels] = self._values.get(labels, 0.0) + amount

    def take_over(self, total: float, *labels: str) -> None:
        """Set what somebody else counts; a worker that is started again begins at 0."""
        self._values[labels] = total

    def samples(self) -> Iterator[Sample]:
        """The values now."""
        return _labelled(self._label_names, self._values)

    def plain(self) -> object:
        """For JSON: a number, or one object for each combination of labels."""
        if not self._label_names:
            return self._values[()]
        return _objects(self.samples())


class Gauge:
    """A value that is set when it is asked for."""

    kind = "gauge"

    def __init__(self, name: str, help_text: str) -> None:
        self.name = name
        self.help_text = help_text
        self.value = 0.0

    def samples(self) -> Iterator[Sample]:
        """The value now."""
        yield Sample(self.value)

    def plain(self) -> object:
        """For JSON: the number."""
        return self.value


class LabelledGauge:
    """Values that are set together when they are asked for, one for each combination of labels."""

    kind = "gauge"

    def __init__(self, name: str, help_text: str, *label_names: str) -> None:
        self.name = name
        self.help_text = help_text
        self.values: Mapping[tuple[str, ...], float] = {}
        self._label_names = label_names

    def samples(self) -> Iterator[Sample]:
        """The values now."""
        return _labelled(self._label_names, self.values)

    def plain(self) -> object:
        """For JSON: one object for each combination of labels."""
        return _objects(self.samples())


class Histogram:
    """How many observations were at most so large."""

    kind = "histogram"

    def __init__(self, name: str, help_text: str, bounds: Iterable[float]) -> None:
        self.name = name
        self.help_text = help_text
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Take one observation in."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def samples(self) -> Iterator[Sample]:
        """Cumulative buckets, sum and count."""
        for bound, count in self._cumulative():
            yield Sample(count, "_bucket", (("le", bound),))
        yield Sample(self._sum, "_sum")
        yield Sample(sum(self._counts), "_count")

    def plain(self) -> object:
        """For JSON."""
        return {
            "count": sum(self._counts),
            "sum": self._sum,
            "buckets": dict(self._cumulative()),
        }

    def _cumulative(self) -> Iterator[tuple[str, int]]:
        total = 0
        for bound, count in zip((*self._bounds, None), self._counts, strict=True):
            total += count
            yield ("+Inf" if bound is None else f"{bound:g}"), total


Metric = Counter | Gauge | LabelledGauge | Histogram


def _labelled(names: tuple[str, ...], values: Mapping[tuple[str, ...], float]) -> Iterator[Sample]:
    for labels, value in sorted(values.items()):
        yield Sample(value, labels=tuple(zip(names, labels, strict=True)))


def _objects(samples: Iterable[Sample]) -> list[dict[str, str | float]]:
    return [{**dict(sample.labels), "value": sample.value} for sample in samples]


def exposition(metrics: Iterable[Metric]) -> str:
    """All metrics as Prometheus reads them."""
    lines: list[str] = []
    for metric in metrics:
        name = PREFIX + metric.name
        lines.append(f"# HELP {name} {metric.help_text}")
        lines.append(f"# TYPE {name} {metric.kind}")
        lines += (
            f"{name}{sample.suffix}{_labels(sample.labels)} {_number(sample.value)}"
            for sample in metric.samples()
        )
    return "\n".join(lines) + "\n"


def as_object(metrics: Iterable[Metric]) -> Mapping[str, object]:
    """All metrics as one JSON object, by name."""
    return {PREFIX + metric.name: metric.plain() for metric in metrics}


def _labels(labels: tuple[tuple[str, str], ...]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{key}="{_escaped(value)}"' for key, value in labels) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
