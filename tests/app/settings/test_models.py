"""Installed models: listed, chosen, removed, and moved without losing anything."""

import hashlib
import json

import pytest

from app.background import Task
from app.settings.hub import Hub
from app.settings.model_list import Kind, list_models, usable_config
from app.settings.model_moving import (
    MOVED_FROM,
    MoveError,
    copy_files,
    delete_old,
    finish_moves,
    plan_move,
    remove_model,
    switch_to,
)
from app.settings.models_page import ModelsPage
from app.supervisor.state import EngineState, Phase
from engine.core.config_file import load_config
from engine.core.files import write_json
from engine.core.installed_models import installed_models, read_manifest

CONTENTS = {"M-00001-of-00002.gguf": b"one" * 5000, "M-00002-of-00002.gguf": b"two" * 7000}


@pytest.fixture
def data_dir(context):
    return context.data_dir


@pytest.fixture
def model(data_dir):
    """An installed model with its run config, as the installer leaves them."""
    folder = data_dir / "models" / "qwen"
    folder.mkdir(parents=True)
    files = []
    for name, content in CONTENTS.items():
        (folder / name).write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        files.append({"kind": "model", "path": name, "bytes": len(content), "sha256": digest})
    manifest = {"format": 1, "id": "qwen", "title": "Qwen", "revision": "", "files": files}
    write_json(folder / "model.json", {**manifest, "from_tomorrow": True})
    first = str(folder / next(iter(CONTENTS)))
    config = {"format": 1, "model": first, "model_id": "qwen", "own": 1}
    write_json(data_dir / "configs" / "qwen.json", config)
    found = read_manifest(folder)
    assert found is not None
    return found


def task(reports=None):
    return Task(reports.append if reports is not None else lambda _progress: None)


def test_all_models_are_listed_with_their_sizes(model, data_dir, config_path):
    (data_dir / "models" / "half").mkdir()
    (data_dir / "models" / "half" / "x.part").write_bytes(b"12345")
    entries = {entry.model_id: entry for entry in list_models(data_dir)}
    assert entries["qwen"].num_bytes == sum(map(len, CONTENTS.values()))
    assert entries["qwen"].freed_bytes == entries["qwen"].num_bytes
    assert entries["half"].kind is Kind.UNFINISHED
    assert entries["half"].num_bytes == 5
    assert entries["tiny" if "tiny" in entries else config_path.stem].config_path is not None
    (bundled,) = (entry for entry in entries.values() if entry.kind is Kind.BUNDLED)
    assert load_config(usable_config(bundled)).model is None


def test_a_drive_that_is_not_connected_changes_nothing(model, data_dir):
    for name in CONTENTS:
        (model.folder / name).unlink()
    (entry,) = (entry for entry in list_models(data_dir) if entry.model_id == "qwen")
    assert not entry.is_there
    assert read_manifest(model.folder) is not None


def test_a_moved_model_is_whole_at_its_new_place_and_gone_at_the_old(model, data_dir, tmp_path):
    reports = []
    plan = plan_move(model, tmp_path / "Größer 盘")
    copy_files(plan, task(reports))
    assert reports[-1].done_bytes == reports[-1].total_bytes == 2 * plan.num_bytes
    switch_to(plan, data_dir / "configs")
    delete_old(plan)
    (moved,) = installed_models(data_dir / "models")
    for file in moved.files:
        path = moved.path_of(file)
        assert path.parent == tmp_path / "Größer 盘" / "qwen"
        assert path.read_bytes() == CONTENTS[path.name]
        assert not (model.folder / path.name).exists()
    assert moved.model_extra == {"from_tomorrow": True}
    config = json.loads((data_dir / "configs" / "qwen.json").read_text("utf-8"))
    assert config["model"] == str(moved.model_path)
    assert config["own"] == 1


def test_a_model_can_be_moved_back(model, data_dir, tmp_path):
    for target in (tmp_path / "other", data_dir / "models"):
        plan = plan_move(installed_models(data_dir / "models")[0], target)
        copy_files(plan, task())
        switch_to(plan, data_dir / "configs")
        delete_old(plan)
    (back,) = installed_models(data_dir / "models")
    assert all(not file.path.is_absolute() for file in back.files)
    assert all(back.path_of(file).exists() for file in back.files)
    assert not (tmp_path / "other" / "qwen").exists()


