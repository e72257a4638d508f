"""`START-HERE.bat`: its text everywhere, and (marked `wine`) what it does on a fresh Windows."""

import hashlib
import json
import re
import shutil
from pathlib import Path

import pytest

from tests.windows.wine import Wine
from tools.make_release import content_of

ROOT = Path(__file__).parents[2]
BATCH = ROOT / "START-HERE.bat"

# Stands for `installer` and `engine`: writes down how it was started.
PROGRAM = """
import json, os, sys
from pathlib import Path
root = Path(__file__).resolve().parents[1]
name = Path(__file__).resolve().parent.name
report = {"module": name, "arguments": sys.argv[1:], "folder": os.getcwd(),
          "program": Path(sys.executable).name}
(root / "started.json").write_text(json.dumps(report), encoding="utf-8")
if "--uninstall" in sys.argv:
    (root / ".state" / "uninstalled").write_text("")
"""


def text() -> str:
    return BATCH.read_bytes().decode("ascii")  # other letters come out wrong in a console


def test_lines_end_as_windows_wants_them():
    assert text().count("\n") == text().count("\r\n")
    assert "START-HERE.bat" not in (ROOT / ".gitignore").read_text()
    assert "*.bat text eol=crlf" in (ROOT / ".gitattributes").read_text()


def test_every_jump_has_its_label():
    labels = set(re.findall(r"^:(\w+)", text(), re.MULTILINE))
    jumps = set(re.findall(r"(?:goto|call) :?(\w+)", text()))
    jumps -= {"uv"}  # a program; the rest are labels
    assert jumps <= labels, jumps - labels
    assert labels <= jumps, labels - jumps


def test_it_knows_the_options_of_the_other_script():
    other = (ROOT / "setup.sh").read_text(encoding="utf-8")
    known = set(re.findall(r"^\s+(--[a-z-]+(?: \| --[a-z-]+)*)\)", other, re.MULTILINE))
    options = {word for line in known for word in line.split(" | ")} - {"--"}
    assert {"--headless", "--uninstall", "--demo"} <= options
    assert not {option for option in options if f'"{option}"' not in text()}


@pytest.fixture
def folder(wine_folder: Path) -> Path:
    """A release with nothing to install and programs that only report."""
    (wine_folder / BATCH.name).write_bytes(content_of(ROOT, BATCH.name))  # as in the zip
    (wine_folder / "pyproject.toml").write_text("")
    (wine_folder / "requirements").mkdir()
    for name in ("base", "app"):
        (wine_folder / "requirements" / f"{name}.txt").write_text("# nothing\n")
    for name in ("installer", "engine"):
        (wine_folder / name).mkdir()
        (wine_folder / name / "__main__.py").write_text(PROGRAM)
    return wine_folder


@pytest.fixture
def start(wine: Wine, folder: Path):
    def run(*words: str, path: str = "", after: str = "", **environment: str):
        # A file of its own: quotes in an argument do not reach cmd as they are.
        lines = ["@echo off", " ".join(["call START-HERE.bat", *words]), after, ""]
        driver = folder.parent / "driver.bat"
        driver.write_bytes("\r\n".join(lines).encode())
        return wine.run("cmd", "/c", "..\\driver.bat", cwd=folder, WINEPATH=path, **environment)

    return run


def started(folder: Path) -> dict[str, object]:
    return json.loads((folder / "started.json").read_text(encoding="utf-8"))


def stub(folder: Path, name: str, *lines: str) -> str:
    """A program of this name; what belongs on WINEPATH."""
    where = folder / "stubs"
    where.mkdir(exist_ok=True)
    (where / f"{name}.bat").write_bytes("\r\n".join(["@echo off", *lines, ""]).encode())
    return ".\\stubs"


