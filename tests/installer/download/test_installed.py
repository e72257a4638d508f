"""What is installed, whether it is still right, and how it goes."""

from __future__ import annotations

import json
import os

import pytest

from installer.download.control import Control
from installer.download.installed import (
    MANIFEST_NAME,
    bad_files,
    installed_models,
    read_manifest,
    remove_model,
    unfinished_models,
)
from installer.download.job import DownloadJob
from installer.errors import NetworkError
from tests.fake_hub.catalogs import catalog_for
from tests.fake_hub.content import GeneratedContent
from tests.fake_hub.faults import Fault, Kind

NAMES = ("M-00001-of-00002.gguf", "M-00002-of-00002.gguf")
CONTENTS = {name: GeneratedContent(5000 + i, seed=i) for i, name in enumerate(NAMES)}


@pytest.fixture
def options(make_options):
    return make_options()


@pytest.fixture
def catalog(hub):
    return catalog_for(hub, {"m": dict(CONTENTS)})


def test_a_model_is_listed_only_when_it_is_complete(hub, catalog, options):
    hub.faults.add(Fault(Kind.STATUS, path=NAMES[1], times=-1))
    with pytest.raises(NetworkError):
        DownloadJob(catalog, "m", options).run()
    assert installed_models(options.models_dir) == []
    assert unfinished_models(options.models_dir)["m"] >= CONTENTS[NAMES[0]].size
    hub.faults.clear()
    model = DownloadJob(catalog, "m", options).run()
    assert [found.id for found in installed_models(options.models_dir)] == ["m"]
    assert unfinished_models(options.models_dir) == {}
    assert model.own_bytes == sum(content.size for content in CONTENTS.values())


def test_nothing_is_installed_where_there_is_no_folder(tmp_path):
    assert installed_models(tmp_path / "nowhere") == []


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 9}'])
def test_a_manifest_that_is_broken_is_no_model(catalog, options, text):
    model = DownloadJob(catalog, "m", options).run()
    (model.folder / MANIFEST_NAME).write_text(text)
    assert installed_models(options.models_dir) == []


def test_unknown_keys_of_a_manifest_are_kept(catalog, options):
    model = DownloadJob(catalog, "m", options).run()
    path = model.folder / MANIFEST_NAME
    path.write_text(json.dumps({**json.loads(path.read_text()), "later": 1}))
    again = read_manifest(model.folder)
    assert again is not None
    assert again.model_dump()["later"] == 1


def test_repair_finds_what_is_bad_and_the_next_download_fetches_only_that(hub, catalog, options):
    model = DownloadJob(catalog, "m", options).run()
    assert bad_files(options.models_dir, model, Control()) == []
    path = model.folder / NAMES[0]
    stat = path.stat()
    raw = bytearray(path.read_bytes())
    raw[7] ^= 1
    path.write_bytes(raw)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # a disk that lies: time and size stay
    (bad,) = bad_files(options.models_dir, model, Control())
    assert bad.path.name == NAMES[0]
    before = hub.sent_bytes
    DownloadJob(catalog, "m", options).run()
    assert hub.sent_bytes - before == CONTENTS[NAMES[0]].size
    assert bad_files(options.models_dir, model, Control()) == []


def test_a_missing_file_is_bad(catalog, options):
    model = DownloadJob(catalog, "m", options).run()
    (model.folder / NAMES[1]).unlink()
    assert [file.path.name for file in bad_files(options.models_dir, model, Control())] == [
        NAMES[1]
    ]


def test_a_removed_model_leaves_nothing_but_the_persons_own_files(catalog, options, tmp_path):
    own = tmp_path / "mine"
    own.mkdir()
    (own / "x.gguf").write_bytes(CONTENTS[NAMES[0]].read(0, 9999))
    model = DownloadJob(catalog, "m", options).run()
    remove_model(model)
    assert not model.folder.exists()
    remove_model(model)  # twice is no error
    assert (own / "x.gguf").exists()
