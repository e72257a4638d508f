"""The wizard from its first page to its last, driven as a person does."""

from __future__ import annotations

import random

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton, QComboBox, QLineEdit, QMessageBox, QWidget

from engine.core.config_file import load_config
from engine.core.language import Language
from installer.errors import NetworkError
from installer.i18n.texts import Texts
from installer.steps import Step
from installer.wizard.light import Light, LightSign
from installer.wizard.pages.done import DonePage
from installer.wizard.pages.download import DownloadPage, State
from installer.wizard.pages.licence import LicencePage
from installer.wizard.pages.model import ModelPage
from installer.wizard.pages.options import OptionsPage
from installer.wizard.pages.pc import PcPage
from installer.wizard.pages.tune import TunePage
from installer.wizard.window import WizardWindow
from tests.fake_hub.catalogs import catalog_for
from tests.fake_hub.content import BytesContent
from tests.fake_hub.faults import Fault, Kind
from tests.installer.wizard.conftest import PATIENCE_MS, pretend_start
from tests.installer.wizard.walk import (
    press,
    press_next,
    step_of,
    to_download,
    to_model,
    to_options,
    to_pc,
    wait_for,
)
from tests.support.pc_profiles import pc

SIZE = 400_000
DATA = random.Random(3).randbytes(SIZE)  # noqa: S311  # test data


@pytest.fixture
def catalog(hub):
    """A catalogue with a small model on the fake hub, which has a licence to accept."""
    return catalog_for(hub, {"m": {"model.gguf": BytesContent(DATA)}})


@pytest.mark.parametrize("language", Language)
def test_the_bundled_model_from_the_first_page_to_the_last(qtbot, open_wizard, language):
    window = open_wizard(language=language)
    texts = Texts(language)
    assert window.windowTitle() == texts.say("app.title")
    to_download(qtbot, window, "tiny", "")
    qtbot.waitUntil(window.next_button.isEnabled, timeout=PATIENCE_MS)
    press_next(qtbot, window)
    assert isinstance(window.page, TunePage)
    assert window.page.status.text() == texts.say("tune.unavailable")
    press_next(qtbot, window)
    done = window.page
    assert isinstance(done, DonePage)
    assert done.address.text() == "http://127.0.0.1:8080/v1"
    press(qtbot, done.start)
    qtbot.waitUntil(lambda: done.status.text() == texts.say("done.running"), timeout=PATIENCE_MS)
    assert window.next_button.text() == texts.say("button.close")


@pytest.mark.parametrize("language", Language)
def test_a_model_from_the_hub_is_downloaded_after_its_licence(
    qtbot, open_wizard, hub, catalog, language
):
    window = open_wizard(catalog, language)
    page = to_download(qtbot, window, "m", hub.endpoint)
    wait_for(qtbot, page, State.READY)
    assert hub.sent_bytes == 0  # nothing is fetched before the person has seen how much
    press(qtbot, page.start)
    wait_for(qtbot, page, State.DONE)
    config = window.page.session.installation.config_path
    assert config is not None
    assert load_config(config).model_path.read_bytes() == DATA


def test_next_is_locked_until_the_licence_is_accepted(qtbot, open_wizard, hub, catalog):
    window = open_wizard(catalog)
    to_options(qtbot, window, "m")
    press_next(qtbot, window)
    page = window.page
    assert isinstance(page, LicencePage)
    assert not window.next_button.isEnabled()
    page.accept.setChecked(True)
    assert window.next_button.isEnabled()
    page.accept.setChecked(False)
    assert not window.next_button.isEnabled()


def test_back_leads_through_all_pages_and_keeps_what_was_chosen(qtbot, open_wizard, catalog):
    window = open_wizard(catalog)
    options = to_options(qtbot, window, "m")
    options.login.setChecked(True)
    options.folder.setText("/some/where")
    seen = []
    while step_of(window) is not Step.WELCOME:
        press(qtbot, window.back_button)
        seen.append(step_of(window))
    assert seen == [Step.MODEL, Step.PC, Step.WELCOME]
    assert not window.back_button.isEnabled()
    choices = window.page.session.installation.choices
    assert choices.model_id == "m"
    assert choices.starts_at_login
    assert str(choices.data_dir) == "/some/where"


