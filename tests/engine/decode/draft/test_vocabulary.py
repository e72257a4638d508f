"""Which tokens a draft head may propose."""

import numpy as np
import pytest

from engine.core.config import BUNDLED_MODEL, RunConfig
from engine.core.gguf_header import read_model_header
from engine.decode.draft.vocabulary import (
    DraftVocabularyError,
    read_vocabulary_file,
    script_ids,
    write_vocabulary_file,
)
from engine.model.mtp import DraftEntry
from engine.sequence.batch import Batch, BatchEntry
from engine.text.vocabulary import read_vocabulary
from engine.worker.draft_head import draft_ids
from engine.worker.loading import load_model
from tools import draft_vocabulary

PIECES = ["a", " the", "中文", "привет", "\xff", "e\u0301", "日", "—"]
BYTES = [
    b"a",
    b" the",
    "中文".encode(),
    "привет".encode(),
    b"\xff",
    "é".encode(),
    b"\xe6\x97",
    b"\xe2\x80\x94",
]


@pytest.mark.parametrize(
    ("script", "wanted"),
    [("en", [0, 1, 4, 7]), ("cjk", [0, 1, 2, 4, 6, 7]), ("cyrillic", [0, 1, 3, 4, 6, 7])],
)
def test_a_script_keeps_its_letters_ascii_and_single_bytes(script, wanted):
    ids = script_ids(lambda i: BYTES[i], len(BYTES), script)
    assert ids.tolist() == wanted


def test_a_file_of_ids_is_read_back_and_refused_for_another_vocabulary(tmp_path):
    path = tmp_path / "ids ü.json"
    write_vocabulary_file([3, 1, 3], PIECES, path)
    assert read_vocabulary_file(path, PIECES).tolist() == [1, 3]
    with pytest.raises(DraftVocabularyError, match="another model's tokens"):
        read_vocabulary_file(path, PIECES[:-1])


@pytest.mark.parametrize(
    "content", ["", "[]", '{"format": 2}', '{"format": 1, "ids": [1]}', "{", "\ufeff{}"]
)
def test_a_file_that_is_none_is_refused_with_a_way_out(tmp_path, content):
    path = tmp_path / "ids.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DraftVocabularyError, match="leave it out"):
        read_vocabulary_file(path, PIECES)


@pytest.mark.parametrize("ids", ["[]", "[-1]", "[8]", '["1"]', "[true]", "null"])
def test_ids_that_no_token_has_are_refused(tmp_path, ids):
    path = tmp_path / "ids.json"
    write_vocabulary_file([1], PIECES, path)
    path.write_text(path.read_text(encoding="utf-8").replace("[1]", ids), encoding="utf-8")
    with pytest.raises(DraftVocabularyError, match="no usable ids"):
        read_vocabulary_file(path, PIECES)


def test_the_tool_chooses_what_texts_use_and_keeps_control_tokens(tmp_path, capsys):
    text = tmp_path / "text"
    text.write_text("the dog and the river\n" * 50, encoding="utf-8")
    out = tmp_path / "ids.json"
    words = ["--model", str(BUNDLED_MODEL), "--text", str(text), "--most", "50", "--out", str(out)]
    assert draft_vocabulary.main(words) == 0
    assert "100.0% of the texts" in capsys.readouterr().out
    vocabulary = read_vocabulary(read_model_header(BUNDLED_MODEL).metadata)
    ids = set(read_vocabulary_file(out, vocabulary.tokens).tolist())
    control = {i for i in range(len(vocabulary.tokens)) if vocabulary.is_control(i)}
    assert control < ids
    assert len(ids) <= len(control) + 50


def test_the_head_proposes_only_its_vocabulary_with_the_same_logits(tmp_path):
    vocabulary = read_vocabulary(read_model_header(BUNDLED_MODEL).metadata)
    path = tmp_path / "ids.json"
    write_vocabulary_file(range(0, len(vocabulary.tokens), 3), vocabulary.tokens, path)
    logits = []
    for name in ("all", str(path)):
        config = RunConfig(model=BUNDLED_MODEL, context=256, threads=1, spec_vocabulary=name)
        loaded = load_model(config, parallel=1)
        model = loaded.model
        sequence = model.new_sequence()
        result = model.forward(Batch([BatchEntry(sequence, [5, 6, 7, 8])]))
        streams = result.streams_of(0).copy()
        sequence.commit(4)
        logits.append(
            model.mtp.forward([DraftEntry(sequence, streams, [6, 7, 8, 9])]).logits.copy()
        )
        loaded.close()
    whole, part = logits
    assert np.isneginf(part[:, 1::3]).all()
    assert np.array_equal(part[:, ::3], whole[:, ::3])


def test_a_vocabulary_that_cannot_be_used_is_said_and_left_out(tmp_path, caplog):
    header = read_model_header(BUNDLED_MODEL)
    config = RunConfig(model=BUNDLED_MODEL, spec_vocabulary=str(tmp_path / "none"))
    assert draft_ids(config, header) is None
    assert "may propose every token" in caplog.text
    assert len(draft_ids(RunConfig(model=BUNDLED_MODEL, spec_vocabulary="en"), header)) > 100
