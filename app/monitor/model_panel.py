"""Where the model's parts live, and what the engine has counted since it was started."""

from __future__ import annotations

from PySide6.QtCore import QCoreApplication, QLocale, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPalette
from PySide6.QtWidgets import QFormLayout, QFrame, QLabel, QSizePolicy, QVBoxLayout, QWidget

from app.engine_status import EngineMetrics, EngineStatus
from app.look.look import em, enlarge
from app.model_report import ModelReport
from engine.core.sizes import size_in_words

_TIERS = ("vram", "ram_mapped", "ram", "disk")
_COLOURS = {
    "vram": ("#7a4fa3", "#b58be0"),
    "ram_mapped": ("#1f7a93", "#58b7cf"),
    "ram": ("#b0652a", "#e0a060"),
    "disk": ("#7d868c", "#8d969c"),
}


class TierBar(QWidget):
    """A bar with one piece for each place that parts of the model live in."""

    def __init__(self) -> None:
        super().__init__()
        self._report: ModelReport | None = None
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def sizeHint(self) -> QSize:  # Qt's name
        """A line high."""
        return QSize(10 * em(self), round(1.2 * em(self)))

    def show_report(self, report: ModelReport) -> None:
        """Show where parts live."""
        self._report = report
        self.setAccessibleName(
            ", ".join(f"{tier_name(tier)}: {size}" for tier, size in tier_sizes(report))
        )
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:  # Qt's name
        """Draw the pieces."""
        if self._report is None:
            return
        painter = QPainter(self)
        total = sum(part.num_bytes for part in self._report.parts) or 1
        is_dark = self.palette().color(QPalette.ColorRole.Window).lightness() < 128
        left = 0.0
        for tier in _TIERS:
            width = self.width() * self._report.bytes_in(tier) / total
            if width > 0:
                painter.fillRect(
                    QRectF(left, 0, width, self.height()),
                    QColor(tier_colour(tier, is_dark=is_dark)),
                )
            left += width
        painter.end()