def test_a_closed_wizard_goes_on_at_the_same_page(qtbot, open_wizard, catalog):
    window = open_wizard(catalog)
    to_options(qtbot, window, "m")
    window.close()
    again = open_wizard(catalog)
    assert step_of(again) is Step.OPTIONS


def test_a_download_that_was_closed_goes_on_by_itself_from_its_last_byte(
    qtbot, open_wizard, hub, catalog
):
    hub.bytes_per_s = 40_000.0
    window = open_wizard(catalog)
    page = to_download(qtbot, window, "m", hub.endpoint)
    press(qtbot, page.start)
    qtbot.waitUntil(lambda: hub.sent_bytes > 60_000, timeout=PATIENCE_MS)
    window.close_for_good()
    hub.bytes_per_s = None
    before = hub.sent_bytes
    again = open_wizard(catalog)
    page = again.page
    assert isinstance(page, DownloadPage)
    wait_for(qtbot, page, State.DONE)
    assert before > 0
    assert any(r.range not in (None, "bytes=0-") for r in hub.byte_requests)


def test_pause_and_go_on(qtbot, open_wizard, hub, catalog):
    hub.bytes_per_s = 40_000.0
    window = open_wizard(catalog)
    page = to_download(qtbot, window, "m", hub.endpoint)
    press(qtbot, page.start)
    qtbot.waitUntil(lambda: hub.sent_bytes > 30_000, timeout=PATIENCE_MS)
    press(qtbot, page.pause)
    assert page.is_paused
    assert page.pause.text() == Texts(Language.ENGLISH).say("download.resume")
    qtbot.waitUntil(
        lambda: page.status.text() == Texts(Language.ENGLISH).say("phase.paused"),
        timeout=PATIENCE_MS,
    )
    hub.bytes_per_s = None
    press(qtbot, page.pause)
    wait_for(qtbot, page, State.DONE)


def test_cancel_asks_and_then_deletes_what_was_fetched(qtbot, open_wizard, hub, catalog, home):
    hub.bytes_per_s = 40_000.0
    window = open_wizard(catalog)
    page = to_download(qtbot, window, "m", hub.endpoint)
    press(qtbot, page.start)
    qtbot.waitUntil(lambda: hub.sent_bytes > 20_000, timeout=PATIENCE_MS)
    press(qtbot, page.cancel)
    box = page.findChild(QMessageBox)
    assert box is not None
    default = box.defaultButton()
    assert default is not None
    assert default.text() == Texts(Language.ENGLISH).say("download.cancel_no")
    yes = next(b for b in box.buttons() if b is not default)
    qtbot.mouseClick(yes, Qt.MouseButton.LeftButton)
    wait_for(qtbot, page, State.STOPPED)
    assert not (home / "data" / "models" / "m").exists()
    assert not page.error.isVisible()
    assert page.start.isVisible()


@pytest.mark.parametrize("language", Language)
def test_an_error_is_a_sentence_and_a_button_that_goes_on(
    qtbot, open_wizard, hub, catalog, language
):
    window = open_wizard(catalog, language)
    page = to_download(qtbot, window, "m", hub.endpoint)
    hub.faults.add(Fault(Kind.STATUS, status=503, times=-1))
    press(qtbot, page.start)
    wait_for(qtbot, page, State.STOPPED)
    assert page.error.isVisible()
    sentence = page.error.text()
    assert "127.0.0.1" in sentence
    is_chinese = any("\u4e00" <= letter <= "\u9fff" for letter in sentence)
    assert is_chinese == (language is Language.CHINESE)
    hub.faults.clear()
    press(qtbot, page.start)
    wait_for(qtbot, page, State.DONE)


def test_after_an_error_another_folder_can_be_chosen(qtbot, open_wizard, hub, catalog):
    window = open_wizard(catalog)
    page = to_download(qtbot, window, "m", hub.endpoint)
    hub.faults.add(Fault(Kind.STATUS, status=404, times=-1))
    press(qtbot, page.start)
    wait_for(qtbot, page, State.STOPPED)
    press(qtbot, page.other_folder)
    assert step_of(window) is Step.OPTIONS


