import os
import subprocess
import sys

import pytest

from engine.core.error_lines import error_line, parse_error_line
from engine.core.errors import EngineError


def test_an_error_comes_back_with_its_code_and_values():
    error = EngineError("Port 8080 für alle\nis in use.", code="port_in_use", params={"port": 8080})
    line = error_line(error)
    assert "\n" not in line
    assert line.isascii()
    back = parse_error_line(line)
    assert back is not None
    assert (back.code, back.message, back.params) == (error.code, error.message, error.params)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "engine serve: Port 8080 is in use.",
        '{"error": ',
        '{"error": 5}',
        '{"error": {"code": 1, "message": "", "params": {}}}',
        '{"error": {"code": "x", "message": "y", "params": []}}',
    ],
)
def test_any_other_line_is_no_error(line):
    assert parse_error_line(line) is None


@pytest.mark.parametrize("wanted", ["1", ""])
def test_a_command_says_its_error_to_a_program_only_when_asked(wanted, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "engine", "serve", "--config", str(tmp_path / "none.json")],
        env={**os.environ, "STRATUM_ERROR_LINES": wanted},
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=300,
    )
    assert done.returncode == 2
    lines = done.stderr.splitlines()
    errors = [error for line in lines if (error := parse_error_line(line)) is not None]
    assert [error.code for error in errors] == (["file_not_readable"] if wanted else [])
    assert lines[-1].startswith("engine serve: ")
