"""The menu of the sign beside the clock.

Texts and what is enabled follow the engine's state; the list of models is read when the menu opens.
Actions are found by name (`action("stop")`), for tests and for screen readers' scripts.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QEvent
from PySide6.QtGui import QAction, QActionGroup, QGuiApplication
from PySide6.QtWidgets import QMenu

from app.context import AppContext
from app.installed import installed_models
from app.look.icons import put_icon
from app.state_words import state_title
from app.supervisor.state import Activity, EngineState, Phase
from app.tray.state_icon import state_icon
from app.views import View

# In these the engine runs, or is on its way: the entry then says "stop".
_RUNS = frozenset({Phase.STARTING, Phase.LOADING, Phase.READY, Phase.BUSY})


class TrayMenu(QMenu):
    """The menu."""

    def __init__(self, context: AppContext) -> None:
        super().__init__()
        self._context = context
        self._actions: dict[str, QAction] = {}
        requests, supervisor = context.requests, context.supervisor
        self._add("state", "", lambda: requests.open_view.emit(View.CHAT))
        self._add("chat", "chat", lambda: requests.open_view.emit(View.CHAT))
        self._add("monitor", "monitor", lambda: requests.open_view.emit(View.MONITOR))
        self.addSeparator()
        self._add("start", "start", supervisor.start)
        self._add("stop", "stop", supervisor.stop)
        self._models = QMenu(self)
        self._models.aboutToShow.connect(self._list_models)
        self._group = QActionGroup(self)
        self._actions["models"] = self.addMenu(self._models)
        put_icon(self._actions["models"], "memory")
        self._add("free", "refresh", supervisor.free_memory)
        self._add("copy", "copy", self._copy_address)
        self.addSeparator()
        self._add("settings", "settings", lambda: requests.open_view.emit(View.SETTINGS))
        self._add("log", "log", requests.show_log.emit)
        self._add("about", "info", requests.show_about.emit)
        self.addSeparator()
        self._add("quit", "quit", requests.quit.emit)
        self.aboutToShow.connect(self._list_models)  # some panels fetch the whole menu at once
        supervisor.state_changed.connect(self.show_state)
        self._say()
        self.show_state(supervisor.state)

    def action(self, name: str) -> QAction:
        """An entry by its name.

        Raises:
            KeyError: there is no such entry.
        """
        return self._actions[name]

    @property
    def model_actions(self) -> list[QAction]:
        """The entries of the list of models, as it was when the menu was last opened."""
        return self._models.actions()

    def show_state(self, state: EngineState) -> None:
        """Bring the entries in line with a state."""
        title = state_title(state)
        self._actions["state"].setText(f"{title}: {state.model}" if state.model else title)
        self._actions["state"].setIcon(state_icon(state))
        runs = state.phase in _RUNS
        self._actions["start"].setVisible(not runs)
        self._actions["start"].setEnabled(state.phase is not Phase.STOPPING)
        self._actions["stop"].setVisible(runs)
        can_free = state.phase is Phase.READY and state.is_loaded
        self._actions["free"].setEnabled(can_free and state.activity is not Activity.RELEASING)
        self._actions["copy"].setEnabled(bool(state.base_url))

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802  # Qt's name
        """Speak the new language."""
        if event.type() is QEvent.Type.LanguageChange:
            self._say()
            self.show_state(self._context.supervisor.state)
        super().changeEvent(event)

    def _add(self, name: str, icon: str, act: Callable[[], object]) -> QAction:
        action = QAction(self)
        if icon:
            put_icon(action, icon)
        action.triggered.connect(lambda _checked=False: act())
        self.addAction(action)
        self._actions[name] = action
        return action

    def _say(self) -> None:
        texts = {
            "chat": self.tr("Open chat"),
            "monitor": self.tr("Monitor"),
            "start": self.tr("Start model"),
            "stop": self.tr("Stop model"),
            "models": self.tr("Choose model"),
            "free": self.tr("Free memory now"),
            "copy": self.tr("Copy API address"),
            "settings": self.tr("Settings"),
            "log": self.tr("Show log"),
            "about": self.tr("About Stratum"),
            "quit": self.tr("Quit Stratum"),
        }
        for name, text in texts.items():
            self._actions[name].setText(text)
        self._actions["free"].setToolTip(
            self.tr("Gives graphics memory and RAM back; the next question loads the model again.")
        )

    def _list_models(self) -> None:
        for action in self._group.actions():
            self._group.removeAction(action)
        self._models.clear()
        active = self._context.supervisor.config_path
        for model in installed_models(self._context.configs_dir):
            # A single "&" would become the mark of a shortcut.
            action = self._models.addAction(model.name.replace("&", "&&"))
            action.setCheckable(True)
            action.setChecked(model.config_path == active)
            action.setActionGroup(self._group)
            action.triggered.connect(self._chooser(model.config_path))
        if not self._models.isEmpty():
            self._models.addSeparator()
        self._models.addAction(self.tr("Add a model…"), self._context.requests.add_model.emit)

    def _chooser(self, config_path: Path) -> Callable[[], None]:
        return lambda: self._context.supervisor.choose(config_path)

    def _copy_address(self) -> None:
        base_url = self._context.supervisor.state.base_url
        if base_url:
            QGuiApplication.clipboard().setText(f"{base_url}/v1")
