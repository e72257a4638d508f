"""The sign and its menu: every state has its own shape, every entry does what it says."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator

import pytest
import shiboken6
from PySide6.QtCore import QSize
from PySide6.QtGui import QGuiApplication, QImage

from app.context import AppContext
from app.supervisor.state import Activity, EngineState, LoadProgress, Phase, Reason, ReasonCode
from app.tray.menu import TrayMenu
from app.tray.state_icon import ARC_STEPS, Sign, sign_icon, sign_of, state_icon
from app.views import View
from engine.worker.card_gate import PHASE

READY = EngineState(Phase.READY, model="tiny", base_url="http://127.0.0.1:8080", is_loaded=True)


@pytest.fixture
def menu(context: AppContext) -> Iterator[TrayMenu]:
    made = TrayMenu(context)
    yield made
    shiboken6.delete(made)


def shape(sign: Sign, arc_step: int = 0) -> bytes:
    """Where something is drawn, whatever its colour."""
    image = sign_icon(sign, arc_step).pixmap(QSize(32, 32)).toImage()
    mask = image.convertToFormat(QImage.Format.Format_Alpha8)
    return bytes(mask.constBits())


def loading(share: float) -> EngineState:
    return EngineState(Phase.LOADING, progress=LoadProgress("weights", int(share * 1000), 1000))


def test_the_signs_differ_in_shape_not_only_in_colour(qapp):
    # The outline of "unloaded" is that of "stopped": nothing is in memory in either.
    shapes = {sign: shape(sign) for sign in Sign if sign is not Sign.UNLOADED}
    assert len(set(shapes.values())) == len(shapes)


@pytest.mark.parametrize("phase", Phase)
def test_every_phase_has_a_sign_that_is_drawn(qapp, phase):
    pixmap = state_icon(EngineState(phase)).pixmap(QSize(16, 16))
    assert any(
        pixmap.toImage().pixelColor(x, y).alpha() > 200 for x in range(16) for y in range(16)
    )


def test_the_arc_grows_with_loading(qapp):
    def arc_pixels(share: float) -> int:
        image = state_icon(loading(share)).pixmap(QSize(64, 64)).toImage()
        return sum(image.pixelColor(x, y).alpha() > 200 for x in range(64) for y in range(64))

    sizes = [arc_pixels(share) for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
    assert sizes == sorted(sizes)
    assert len(set(sizes)) == len(sizes)


def test_loading_makes_no_more_pictures_than_it_has_steps(qapp):
    icons = {id(state_icon(loading(number / 1000))) for number in range(1001)}
    assert len(icons) <= ARC_STEPS + 1


def test_a_model_that_was_unloaded_is_told_apart_from_one_that_is_ready():
    assert sign_of(READY) is Sign.READY
    assert sign_of(EngineState(Phase.READY)) is Sign.UNLOADED


@pytest.mark.parametrize(
    ("state", "start", "stop"),
    [
        (EngineState(), True, False),
        (EngineState(Phase.STARTING), False, True),
        (READY, False, True),
        (EngineState(Phase.FAILED, reason=Reason(ReasonCode.NO_MODEL)), True, False),
    ],
)
def test_the_menu_offers_what_can_be_done(menu, supervisor, state, start, stop):
    supervisor.show(state)
    assert menu.action("start").isVisible() is start
    assert menu.action("stop").isVisible() is stop


def test_each_entry_does_what_it_says(menu, supervisor, context):
    opened: list[View] = []
    context.requests.open_view.connect(opened.append)
    heard: list[str] = []
    context.requests.show_log.connect(lambda: heard.append("log"))
    context.requests.show_about.connect(lambda: heard.append("about"))
    context.requests.quit.connect(lambda: heard.append("quit"))
    supervisor.show(READY)
    for name in ("chat", "monitor", "settings", "start", "stop", "free", "log", "about", "quit"):
        menu.action(name).trigger()
    assert opened == [View.CHAT, View.MONITOR, View.SETTINGS]
    assert supervisor.commands == ["start", "stop", "free_memory"]
    assert heard == ["log", "about", "quit"]


def test_the_api_address_is_copied_only_while_there_is_one(menu, supervisor):
    assert not menu.action("copy").isEnabled()
    supervisor.show(READY)
    menu.action("copy").trigger()
    assert QGuiApplication.clipboard().text() == "http://127.0.0.1:8080/v1"


def test_memory_can_be_freed_only_while_the_model_is_there_and_idle(menu, supervisor):
    supervisor.show(READY)
    assert menu.action("free").isEnabled()
    supervisor.show(EngineState(Phase.BUSY, activity=Activity.ANSWERING, is_loaded=True))
    assert not menu.action("free").isEnabled()
    supervisor.show(EngineState(Phase.READY, is_loaded=False))
    assert not menu.action("free").isEnabled()


def test_models_are_listed_when_the_menu_opens_and_can_be_chosen(menu, supervisor, context):
    context.configs_dir.mkdir(parents=True)
    for name, content in {
        "a.json": {"format": 1, "model_id": "Große & Söhne"},
        "b.json": {"format": 1},
        "broken.json": None,
    }.items():
        text = "{" if content is None else json.dumps(content)
        (context.configs_dir / name).write_text(text, "utf-8")
    supervisor.config_path = context.configs_dir / "b.json"
    menu.aboutToShow.emit()
    found = [(action.text(), action.isChecked()) for action in menu.model_actions]
    assert found[:3] == [("b", True), ("broken", False), ("Große && Söhne", False)]
    assert found[-1][0] == "Add a model…"
    menu.model_actions[2].trigger()
    assert supervisor.commands == ["choose a"]


def test_without_models_one_can_be_added(menu, context):
    heard: list[str] = []
    context.requests.add_model.connect(lambda: heard.append("add"))
    menu.aboutToShow.emit()
    (action,) = menu.model_actions
    action.trigger()
    assert heard == ["add"]


def test_the_first_entry_says_the_state(menu, supervisor):
    supervisor.show(loading(0.42))
    assert menu.action("state").text() == "Loading 42 %"
    checking = LoadProgress(PHASE, 7, 100)
    supervisor.show(dataclasses.replace(loading(0.42), progress=checking))
    assert menu.action("state").text() == "Checking the graphics card, once: 7 %"
    supervisor.show(READY)
    assert menu.action("state").text() == "Ready: tiny"