def test_a_cancelled_copy_leaves_everything_as_it_was(model, data_dir, tmp_path):
    from app.background import OperationCancelled  # noqa: PLC0415  # beside its only use

    work = Task(lambda _progress: work.cancel())
    plan = plan_move(model, tmp_path / "other")
    with pytest.raises(OperationCancelled):
        copy_files(plan, work)
    assert not plan.folder.exists()
    assert all((model.folder / name).read_bytes() == content for name, content in CONTENTS.items())


def test_a_copy_that_differs_is_not_used(model, data_dir, tmp_path):
    (model.folder / "M-00002-of-00002.gguf").write_bytes(b"bad" * 7000)  # not what was installed
    plan = plan_move(model, tmp_path / "other")
    with pytest.raises(MoveError) as caught:
        copy_files(plan, task())
    assert caught.value.code == "copy_differs"
    assert not plan.folder.exists()
    assert read_manifest(model.folder).files == model.files


def test_a_drive_without_room_is_said_before_anything_is_copied(model, tmp_path):
    with pytest.raises(MoveError) as caught:
        plan_move(model, tmp_path / "other", free_bytes=1000)
    assert caught.value.code == "drive_short"
    assert not (tmp_path / "other").exists()


def test_a_folder_that_holds_something_is_not_written_into(model, tmp_path):
    (tmp_path / "other" / "qwen").mkdir(parents=True)
    (tmp_path / "other" / "qwen" / "mine.txt").write_text("x")
    with pytest.raises(MoveError) as caught:
        plan_move(model, tmp_path / "other")
    assert caught.value.code == "already_there"


def test_a_move_that_was_cut_off_is_finished_at_the_next_look(model, data_dir, tmp_path):
    plan = plan_move(model, tmp_path / "other")
    copy_files(plan, task())
    switch_to(plan, data_dir / "configs")  # and then the power fails
    models = installed_models(data_dir / "models")
    assert models[0].model_extra[MOVED_FROM]
    finish_moves(models)
    assert not any((model.folder / name).exists() for name in CONTENTS)
    (moved,) = installed_models(data_dir / "models")
    assert MOVED_FROM not in moved.model_extra
    assert all(moved.path_of(file).exists() for file in moved.files)
    finish_moves([moved])  # nothing is left to do, and nothing happens
    assert all(moved.path_of(file).exists() for file in moved.files)


def test_removing_deletes_only_what_is_ours(model, data_dir, tmp_path):
    plan = plan_move(model, tmp_path / "other")
    copy_files(plan, task())
    switch_to(plan, data_dir / "configs")
    delete_old(plan)
    theirs = tmp_path / "other" / "theirs.txt"
    theirs.write_text("x")
    remove_model(installed_models(data_dir / "models")[0], data_dir / "configs")
    assert installed_models(data_dir / "models") == []
    assert not plan.folder.exists()
    assert theirs.exists()
    assert not (data_dir / "configs" / "qwen.json").exists()
    assert (data_dir / "configs" / "qwen.json.bak").exists()


@pytest.fixture
def page(qtbot, context, model, wait):
    page = ModelsPage(Hub(context))
    qtbot.addWidget(page)
    page.show()
    page.enter()
    wait(lambda: "qwen" in page.rows)
    return page


def test_the_active_model_is_marked_and_cannot_be_removed(page, supervisor, wait):
    row = page.rows["tiny"]
    assert "active" in row.state.text()
    assert not row.use.isEnabled()
    page.rows["qwen"].use.click()
    assert supervisor.commands == ["choose qwen"]
    wait(lambda: "active" in page.rows["qwen"].state.text())
    assert not page.rows["qwen"].remove.isEnabled()


def test_the_running_model_is_stopped_between_copy_and_switch(
    page, supervisor, data_dir, tmp_path, wait
):
    supervisor.choose(data_dir / "configs" / "qwen.json")
    supervisor.show(EngineState(phase=Phase.READY, base_url="http://127.0.0.1:1", model="qwen"))
    (entry,) = (entry for entry in page.entries if entry.model_id == "qwen")
    page.move_to(entry, tmp_path / "other")
    wait(lambda: "stop" in supervisor.commands)
    assert all((data_dir / "models" / "qwen" / name).exists() for name in CONTENTS)
    supervisor.show(EngineState(phase=Phase.STOPPED))
    wait(lambda: "start" in supervisor.commands)
    assert not page.is_moving
    (moved,) = installed_models(data_dir / "models")
    assert moved.model_path.parent == tmp_path / "other" / "qwen"


def test_adding_asks_the_shell(page, context, qtbot):
    with qtbot.waitSignal(context.requests.add_model):
        page.add.click()
