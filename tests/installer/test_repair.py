"""Repair: everything is verified, only what is bad is fetched."""

import dataclasses
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.core.catalog import Catalog
from engine.core.language import Language
from installer.care import repair_lines
from installer.download.job import DownloadJob
from installer.download.options import DownloadOptions
from installer.i18n.texts import Texts
from installer.repair import (
    Repair,
    RepairReport,
    changed_program_files,
    set_broken_configs_aside,
)
from tests.fake_hub.catalogs import catalog_for
from tests.fake_hub.content import GeneratedContent
from tests.fake_hub.server import FakeHub

SECOND = "n-00002-of-00002.gguf"
FILES = {"n-00001-of-00002.gguf": GeneratedContent(300_001), SECOND: GeneratedContent(200_003)}


@pytest.fixture
def setup(hub: FakeHub, make_options: Callable[..., DownloadOptions]):
    """A hub, a catalogue with one model of two files, and that model installed."""
    catalog = catalog_for(hub, {"m": dict(FILES)})
    options = make_options()
    DownloadJob(catalog, "m", options).run()
    hub.requests.clear()
    return hub, catalog, options


def repaired(catalog: Catalog, options: DownloadOptions, root: Path) -> RepairReport:
    return Repair(catalog, options, root, self_test=lambda _: "").run()


def test_what_is_right_is_read_and_not_fetched(setup, tmp_path: Path):
    hub, catalog, options = setup
    report = repaired(catalog, options, tmp_path)
    assert report.is_well
    assert [(model.id, model.bad, model.num_files) for model in report.models] == [("m", (), 2)]
    assert not hub.byte_requests


def test_only_the_damaged_file_is_fetched_again(setup, tmp_path: Path):
    hub, catalog, options = setup
    path = options.models_dir / "m" / SECOND
    stat = path.stat()
    data = bytearray(path.read_bytes())
    data[1000] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # as a failing drive would do it
    report = repaired(catalog, options, tmp_path)
    assert report.is_well
    assert [(model.bad, model.is_repaired) for model in report.models] == [((SECOND,), True)]
    assert path.read_bytes() == FILES[SECOND].read(0, 200_003)
    fetched = {request.path.rsplit("/", 1)[-1].split("?")[0] for request in hub.byte_requests}
    assert fetched == {FILES[SECOND].sha256}


def test_without_the_hub_the_reason_is_said_and_the_rest_stays(setup, tmp_path: Path):
    _hub, catalog, options = setup
    (options.models_dir / "m" / SECOND).unlink()
    nowhere = dataclasses.replace(options, endpoint="http://127.0.0.1:9")
    report = repaired(catalog, nowhere, tmp_path)
    assert not report.is_well
    assert report.models[0].bad == (SECOND,)
    assert report.models[0].reason
    assert (options.models_dir / "m" / "n-00001-of-00002.gguf").exists()
    lines = repair_lines(report, Texts(Language.ENGLISH))
    assert any(f"{SECOND} could not be repaired" in line for line in lines)


def test_a_changed_program_file_is_named(tmp_path: Path):
    assert changed_program_files(tmp_path) is None
    (tmp_path / "a.py").write_bytes(b"x")
    files = {"a.py": hashlib.sha256(b"x").hexdigest(), "b.py": "0" * 64}
    (tmp_path / "release.json").write_text(json.dumps({"files": files}))
    assert changed_program_files(tmp_path) == ("b.py",)
    (tmp_path / "release.json").write_text("{")
    assert changed_program_files(tmp_path) == ("release.json",)


def test_a_run_config_that_cannot_be_read_is_set_aside(tmp_path: Path):
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "good.json").write_text('{"format": 1}')
    (tmp_path / "configs" / "bad.json").write_text('{"format": 1, "threads": "x"}')
    assert set_broken_configs_aside(tmp_path) == ("bad.json",)
    assert {path.name for path in (tmp_path / "configs").iterdir()} == {"good.json", "bad.json.bak"}


def test_a_failing_engine_is_not_well():
    report = RepairReport(engine="the kernels disagree")
    assert not report.is_well
    lines = repair_lines(report, Texts(Language.CHINESE))
    assert any("the kernels disagree" in line for line in lines)
