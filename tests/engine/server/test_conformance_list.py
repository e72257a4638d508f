"""`docs/conformance.md` names tests that exist, and leaves no promise out."""

import re
from pathlib import Path

FOLDER = Path(__file__).parent
PAGE = FOLDER.parents[2] / "docs" / "conformance.md"
ROW = re.compile(
    r"\| (?P<numbers>[\d, ]+) \| .+? \| (?P<tests>`.+`) \| (script|model|both|none) \|"
)
NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")
LAST = 87


def rows():
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    return [match for line in lines if (match := ROW.fullmatch(line))]


def test_every_promise_is_listed_once_in_order():
    numbers = [int(number) for row in rows() for number in row["numbers"].split(",")]
    assert numbers == list(range(1, LAST + 1))


def test_every_named_test_exists():
    missing = [
        f"{name}::{test}"
        for row in rows()
        for name, test in NAMED.findall(row["tests"])
        if not re.search(
            rf"^(async )?def {test}\(", (FOLDER / name).read_text(encoding="utf-8"), re.MULTILINE
        )
    ]
    assert missing == []