def test_an_unreachable_hub_is_said_on_the_download_page(qtbot, open_wizard, hub):
    catalog = catalog_for(hub, {"m": {"model.gguf": BytesContent(DATA)}}, is_known=False)
    window = open_wizard(catalog)
    page = to_download(qtbot, window, "m", "http://127.0.0.1:9")
    wait_for(qtbot, page, State.STOPPED)
    assert page.error.text()
    assert page.start.text() == Texts(Language.ENGLISH).say("button.again")


@pytest.mark.parametrize(
    ("ram_gib", "light"), [(62.7, Light.GREEN), (31.1, Light.AMBER), (15.4, Light.RED)]
)
def test_the_verdict_is_a_light_and_a_sentence(qtbot, open_wizard, ram_gib, light):
    window = open_wizard(survey=lambda _folder: pc(ram_gib))
    page = to_pc(qtbot, window)
    signs = page.findChildren(LightSign)
    assert signs[0].light is light
    assert signs[0].accessibleName() == Texts(Language.ENGLISH).say(f"light.{light.value}")


def test_a_probe_that_fails_leaves_the_bundled_model(qtbot, open_wizard):
    def fail(_folder):
        raise NetworkError("The probe broke.")

    window = open_wizard(survey=fail)
    page = to_pc(qtbot, window)
    assert "The probe broke." in page.looking.text()
    press_next(qtbot, window)
    assert window.page.session.installation.choices.model_id == "tiny"


def test_the_recommended_model_is_chosen_and_every_other_can_be(qtbot, open_wizard):
    window = open_wizard()
    page = to_model(qtbot, window)
    chosen = [model_id for model_id, button in page.buttons.items() if button.isChecked()]
    assert chosen == ["qwen-iq3_xxs"]
    assert next(iter(page.buttons)) == "qwen-iq3_xxs"
    for model_id, button in page.buttons.items():
        assert button.isEnabled()
        button.setChecked(True)
        assert window.page.session.installation.choices.model_id == model_id
        assert window.next_button.isEnabled()


def test_for_coding_agents_at_least_65k_are_offered(qtbot, open_wizard):
    window = open_wizard()
    page = to_model(qtbot, window)
    page.agents.setChecked(True)
    press_next(qtbot, window)
    options = window.page
    assert isinstance(options, OptionsPage)
    assert options.context.currentData() >= 65_536


def test_the_chosen_context_reaches_the_run_config(qtbot, open_wizard):
    window = open_wizard()
    options = to_options(qtbot, window, "tiny")
    options.context.setCurrentIndex(0)
    chosen = options.context.currentData()
    press_next(qtbot, window)
    qtbot.waitUntil(window.next_button.isEnabled, timeout=PATIENCE_MS)
    config = window.page.session.installation.config_path
    assert config is not None
    assert load_config(config).context == chosen


def test_start_at_login_is_off(qtbot, open_wizard):
    window = open_wizard()
    assert not to_options(qtbot, window, "tiny").login.isChecked()


@pytest.mark.parametrize(("free", "key"), [(60e9, "folder_short"), (80e9, "folder_needs")])
def test_room_for_the_model_is_said_beside_the_folder(
    qtbot, open_wizard, tmp_path, monkeypatch, free, key
):
    monkeypatch.setattr("installer.wizard.pages.options.free_bytes", lambda _folder: int(free))
    window = open_wizard()
    options = to_options(qtbot, window, "qwen-iq2_xs")
    options.folder.setText(str(tmp_path))
    texts = Texts(Language.ENGLISH)
    needed = int(68e9)
    assert options.room.text() == texts.say(
        f"options.{key}", free_bytes=int(free), needed_bytes=needed
    )


def test_another_language_changes_the_whole_page_at_once(qtbot, open_wizard):
    window = open_wizard()
    box = window.page.findChild(QComboBox)
    assert box is not None
    box.setCurrentIndex(list(Language).index(Language.CHINESE))
    box.activated.emit(box.currentIndex())
    assert window.windowTitle() == Texts(Language.CHINESE).say("app.title")
    window.close()
    assert open_wizard().windowTitle() == Texts(Language.CHINESE).say("app.title")


