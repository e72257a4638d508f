"""The recipes of docs/clients.md, so that what is tested is what people are told to write."""

import textwrap
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "clients.md"
ADDRESS = "http://127.0.0.1:8080"


def recipe_blocks(program, url):
    """The indented blocks of a program's section, with the server's address."""
    section = PAGE.read_text(encoding="utf-8").split(f"## {program}\n")[1].split("\n## ")[0]
    blocks, lines = [], []
    for line in [*section.splitlines(), "end"]:
        if line.startswith("    "):
            lines.append(line)
        elif line:
            if lines:
                blocks.append(textwrap.dedent("\n".join(lines)).replace(ADDRESS, url))
            lines = []
        elif lines:
            lines.append(line)
    return blocks
