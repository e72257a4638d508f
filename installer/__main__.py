"""`python -m installer`: what setup starts.

python -m installer --check [--json]     look at this PC, change nothing
"""

from __future__ import annotations

import argparse
import io
import json
import sys
from pathlib import Path

from engine.core.catalog_file import find_model, load_catalog
from engine.core.errors import EngineError
from engine.core.settings import load_settings
from installer.check import check, check_as_plain, check_lines
from installer.i18n.language import system_language
from installer.i18n.texts import Texts


def main(arguments: list[str] | None = None) -> int:
    """Run; the result is the exit status."""
    parser = argparse.ArgumentParser(prog="installer", allow_abbrev=False)
    parser.add_argument("--check", action="store_true", help="look at this PC, change nothing")
    parser.add_argument("--json", action="store_true", help="with --check: one JSON object")
    parser.add_argument("--data-dir", type=Path, help="where models go")
    parser.add_argument("--model", help="judge this model instead of recommending one")
    parser.add_argument("--context", type=int, help="with this context, in tokens")
    parser.add_argument("--agents", action="store_true", help="coding agents will use it")
    options = parser.parse_args(arguments)
    if not options.check:
        parser.error("this start knows --check only")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="replace")
    try:
        catalog = load_catalog()
        if options.model is not None:
            find_model(catalog, options.model)
        report = check(
            options.data_dir or load_settings().data_dir,
            catalog,
            for_coding_agents=options.agents,
            model_id=options.model,
            context=options.context,
        )
    except EngineError as error:
        sys.stderr.write(f"installer: {error}\n")
        return error.exit_status
    if options.json:
        sys.stdout.write(json.dumps(check_as_plain(report), ensure_ascii=False) + "\n")
    else:
        for line in check_lines(report, Texts(system_language())):
            sys.stdout.write(line + "\n")
    return report.exit_status


if __name__ == "__main__":
    sys.exit(main())
