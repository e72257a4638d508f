"""The table of results: a row for each preset, failures too."""

import pytest

from bench import compare_peers, make_synthetic, table
from bench.compare_peers import Measured
from bench.server_process import Answer, Memory, ServerError
from bench.table import Floor


@pytest.fixture
def made(monkeypatch):
    """Files that are made, small ones."""
    paths = []

    def make(words):
        path = words[words.index("--out") + 1]
        paths.append(path)
        with open(path, "wb") as file:  # noqa: PTH123
            file.write(b"GGUF")

    monkeypatch.setattr(make_synthetic, "main", make)
    return paths


def measured(name, decode, prompt):
    answers = tuple(Answer(512, 48, p, d, None, None) for d, p in zip(decode, prompt, strict=True))
    return Measured(name, 1.0, answers, Memory(5 * 10**9, 250 * 10**6))


def test_a_row_has_medians_ratios_and_shares_of_the_floor(tmp_path, monkeypatch, made, capsys):
    sides = (
        measured("ours", (20.0, 10.0, 30.0), (100.0, 90.0, 95.0)),
        measured("peer", (16.0, 15.0, 17.0), (50.0, 38.0, 40.0)),
    )
    monkeypatch.setattr(compare_peers, "compare", lambda _: sides)
    monkeypatch.setattr(table, "_floor", lambda *_: Floor(1.06e9, 25.0))
    out = tmp_path / "r.md"
    words = ["--folder", str(tmp_path), "--out", str(out), "--presets", "q4_k"]
    assert table.main(words) == 0
    row = out.read_text(encoding="utf-8").splitlines()[-1]
    assert [cell.strip() for cell in row.strip("|").split("|")] == [
        *("q4_k", "1060", "25.0", "20.00", "16.00", "**1.25**", "80%", "64%"),
        *("95.0", "40.0", "**2.38**", "250", "250"),
    ]
    assert row in capsys.readouterr().out
    assert made == [str(tmp_path / "q4_k.gguf")]
    assert not (tmp_path / "q4_k.gguf").exists()


def test_a_preset_that_fails_has_its_reason_in_its_row_and_the_next_one_follows(
    tmp_path, monkeypatch, made
):
    def fail(_):
        raise ServerError("peer ended at its start:\nno memory")

    monkeypatch.setattr(compare_peers, "compare", fail)
    out = tmp_path / "r.md"
    words = ["--folder", str(tmp_path), "--out", str(out), "--presets", "q4_k", "q8_0"]
    assert table.main(words) == 1
    rows = out.read_text(encoding="utf-8").splitlines()[-2:]
    assert [row.split("|")[1].strip() for row in rows] == ["q4_k", "q8_0"]
    assert all("peer ended at its start" in row for row in rows)
    assert [path.name for path in tmp_path.iterdir()] == ["r.md"]
    assert len(made) == 2
