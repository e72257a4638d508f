"""Files that are on this PC already are used and not fetched again."""

from __future__ import annotations

import hashlib
import json
import os
import shutil

import pytest

from engine.core.catalog import FileKind
from installer.download import found
from installer.download.job import DownloadJob
from installer.download.plan import Action
from installer.errors import NetworkError
from tests.fake_hub.catalogs import catalog_for
from tests.fake_hub.content import BytesContent
from tests.support.golden import GOLDEN

GGUF = BytesContent((GOLDEN / "nople.gguf").read_bytes())
OTHER = BytesContent((GOLDEN / "odd.gguf").read_bytes())
BIG = 64 << 20


@pytest.fixture
def catalog(hub):
    return catalog_for(hub, {"m": {"m.gguf": GGUF}})


def actions(plan):
    return [file.action for file in plan.files]


def notices(plan):
    return {notice.code for notice in plan.notices}


def test_a_file_in_a_folder_of_the_person_is_linked_whatever_its_name(
    hub, catalog, make_options, tmp_path
):
    mine = tmp_path / "my models" / "deep" / "mein modell.gguf"
    mine.parent.mkdir(parents=True)
    mine.write_bytes(GGUF.data)
    job = DownloadJob(catalog, "m", make_options(search=(tmp_path / "my models",)))
    plan = job.plan()
    assert actions(plan) == [Action.LINK]
    assert plan.fetch_bytes == 0
    assert "found_on_disk" in notices(plan)
    model = job.run()
    assert model.model_path.samefile(mine)
    assert model.model_path.name == "m.gguf"
    assert hub.byte_requests == []


def test_a_file_of_the_same_size_and_another_content_is_not_used(
    hub, catalog, make_options, tmp_path
):
    mine = tmp_path / "mine"
    mine.mkdir()
    changed = bytearray(GGUF.data)
    changed[-1] ^= 1
    (mine / "m.gguf").write_bytes(changed)
    job = DownloadJob(catalog, "m", make_options(search=(mine,)))
    plan = job.plan()
    assert actions(plan) == [Action.FETCH]
    assert notices(plan) == {"found_but_different"}


def test_a_file_with_our_name_and_another_size_is_mentioned(catalog, make_options, tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "m.gguf").write_bytes(GGUF.data[:-5])
    plan = DownloadJob(catalog, "m", make_options(search=(mine,))).plan()
    assert actions(plan) == [Action.FETCH]
    assert notices(plan) == {"found_but_different"}


def test_the_cache_of_the_hubs_own_tools_is_used(hub, catalog, make_options, tmp_path):
    blobs = tmp_path / "hf home" / "hub" / "models--maker--m-GGUF" / "blobs"
    blobs.mkdir(parents=True)
    (blobs / GGUF.sha256).write_bytes(GGUF.data)
    job = DownloadJob(catalog, "m", make_options())
    assert actions(job.plan()) == [Action.LINK]
    job.run()
    assert hub.byte_requests == []


def test_an_older_data_folder_is_used(hub, catalog, make_options, tmp_path):
    old = make_options(data_dir=tmp_path / "old data")
    DownloadJob(catalog, "m", old).run()
    before = hub.sent_bytes
    model = DownloadJob(catalog, "m", make_options(search=(old.models_dir,))).run()
    assert hub.sent_bytes == before
    shutil.rmtree(old.data_dir)
    assert model.model_path.read_bytes() == GGUF.data  # a link of its own


def test_a_shard_that_two_models_share_is_fetched_once(hub, make_options):
    names = {size: f"M-{size}-0000{{}}-of-00002.gguf" for size in ("a", "b")}
    catalog = catalog_for(
        hub,
        {
            size: {name.format(1): BytesContent(size.encode() * 5000), name.format(2): OTHER}
            for size, name in names.items()
        },
        shared={name.format(2): "table" for name in names.values()},
    )
    DownloadJob(catalog, "a", make_options()).run()
    before = hub.sent_bytes
    job = DownloadJob(catalog, "b", make_options())
    assert actions(job.plan()) == [Action.FETCH, Action.LINK]
    model = job.run()
    assert hub.sent_bytes - before == 5000
    assert [model.path_of(file).name for file in model.files] == [
        "M-b-00001-of-00002.gguf",
        "M-b-00002-of-00002.gguf",
    ]