@pytest.mark.wine
@pytest.mark.timeout(900)
def test_with_a_python_on_the_path_it_installs_and_the_second_start_is_at_once(
    wine: Wine, folder: Path, start
):
    python = wine.windows_path(wine.python)
    first = start("--headless", "--yes", "--data-dir", '"models here"', path=python)
    assert first.returncode == 0, first.stderr
    assert "Creating .venv" in first.stdout
    report = started(folder)
    assert report["module"] == "installer"
    expected = wine.windows_path(folder / "models here")
    assert report["arguments"] == ["--headless", "--yes", "--data-dir", expected]
    assert report["folder"] == wine.windows_path(folder)

    # A double-click: the window's Python is started and the console ends.
    python_exe = wine.windows_path(wine.python / "python.exe")
    look = "[time.sleep(0.1) for _ in range(1200) if not os.path.exists('started.json')]"
    wait = f'"{python_exe}" -c "import os, time; {look}; time.sleep(1)"'
    assert start(path=python).returncode == 0  # installs the window's packages
    (folder / "started.json").unlink(missing_ok=True)
    second = start(after=wait)
    assert "Installing" not in second.stdout
    assert "Creating" not in second.stdout
    assert (started(folder)["module"], started(folder)["program"]) == ("installer", "pythonw.exe")

    # What a program reads is not mixed with progress.
    quiet = start("--check", "--json")
    assert quiet.stdout == ""
    assert started(folder)["arguments"] == ["--check", "--json"]

    (folder / "release.json").write_text("{}")
    (folder / "my notes.txt").write_text("mine")
    gone = start("--uninstall", "--yes")
    assert started(folder)["arguments"] == ["--uninstall", "--yes"]
    left = {path.name for path in folder.iterdir()}
    assert not left & {".venv", ".state", "release.json", "START-HERE.bat"}, gone.stderr
    assert "my notes.txt" in left


@pytest.mark.wine
@pytest.mark.timeout(900)
def test_the_uv_of_a_release_makes_the_environment(wine: Wine, folder: Path, start):
    (folder / "bin").mkdir()
    shutil.copy2(wine.uv, folder / "bin" / "uv.exe")
    done = start("--headless", path=wine.windows_path(wine.python), UV_PYTHON_DOWNLOADS="never")
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert "Preparing Python" in done.stdout
    assert started(folder)["arguments"] == ["--headless"]
    users = wine.work / "prefix" / "drive_c" / "users"
    assert not [path for path in users.rglob("uv") if path.is_dir()]  # all of it is in our folder


@pytest.mark.wine
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("sum_line", "is_refused"),
    [
        ("{pinned}", False),
        ("{spaced}", False),
        ("{wrong}", True),
        ("CertUtil: -hashfile command FAILED", False),  # what cannot be compared is used
    ],
)
def test_a_uv_that_is_not_the_releases_is_refused(
    wine: Wine, folder: Path, start, sum_line: str, is_refused: bool
):
    match = re.search(r'set "UV_SHA256=([0-9a-f]{64})"', text())
    assert match is not None
    pinned = match[1]
    assert hashlib.sha256(wine.uv.read_bytes()).hexdigest() == pinned
    spaced = " ".join(pinned[i : i + 2] for i in range(0, 64, 2)).upper()
    line = sum_line.format(pinned=pinned, spaced=spaced, wrong="0" * 64)
    stub(folder, "certutil", "echo SHA256-Hash von bin\\uv.exe:", f"echo {line}", "echo Ende")
    (folder / "bin").mkdir()
    shutil.copy2(wine.uv, folder / "bin" / "uv.exe")
    done = start(
        "--headless",
        path=wine.windows_path(wine.python),
        UV_PYTHON_DOWNLOADS="never",
        CERTUTIL=".\\stubs\\certutil.bat",
    )
    assert done.returncode == (1 if is_refused else 0), (done.stdout, done.stderr)
    assert ("Extract the zip once more" in done.stderr) is is_refused


@pytest.mark.wine
def test_without_any_python_it_says_what_to_type(folder: Path, start):
    done = start("--headless")
    assert done.returncode == 1
    assert "winget install --id Python.Python.3.12" in done.stderr
    assert not (folder / "started.json").exists()


@pytest.mark.wine
@pytest.mark.parametrize(
    "lines",
    [
        [
            "echo Python was not found; run without arguments to install from the Store.",
            "exit /b 9009",
        ],
        ["echo Python 3.8.10", "exit /b 1"],
    ],
)
def test_the_alias_of_the_store_and_an_old_python_are_no_python(
    folder: Path, start, lines: list[str]
):
    done = start("--headless", path=stub(folder, "python", *lines))
    assert done.returncode == 1
    assert "needs Python 3.11, 3.12 or 3.13" in done.stderr


@pytest.mark.wine
def test_inside_a_zip_it_says_so(folder: Path, start):
    (folder / "pyproject.toml").unlink()
    done = start("--headless")
    assert done.returncode == 1
    assert "Extract the whole zip" in done.stderr
    assert not (folder / ".state").exists()


@pytest.mark.wine
def test_wrong_options_are_named(folder: Path, start):
    done = start("--dmeo")
    assert (done.returncode, done.stderr.strip()) == (
        2,
        "setup: unknown option --dmeo. Type START-HERE.bat --help for the list.",
    )
    assert start("--model").returncode == 2
