"""The run config of an installed model: what the installer found out stands in it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from engine.core.catalog import Catalog, CatalogModel, FileKind
from engine.core.catalog_file import find_model, load_catalog
from engine.core.config_file import load_config
from engine.core.machine import probe_machine
from installer import run_settings
from installer.choices import Choices
from installer.download.installed import InstalledFile, InstalledModel
from installer.run_settings import write_run_config


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog()


@pytest.fixture
def coder(catalog: Catalog) -> CatalogModel:
    return find_model(catalog, "coder-iq1_m")


def installed(folder: Path, *names: str, model_id: str = "coder-iq1_m") -> InstalledModel:
    """A model of these files; the first is no model file that anybody could read."""
    folder.mkdir(parents=True, exist_ok=True)
    kinds = (FileKind.MODEL, FileKind.DRAFT_HEAD)
    files = []
    for kind, name in zip(kinds, names, strict=False):
        (folder / name).write_bytes(b"?")
        files.append(InstalledFile(kind=kind, path=Path(name), bytes=1, sha256="0" * 64))
    return InstalledModel(
        id=model_id, title="a model", revision="", files=tuple(files), folder=folder
    )


@pytest.fixture(autouse=True)
def expect_its_warning(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("CRITICAL", "installer.run_settings")


def with_ram(monkeypatch: pytest.MonkeyPatch, gib: float) -> None:
    machine = dataclasses.replace(probe_machine(), ram_total_bytes=int(gib * (1 << 30)))
    monkeypatch.setattr(run_settings, "probe_machine", lambda: machine)


def write(catalog: Catalog, model: CatalogModel, found: InstalledModel, data: Path) -> Path:
    return write_run_config(catalog, model, found, Choices(context=65_536), data)


def test_a_draft_head_that_was_made_is_named_to_the_engine(catalog, coder, tmp_path):
    folder = tmp_path / "models" / coder.id
    path = write(catalog, coder, installed(folder, "m.gguf", "mtp.gguf"), tmp_path)
    assert load_config(path).mtp_file == folder / "mtp.gguf"


def test_a_draft_head_that_has_gone_is_no_longer_named(catalog, coder, tmp_path):
    folder = tmp_path / "models" / coder.id
    path = write(catalog, coder, installed(folder, "m.gguf", "mtp.gguf"), tmp_path)
    (folder / "mtp.gguf").unlink()
    write(catalog, coder, installed(folder, "m.gguf"), tmp_path)
    assert load_config(path).mtp_file is None


def test_a_head_that_the_person_named_stays(catalog, coder, tmp_path):
    found = installed(tmp_path / "models" / coder.id, "m.gguf")
    path = write(catalog, coder, found, tmp_path)
    own = tmp_path / "own.gguf"
    own.write_bytes(b"?")
    path.write_text(json.dumps({**json.loads(path.read_text()), "mtp_file": str(own)}))
    write(catalog, coder, found, tmp_path)
    assert load_config(path).mtp_file == own


def test_one_request_at_a_time_is_written_where_memory_asks_for_it(
    catalog, coder, tmp_path, monkeypatch
):
    found = installed(tmp_path / "models" / coder.id, "m.gguf")
    with_ram(monkeypatch, 31.1)
    assert load_config(write(catalog, coder, found, tmp_path)).parallel == 1


def test_with_room_for_all_requests_nothing_is_written(catalog, coder, tmp_path, monkeypatch):
    found = installed(tmp_path / "models" / coder.id, "m.gguf")
    with_ram(monkeypatch, 62.7)
    path = write(catalog, coder, found, tmp_path)
    assert "parallel" not in json.loads(path.read_text())


def test_a_number_of_requests_that_was_set_by_hand_stays(catalog, coder, tmp_path, monkeypatch):
    found = installed(tmp_path / "models" / coder.id, "m.gguf")
    with_ram(monkeypatch, 62.7)
    path = write(catalog, coder, found, tmp_path)
    path.write_text(json.dumps({**json.loads(path.read_text()), "parallel": 2}))
    with_ram(monkeypatch, 31.1)
    write(catalog, coder, found, tmp_path)
    assert load_config(path).parallel == 2