@pytest.mark.parametrize("language", Language)
def test_every_page_can_be_used_by_keyboard_and_screen_reader(
    qtbot, open_wizard, hub, catalog, language
):
    window = open_wizard(catalog, language)
    seen = set()
    while True:
        page = window.page
        if isinstance(page, PcPage):
            qtbot.waitUntil(lambda page=page: not page.is_looking, timeout=PATIENCE_MS)
        if isinstance(page, DownloadPage):
            wait_for(qtbot, page, State.READY)
        seen.add(page.step)
        reached = tab_round(window)
        for control in controls(page):
            name = control.accessibleName() or getattr(control, "text", str)()
            assert name, (page.step, control)
            if not hasattr(control, "group") or control.group() is None:
                assert control in reached, (page.step, name)
        if isinstance(page, ModelPage):
            page.buttons["m"].setChecked(True)
        if isinstance(page, OptionsPage):
            page.mirror.setText(hub.endpoint)
        if isinstance(page, LicencePage):
            page.accept.setChecked(True)
        if isinstance(page, DownloadPage):
            break
        press_next(qtbot, window)
    assert len(seen) == 6


def controls(page: QWidget) -> list[QWidget]:
    kinds = (QAbstractButton, QComboBox, QLineEdit)
    return [
        child
        for child in page.findChildren(QWidget)
        if isinstance(child, kinds)
        and child.isVisibleTo(page)
        and child.isEnabled()
        and child.focusPolicy() & Qt.FocusPolicy.TabFocus
    ]


def tab_round(window: WizardWindow) -> set[QWidget]:
    """Widgets that Tab leads to, from one round."""
    reached: set[QWidget] = set()
    for _ in range(60):
        focused = window.focusWidget()
        if focused is None or focused in reached:
            break
        reached.add(focused)
        window.focusNextPrevChild(True)  # Qt's own
    return reached


def test_a_page_has_room_for_all_its_rows_from_the_first_moment(qtbot, open_wizard):
    """Rows that came after the page was shown were squeezed until the next resize."""
    window = open_wizard()
    page = to_model(qtbot, window)
    layout = page.layout()
    assert layout is not None
    qtbot.waitUntil(lambda: page.height() >= layout.minimumHeightForWidth(page.width()))


def test_the_next_start_after_the_last_page_begins_with_the_pc_for_another_model(
    qtbot, open_wizard
):
    window = open_wizard()
    to_download(qtbot, window, "tiny", "")
    for _page in ("tune", "done"):
        qtbot.waitUntil(window.next_button.isEnabled, timeout=PATIENCE_MS)
        press_next(qtbot, window)
    done = window.page
    assert isinstance(done, DonePage)
    press(qtbot, done.other)
    assert isinstance(window.page, PcPage)


def test_a_start_that_fails_shows_the_last_words_of_the_log(qtbot, open_wizard, tmp_path):
    log = tmp_path / "start.log"
    log.write_text("loading\nThe port 8080 is taken.\n", "utf-8")
    window = open_wizard(
        start=lambda _config: pretend_start(log),
        wait_until_ready=lambda _started, _timeout_s: False,
    )
    to_download(qtbot, window, "tiny", "")
    for _page in ("tune", "done"):
        qtbot.waitUntil(window.next_button.isEnabled, timeout=PATIENCE_MS)
        press_next(qtbot, window)
    done = window.page
    assert isinstance(done, DonePage)
    press(qtbot, done.start)
    qtbot.waitUntil(lambda: "The port 8080 is taken." in done.status.text(), timeout=PATIENCE_MS)
    assert done.start.isEnabled()


def test_a_download_goes_on_after_a_restart_only_when_asked_to(
    qtbot, open_wizard, hub, catalog, monkeypatch
):
    asked: list[bool] = []
    monkeypatch.setattr(
        "installer.wizard.pages.download.set_login_start",
        lambda _root, *, is_on: asked.append(is_on),
    )
    monkeypatch.setattr("installer.wizard.pages.download.is_portable", lambda: False)
    window = open_wizard(catalog)
    page = to_download(qtbot, window, "m", hub.endpoint)
    assert not page.after_restart.isChecked()
    assert asked == []
    page.after_restart.setChecked(True)
    assert window.page.session.installation.choices.resumes_at_login
    page.after_restart.setChecked(False)
    assert asked == [True, False]
