from __future__ import annotations

from pathlib import Path

from engine.core.catalog_file import load_catalog
from installer.present import present_bytes
from installer.recommend import Wish, recommend
from tests.support.pc_profiles import drive, pc

TABLE = "Qwen3.8-Flash-Next-GSQ-RCO-Q2_0-00002-of-00002.gguf"


def put(path: Path, num_bytes: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(num_bytes)


def test_an_empty_folder_has_nothing(tmp_path: Path) -> None:
    assert present_bytes(load_catalog(), tmp_path / "not there") == {}


def test_finished_files_and_parts_count_and_shared_ones_for_all(tmp_path: Path) -> None:
    folder = tmp_path / "models" / "qwen-q2_0"
    put(folder / TABLE, 5000)
    put(folder / "Qwen3.8-Flash-Next-GSQ-RCO-Q2_0-00001-of-00002.gguf.part", 300)
    put(folder / "something else.gguf", 7000)
    found = present_bytes(load_catalog(), tmp_path)
    assert found["qwen-q2_0"] == 5300
    assert found["qwen-iq2_xs"] == found["coder-iq1_m"] == 5000
    assert "swift-iq2_xs" not in found


def test_what_is_there_needs_no_room_again() -> None:
    catalog, seen = load_catalog(), pc(62.7, data_drive=drive(30))
    model = catalog.find("qwen-iq3_xxs")
    assert model is not None
    download = model.needs.download_bytes
    nothing = recommend(seen, catalog)
    part = recommend(seen, catalog, Wish(present_bytes={model.id: download - 10**10}))
    whole = recommend(seen, catalog, Wish(present_bytes={model.id: download}))
    assert nothing.choice.model_id == catalog.bundled.id
    assert (part.choice.model_id, part.choice.missing_bytes) == (model.id, 10**10)
    assert (whole.choice.model_id, whole.choice.disk_bytes) == (model.id, 0)
