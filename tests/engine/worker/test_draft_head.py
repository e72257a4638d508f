"""A draft head in a file of its own: found, refused with a sentence, left alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from engine.core.config import KvType, OpsName, RunConfig
from engine.worker.loading import LoadedModel, load_model
from engine.worker.messages import SamplingParams, Start
from tests.support.drafted_runs import answers_of

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
PHRASE = (20, 31, 42, 53, 64, 75)


def model_in(folder: Path, name: str = "full.gguf") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    shutil.copy(GOLDEN / name, path)
    return path


def loaded_with(path: Path, **more: object) -> LoadedModel:
    values = {
        "model": path,
        "ops": OpsName.HOST,
        "context": 256,
        "threads": 1,
        "kv_type": KvType.F32,
        "spec_lookup": False,
    }
    return load_model(RunConfig.model_validate({**values, **more}), parallel=1)


def answer(loaded: LoadedModel) -> tuple[list[int], int]:
    """An answer of few different tokens, with the model's own drafters, and how many were drafted."""
    bias = tuple((token_id, 12.0) for token_id in PHRASE[:3])
    sampling = SamplingParams(temperature=0, logit_bias=bias)
    start = Start("r", PHRASE * 4, 24, (), sampling)
    ids, ends = answers_of(loaded, [start], loaded.drafting)
    assert ends["r"].reason == "length"
    return ids["r"], ends["r"].timings.draft_tokens


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> list[int]:
    loaded = loaded_with(model_in(tmp_path_factory.mktemp("plain")))
    assert loaded.model.mtp is None
    assert loaded.drafting is None
    token_ids, num_drafted = answer(loaded)
    loaded.close()
    assert num_drafted == 0
    return token_ids


@pytest.mark.parametrize("name", ["mtp-full.gguf", "full-mtp.gguf", "full-MTP.gguf", "mtp.gguf"])
def test_a_head_beside_the_model_is_used(tmp_path: Path, plain: list[int], name: str):
    path = model_in(tmp_path / "mödel folder")
    shutil.copy(GOLDEN / "full-mtp.gguf", path.with_name(name))
    loaded = loaded_with(path)
    assert loaded.model.mtp is not None
    token_ids, num_drafted = answer(loaded)
    loaded.close()
    assert token_ids == plain
    assert num_drafted > 0


def test_a_head_anywhere_is_used_when_the_config_names_it(tmp_path: Path, plain: list[int]):
    loaded = loaded_with(model_in(tmp_path), mtp_file=GOLDEN / "full-mtp.gguf")
    token_ids, num_drafted = answer(loaded)
    loaded.close()
    assert token_ids == plain
    assert num_drafted > 0


def test_of_several_heads_beside_the_model_none_is_taken(
    tmp_path: Path, plain: list[int], caplog: pytest.LogCaptureFixture
):
    path = model_in(tmp_path)
    for name in ("mtp-a.gguf", "mtp-b.gguf"):
        shutil.copy(GOLDEN / "full-mtp.gguf", path.with_name(name))
    loaded = loaded_with(path)
    assert loaded.model.mtp is None
    assert answer(loaded) == (plain, 0)
    loaded.close()
    assert "mtp-a.gguf, mtp-b.gguf" in caplog.text


def test_no_head_is_looked_for_when_none_is_wanted(tmp_path: Path, plain: list[int]):
    path = model_in(tmp_path)
    path.with_name("mtp-full.gguf").write_bytes(b"this would be a fault if it were opened")
    loaded = loaded_with(path, spec_mtp=0)
    assert loaded.model.mtp is None
    assert answer(loaded) == (plain, 0)
    loaded.close()


def test_a_head_of_another_model_is_refused_with_one_sentence_and_serving_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    loaded = loaded_with(model_in(tmp_path, "odd.gguf"), mtp_file=GOLDEN / "full-mtp.gguf")
    assert loaded.model.mtp is None
    assert len(answer(loaded)[0]) == 24
    loaded.close()
    (warning,) = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert "full-mtp.gguf is not used" in warning
    assert "belongs to another model" in warning
    assert "\n" not in warning


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.99])
def test_a_truncated_head_is_refused_with_one_sentence_and_serving_goes_on(
    tmp_path: Path, plain: list[int], caplog: pytest.LogCaptureFixture, share: float
):
    path = model_in(tmp_path)
    content = (GOLDEN / "full-mtp.gguf").read_bytes()
    path.with_name("mtp.gguf").write_bytes(content[: int(share * len(content))])
    loaded = loaded_with(path)
    assert loaded.model.mtp is None
    assert answer(loaded) == (plain, 0)
    loaded.close()
    (warning,) = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert "mtp.gguf" in warning
    assert "not used" in warning
    assert "\n" not in warning


def test_a_missing_head_is_refused_with_one_sentence_and_serving_goes_on(
    tmp_path: Path, plain: list[int], caplog: pytest.LogCaptureFixture
):
    loaded = loaded_with(model_in(tmp_path), mtp_file=tmp_path / "nö such.gguf")
    assert answer(loaded) == (plain, 0)
    loaded.close()
    (warning,) = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert "nö such.gguf" in warning