class Padded:
    """A GGUF file with zeros behind it: large, and quickly made."""

    def __init__(self, size):
        self.size = size
        self.sha256 = hashlib.sha256(GGUF.data + bytes(size - GGUF.size)).hexdigest()

    def read(self, start, count):
        end = min(start + count, self.size)
        head = GGUF.data[start:end]
        return head + bytes(end - start - len(head))

    def write(self, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.write(GGUF.data)
            file.truncate(self.size)  # takes no room


@pytest.fixture
def no_links(monkeypatch):
    """A drive that knows no links, or another drive than the file's."""

    def refuse(*_arguments, **_keywords):
        raise OSError(95, "not supported")

    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr(os, "symlink", refuse)


@pytest.mark.usefixtures("no_links")
@pytest.mark.parametrize("name", ["m.gguf", "other.gguf"])
def test_without_links_a_whole_model_is_used_where_it_lies_and_never_copied(
    hub, make_options, tmp_path, name
):
    content = Padded(BIG + 1)
    content.write(tmp_path / "mine" / name)
    catalog = catalog_for(hub, {"m": {"m.gguf": content}})
    job = DownloadJob(catalog, "m", make_options(search=(tmp_path / "mine",)))
    plan = job.plan()
    if name == "other.gguf":
        # Under another name it is of no use: the engine finds shards by their names.
        assert actions(plan) == [Action.FETCH]
        assert notices(plan) == {"must_download_again"}
        return
    assert actions(plan) == [Action.REFERENCE]
    model = job.run()
    assert model.model_path == tmp_path / "mine" / name
    assert model.own_bytes == 0
    assert hub.byte_requests == []


@pytest.mark.usefixtures("no_links")
def test_a_small_file_is_copied_where_no_link_is_possible(hub, catalog, make_options, tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "other name.gguf").write_bytes(GGUF.data)
    model = DownloadJob(catalog, "m", make_options(search=(mine,))).run()
    assert model.model_path.read_bytes() == GGUF.data
    assert not model.model_path.samefile(mine / "other name.gguf")


def test_a_file_is_read_once_and_not_at_each_start(hub, catalog, make_options, monkeypatch):
    DownloadJob(catalog, "m", make_options()).run()
    monkeypatch.setattr(found, "hash_file", lambda *_a: pytest.fail("it was read again"))
    assert actions(DownloadJob(catalog, "m", make_options()).plan()) == [Action.PRESENT]


def test_a_file_that_was_changed_is_fetched_again_and_only_it(hub, make_options):
    names = ("M-00001-of-00002.gguf", "M-00002-of-00002.gguf")
    catalog = catalog_for(hub, {"m": dict(zip(names, (GGUF, OTHER), strict=True))})
    model = DownloadJob(catalog, "m", make_options()).run()
    path = model.folder / names[1]
    raw = bytearray(path.read_bytes())
    raw[1000] ^= 1
    path.write_bytes(raw)
    job = DownloadJob(catalog, "m", make_options())
    assert actions(job.plan()) == [Action.PRESENT, Action.FETCH]
    before = hub.sent_bytes
    job.run()
    assert hub.sent_bytes - before == OTHER.size
    assert path.read_bytes() == OTHER.data


def test_the_image_encoder_is_fetched_when_it_is_wanted(hub, make_options):
    catalog = catalog_for(hub, {"m": {"m.gguf": GGUF}})
    commit = hub.add("maker/images", {"mmproj.gguf": OTHER})
    family = catalog.families["m"]
    encoder = {"path": "mmproj.gguf", "repository": "maker/images", "revision": commit}
    raw = catalog.model_dump(mode="json", by_alias=True)
    raw["families"]["m"]["image_encoder"] = encoder
    assert family.image_encoder is None
    catalog = type(catalog).model_validate_json(json.dumps(raw))
    assert len(DownloadJob(catalog, "m", make_options()).plan().files) == 1
    model = DownloadJob(catalog, "m", make_options(with_image_encoder=True)).run()
    path = model.first(FileKind.IMAGE_ENCODER)
    assert path is not None
    assert path.read_bytes() == OTHER.data


def test_files_by_hand_are_used_unverified_when_the_hub_is_out_of_reach_and_that_is_wanted(
    hub, make_options, tmp_path
):
    catalog = catalog_for(hub, {"m": {"m.gguf": GGUF}}, is_known=False)
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "m.gguf").write_bytes(GGUF.data)
    offline = {"endpoint": "http://127.0.0.1:9", "search": (mine,)}
    with pytest.raises(NetworkError):
        DownloadJob(catalog, "m", make_options(**offline)).plan()
    job = DownloadJob(catalog, "m", make_options(**offline, accept_unverified=True))
    plan = job.plan()
    assert actions(plan) == [Action.REFERENCE]
    assert notices(plan) == {"not_verified"}
    assert job.run().model_path == mine / "m.gguf"


@pytest.mark.parametrize("data", [GGUF.data[:-1], GGUF.data + bytes(200), b"GGUF"])
def test_a_file_by_hand_that_is_not_whole_is_never_used(hub, make_options, tmp_path, data):
    catalog = catalog_for(hub, {"m": {"m.gguf": GGUF}}, is_known=False)
    (tmp_path / "m.gguf").write_bytes(data)
    options = make_options(
        endpoint="http://127.0.0.1:9", search=(tmp_path,), accept_unverified=True
    )
    with pytest.raises(NetworkError):
        DownloadJob(catalog, "m", options).plan()
