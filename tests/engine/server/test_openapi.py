"""`docs/openapi.yaml` says what the server does: all its routes, and (slow) what is sent by it."""

import os
import subprocess
import sysconfig
from pathlib import Path

import pytest
import yaml

from tests.support.routes import ROUTES

DOCUMENT = Path(__file__).parents[3] / "docs" / "openapi.yaml"
SCRIPT = {"context": 4096, "answers": [{"times": 0, "text": "Hm.</think>\n\n{}", "group": 8}]}
BUDGET_S = 45


def test_the_document_has_exactly_the_routes_of_the_server():
    document = yaml.safe_load(DOCUMENT.read_text(encoding="utf-8"))
    found = {
        (path, method.upper())
        for path, item in document["paths"].items()
        for method in item
        if method != "parameters"
    }
    listed = {
        (route.template.replace(":path", ""), method)
        for route in ROUTES
        for method in route.methods
    }
    assert found == listed
    for route in ROUTES:
        for method in route.methods:
            operation = document["paths"][route.template.replace(":path", "")][method.lower()]
            assert (operation.get("security") == []) is route.open
            assert ("control" in operation["tags"]) is route.control


@pytest.mark.slow
@pytest.mark.timeout(BUDGET_S * 20)
def test_what_the_document_allows_and_forbids_gives_only_answers_that_it_names(
    start_server, tmp_path
):
    server = start_server(SCRIPT)
    program = Path(sysconfig.get_path("scripts")) / ("st.exe" if os.name == "nt" else "st")
    done = subprocess.run(
        [
            *(
                program,
                "run",
                DOCUMENT,
                "--url",
                server.url,
                "--phases",
                "examples,coverage,fuzzing",
            ),
            *("--mode", "all", "--max-examples", "12", "--max-time", str(BUDGET_S), "--no-color"),
            *("--seed", "1", "--generation-database", "none", "--exclude-path", "/shutdown"),
            *("--checks", "not_a_server_error,status_code_conformance,content_type_conformance"),
            *("--checks", "response_schema_conformance", "--request-timeout", "90"),
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "Traceback" not in server.log()
    assert server.chat("hello").status_code == 200