class ModelPanel(QFrame):
    """The panel; a line whose figure is not reported is not there."""

    def __init__(self) -> None:
        super().__init__()
        self.setFrameShape(QFrame.Shape.StyledPanel)
        self.setBackgroundRole(QPalette.ColorRole.Base)
        self.setAutoFillBackground(True)
        self._place_title = QLabel(self.tr("Where the model lives"))
        enlarge(self._place_title, 1.1, is_bold=True)
        self.bar = TierBar()
        self.places = QLabel()
        self.places.setTextFormat(Qt.TextFormat.RichText)
        self.places.setWordWrap(True)
        self._report: ModelReport | None = None
        counted = QLabel(self.tr("Since the engine was started"))
        enlarge(counted, 1.1, is_bold=True)
        self._form = QFormLayout()
        self._form.setRowWrapPolicy(QFormLayout.RowWrapPolicy.WrapLongRows)
        self._values: dict[str, QLabel] = {}
        self._counted = counted
        layout = QVBoxLayout(self)
        layout.setContentsMargins(em(self), em(self) // 2, em(self), em(self) // 2)
        for widget in (self._place_title, self.bar, self.places, counted):
            layout.addWidget(widget)
        layout.addLayout(self._form)
        layout.addStretch(1)
        for name, title in _titles().items():
            value = QLabel()
            value.setWordWrap(True)
            self._values[name] = value
            self._form.addRow(title, value)
        self.show_report(None)
        self.show_counts(None, None)

    def show_report(self, report: ModelReport | None) -> None:
        """Show where parts live."""
        self._report = report
        for widget in (self._place_title, self.bar, self.places):
            widget.setVisible(report is not None)
        if report is not None:
            self.bar.show_report(report)
            self.recolour()

    def recolour(self) -> None:
        """Take the colours of light or dark windows."""
        if self._report is None:
            return
        is_dark = self.palette().color(QPalette.ColorRole.Window).lightness() < 128
        lines = []
        for tier in _TIERS:
            parts = [part for part in self._report.parts if part.tier == tier and part.num_bytes]
            if not parts:
                continue
            colour = tier_colour(tier, is_dark=is_dark)
            named = ", ".join(
                f"{part_name(part.name)} {size_in_words(part.num_bytes)}"
                for part in sorted(parts, key=lambda part: -part.num_bytes)
            )
            lines.append(f'<span style="color:{colour}">■</span> <b>{tier_name(tier)}</b>: {named}')
        self.places.setText("<br>".join(lines))

    def show_counts(self, status: EngineStatus | None, metrics: EngineMetrics | None) -> None:
        """Show what was counted."""
        texts = counted_texts(status, metrics)
        self._counted.setVisible(bool(texts))
        for name, label in self._values.items():
            text = texts.get(name, "")
            if label.text() != text:
                label.setText(text)
            if self._form.isRowVisible(label) != bool(text):
                self._form.setRowVisible(label, bool(text))

    def value(self, name: str) -> str:
        """What is shown for a figure; empty when it is not."""
        return self._values[name].text()


def counted_texts(status: EngineStatus | None, metrics: EngineMetrics | None) -> dict[str, str]:
    """The figures in words; only those that the engine reports."""
    translate = QCoreApplication.translate
    number = QLocale().toString
    texts: dict[str, str] = {}
    if status is not None and status.warm is not None:
        text = translate("Counted", "{n}, with {tokens} tokens in {size}")
        warm = status.warm
        texts["warm"] = text.format(
            n=number(warm.sessions), tokens=number(warm.tokens), size=size_in_words(warm.num_bytes)
        )
    if status is not None and status.restarts:
        texts["restarts"] = number(status.restarts)
    if metrics is None:
        return texts
    share = translate("Counted", "{part} of {all} ({percent} %)")

    def shared(name: str, part: float | None, whole: float | None) -> None:
        if part is not None and whole:
            texts[name] = share.format(
                part=number(int(part)), all=number(int(whole)), percent=round(100 * part / whole)
            )

    shared("drafts", metrics.value("draft_accepted_total"), metrics.value("draft_tokens_total"))
    shared(
        "cached", metrics.value("prompt_tokens_cached_total"), metrics.value("prompt_tokens_total")
    )
    generated = metrics.value("generated_tokens_total")
    if generated:
        texts["generated"] = number(int(generated))
        seconds = metrics.value("generated_seconds_total")
        if seconds:
            text = translate("Counted", "{n} (on average {speed} tokens/s)")
            texts["generated"] = text.format(
                n=number(int(generated)), speed=number(generated / seconds, "f", 1)
            )
    ended = metrics.total("requests_total")
    if ended:
        texts["requests"] = number(int(ended))
        errors = metrics.total("request_errors_total")
        if errors:
            text = translate("Counted", "{n}, and {errors} answered with an error")
            texts["requests"] = text.format(n=number(int(ended)), errors=number(int(errors)))
    first = metrics.histograms.get("time_to_first_token_seconds")
    bound = first.quantile(0.5) if first is not None else None
    if bound is not None:
        text = translate("Counted", "for half of them within {seconds} s")
        texts["first_token"] = text.format(seconds=number(bound, "g", 3))
    return texts


def _titles() -> dict[str, str]:
    translate = QCoreApplication.translate
    return {
        "requests": translate("Counted", "Requests"),
        "generated": translate("Counted", "Tokens written"),
        "cached": translate("Counted", "Prompt tokens from memory"),
        "drafts": translate("Counted", "Drafts accepted"),
        "first_token": translate("Counted", "First token"),
        "warm": translate("Counted", "Conversations kept warm"),
        "restarts": translate("Counted", "Restarts after a crash"),
    }


def tier_sizes(report: ModelReport) -> list[tuple[str, str]]:
    """Each place that is used, with its size in words."""
    return [
        (tier, size_in_words(report.bytes_in(tier))) for tier in _TIERS if report.bytes_in(tier)
    ]


def tier_name(tier: str) -> str:
    """What a place is called."""
    translate = QCoreApplication.translate
    names = {
        "vram": translate("Places", "Graphics memory"),
        "ram": translate("Places", "Memory"),
        "ram_mapped": translate("Places", "Memory (the file itself)"),
        "disk": translate("Places", "Drive, read when needed"),
    }
    return names.get(tier, tier)


def part_name(name: str) -> str:
    """What a part of the model is called."""
    translate = QCoreApplication.translate
    names = {
        "Experts": translate("Places", "experts"),
        "n-gram table": translate("Places", "n-gram table"),
        "Token embedding": translate("Places", "token embedding"),
        "MTP layer": translate("Places", "draft layer"),
        "Stream projections": translate("Places", "stream projections"),
        "Stream projections as Q8_0": translate("Places", "stream projections as Q8_0"),
        "Other": translate("Places", "other weights"),
        "KV pages": translate("Places", "KV cache"),
        "Recurrent states": translate("Places", "recurrent states"),
        "Workspace": translate("Places", "workspace"),
        "Vocabulary": translate("Places", "vocabulary"),
        "Program": translate("Places", "program"),
        "Warm conversations": translate("Places", "conversations"),
    }
    return names.get(name, name)


def tier_colour(tier: str, *, is_dark: bool) -> str:
    """The colour of a place."""
    return _COLOURS[tier][int(is_dark)]
