"""`setup.sh`: what it says when it cannot go on, and (slow) a demo in a copy whose path is awkward."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="setup.sh is for Linux")


def copy_without_environment(target: Path) -> Path:
    """The files that a clone would have."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout
    for name in listed.decode().split("\0"):
        source = ROOT / name
        if name and source.is_file() and not name.startswith("tests/"):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)
    return target


def setup(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(folder / "setup.sh"), *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=600,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
    )


def bare_path(folder: Path, *extra: str) -> str:
    """A PATH with the tools that setup.sh uses and no Python, no uv and no package manager."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("bash", "env", "dirname", "readlink", "mkdir", "rm", "id", "cksum", "tr", *extra):
        found = shutil.which(name)
        assert found, name
        (folder / name).symlink_to(found)
    return str(folder)


@pytest.fixture
def bare_copy(tmp_path: Path) -> Path:
    folder = tmp_path / "Stratum ünï 中文"
    (folder / "requirements").mkdir(parents=True)
    shutil.copy2(ROOT / "setup.sh", folder)
    return folder


def test_an_unknown_option_is_named_and_nothing_is_made(bare_copy: Path) -> None:
    done = setup(bare_copy, "--dmeo")
    assert done.returncode == 2
    assert done.stderr.strip() == (
        "setup: unknown option --dmeo. Type ./setup.sh --help for the list."
    )
    assert not (bare_copy / ".venv").exists()


def test_without_any_python_it_says_what_to_type(bare_copy: Path, tmp_path: Path) -> None:
    done = setup(bare_copy, "--demo", PATH=bare_path(tmp_path / "bin"))
    assert done.returncode == 1
    assert "Python 3.11, 3.12 or 3.13" in done.stderr
    assert "then start again" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_python_that_is_found_but_does_not_run_is_passed_over(
    bare_copy: Path, tmp_path: Path
) -> None:
    path = bare_path(tmp_path / "bin")
    fake = Path(path) / "python3"
    fake.write_text("#!/bin/sh\nexit 127\n")
    fake.chmod(0o755)
    done = setup(bare_copy, "--demo", PATH=path)
    assert done.returncode == 1
    assert "found none" in done.stderr


def test_a_failed_installation_shows_the_reason_and_can_be_repeated(
    bare_copy: Path, tmp_path: Path
) -> None:
    wrong = "numpy==2.4.6 --hash=sha256:" + "0" * 64
    (bare_copy / "requirements" / "base.txt").write_text(wrong + "\n")
    path = bare_path(tmp_path / "bin", "tail", "grep", "mv")
    done = setup(bare_copy, "--demo", PATH=path, STRATUM_PYTHON=sys.executable, PIP_NO_INDEX="1")
    assert done.returncode == 1
    assert "could not be installed" in done.stderr
    assert not (bare_copy / ".venv" / "stratum-installed").exists()


def test_an_environment_whose_making_was_interrupted_is_made_anew(
    bare_copy: Path, tmp_path: Path
) -> None:
    """A stop between Python and pip leaves a Python that runs and can install nothing."""
    (bare_copy / "requirements" / "base.txt").write_text("numpy==2.4.6 --hash=sha256:0\n")
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", bare_copy / ".venv"],
        check=True,
        timeout=300,
    )
    path = bare_path(tmp_path / "bin", "tail", "grep", "mv")
    done = setup(bare_copy, "--demo", PATH=path, STRATUM_PYTHON=sys.executable, PIP_NO_INDEX="1")
    assert "No module named pip" not in done.stderr
    assert (bare_copy / ".venv" / "bin" / "pip").exists()


def test_an_option_that_would_be_ignored_is_refused(bare_copy: Path) -> None:
    for option, partner in ((["--prompt", "Hello"], "--demo"), (["--slow"], "--test")):
        done = setup(bare_copy, *option)
        assert done.returncode == 2
        assert done.stderr.strip() == f"setup: {option[0]} needs {partner} beside it."


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--demo", "--test"], "--demo and --test cannot be combined. Choose one."),
        (["--model"], "--model needs a value after it."),
        (["--model", "--yes"], "--model needs a value after it."),
        (["--demo", "--yes"], "--yes is for the installer and cannot stand beside --demo."),
        (
            ["--yes", "--", "--port", "1"],
            "options after -- are for the server and cannot stand beside --yes.",
        ),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    bare_copy: Path, options: list[str], sentence: str
) -> None:
    done = setup(bare_copy, *options)
    assert (done.returncode, done.stderr.strip()) == (2, f"setup: {sentence}")
    assert not (bare_copy / ".venv").exists()


@pytest.fixture
def installed_copy(bare_copy: Path, tmp_path: Path) -> Path:
    """A folder in which everything is installed, with a Python that shows its arguments."""
    (bare_copy / "requirements" / "base.txt").write_text("")
    (bare_copy / "requirements" / "app.txt").write_text("")
    (bare_copy / "requirements" / "dev.txt").write_text("")
    binaries = bare_copy / ".venv" / "bin"
    binaries.mkdir(parents=True)
    python = binaries / "python"
    python.write_text(
        "#!/bin/sh\n"
        'case "$1" in -c | -) exit 0 ;; esac\n'
        'for word in "$@"; do printf "<%s>" "$word"; done\n'
        '[ "$3" != --uninstall ] || { mkdir -p .state && : >.state/uninstalled; }\n'
    )
    python.chmod(0o755)
    lines = []
    for name in ("base", "app", "dev"):
        command = f"cksum requirements/{name}.txt | tr -s ' \\t' '-'"
        shown = subprocess.run(
            ["sh", "-c", command], cwd=bare_copy, capture_output=True, text=True, check=True
        )
        lines.append(f"{name} {shown.stdout.strip()}\n")
    (bare_copy / ".venv" / "stratum-installed").write_text("".join(lines))
    return bare_copy


@pytest.mark.parametrize(
    ("options", "display", "started"),
    [
        ([], "", "<-m><installer><--headless>"),
        ([], ":1", "<-m><installer>"),
        (["--headless", "--yes"], ":1", "<-m><installer><--headless><--yes>"),
        (
            ["--model", "tiny", "--data-dir", "/big drive", "--no-start"],
            ":1",
            "<-m><installer><--model><tiny><--data-dir></big drive><--no-start>",
        ),
        (["--check", "--json"], ":1", "<-m><installer><--check><--json>"),
        (["--calibrate"], "", "<-m><installer><--calibrate>"),
        (["--repair"], "", "<-m><installer><--repair>"),
        (["--", "--port", "8081"], "", "<-m><engine><serve><--port><8081>"),
        (["--serve"], ":1", "<-m><engine><serve>"),
    ],
)
def test_the_rest_is_handed_to_the_installer(
    installed_copy: Path, options: list[str], display: str, started: str
) -> None:
    done = setup(installed_copy, *options, DISPLAY=display, WAYLAND_DISPLAY="")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == started


def test_a_relative_data_folder_is_taken_from_where_the_person_is(
    installed_copy: Path, tmp_path: Path
) -> None:
    done = subprocess.run(
        [str(installed_copy / "setup.sh"), "--headless", "--data-dir", "models here"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.stdout == f"<-m><installer><--headless><--data-dir><{tmp_path}/models here>"


def test_installing_only_the_packages_ends_there(installed_copy: Path) -> None:
    done = setup(installed_copy, "--no-start")
    assert done.returncode == 0
    assert done.stdout.startswith("Installed. Start Stratum with:")


def test_json_output_is_not_mixed_with_progress(bare_copy: Path, tmp_path: Path) -> None:
    (bare_copy / "requirements" / "base.txt").write_text("numpy==2.4.6 --hash=sha256:0\n")
    path = bare_path(tmp_path / "bin", "tail", "grep", "mv")
    done = setup(
        bare_copy, "--check", "--json", PATH=path, STRATUM_PYTHON=sys.executable, PIP_NO_INDEX="1"
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "Creating .venv" in done.stderr


def test_real_windows_are_tested_where_a_desktop_can_be_started(
    installed_copy: Path, tmp_path: Path
) -> None:
    path = bare_path(tmp_path / "bin", "grep")
    done = setup(installed_copy, "--test", PATH=path)
    assert done.returncode == 0
    assert (
        "Skipped the tests of real windows (marker desktop); not installed here: Xvfb openbox"
        in (done.stdout)
    )
    assert "<desktop and not wine>" not in done.stdout
    for name in ("Xvfb", "openbox", "tint2", "xdotool", "xwininfo", "xprop", "import"):
        (tmp_path / "bin" / name).symlink_to("/bin/true")
    done = setup(installed_copy, "--test", "--", "-k", "tray", PATH=path)
    assert done.returncode == 0
    assert "<-m><desktop and not wine><-k><tray>" in done.stdout
    assert "Skipped" not in done.stdout


@pytest.mark.parametrize("is_release", [False, True])
def test_after_an_uninstallation_nothing_of_ours_is_left(
    installed_copy: Path, is_release: bool
) -> None:
    if is_release:
        shutil.rmtree(installed_copy / "requirements")  # the installer removes the program's files
        (installed_copy / "requirements").mkdir()
        for name in ("base", "app"):
            (installed_copy / "requirements" / f"{name}.txt").write_text("")
        (installed_copy / "release.json").write_text("{}")
        (installed_copy / "my notes.txt").write_text("mine")
    done = setup(installed_copy, "--uninstall")
    assert done.returncode == 0, done.stderr
    left = {path.name for path in installed_copy.iterdir()}
    if is_release:
        assert left == {"requirements", "my notes.txt"}
        assert "Files of yours are still in" in done.stdout
    else:
        assert left == {"requirements", "setup.sh"}
        assert "The program itself is still in" in done.stdout


def test_it_starts_under_sh_too(bare_copy: Path) -> None:
    done = subprocess.run(
        ["sh", str(bare_copy / "setup.sh"), "--help"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: ./setup.sh")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_demo_answers_in_a_fresh_copy_and_installs_nothing_the_second_time(
    tmp_path: Path,
) -> None:
    folder = copy_without_environment(tmp_path / "My Games ünï 中文")
    first = setup(folder, "--demo")
    assert first.returncode == 0, first.stderr
    assert "teaching" in first.stdout, first.stdout  # the bundled model knows this word
    second = setup(folder, "--demo", "--prompt", "Who are you?")
    assert second.returncode == 0, second.stderr
    assert "Installing" not in second.stdout
    assert "Question: Who are you?" in second.stdout
    answer = second.stdout.split("Question: Who are you?\n")[1]
    assert len(answer.split()) > 2
    installed = sum(
        path.lstat().st_size for path in (folder / ".venv").rglob("*") if not path.is_symlink()
    )
    assert installed < 400e6
