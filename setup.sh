#!/usr/bin/env bash
# Installs Stratum into this folder (.venv) and starts the installer, or what is installed already.
# Nothing outside the folder is changed before that, except that as root a missing Python, and for
# --test --slow a missing browser and desktop, are installed with apt. A second run skips what is already
# there. What was installed, and from which requirements, is kept in .venv/stratum-installed.
[ -n "${BASH_VERSION:-}" ] || exec bash "$0" "$@" # started as `sh setup.sh`
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: ./setup.sh [MODE] [OPTIONS]

  (no mode)         the installer: looks at this PC, recommends a model, downloads it, starts it;
                    later starts begin with what is installed
  --check           say what this PC can run, and end (--json: for programs)
  --calibrate       measure the settings that are fastest on this PC
  --repair          verify everything that is installed, and fetch what is damaged
  --move-data DIR   move models, chats and their settings to another folder
  --roll-back       go back to the version before an update
  --care            the window to move, repair and go back
  --uninstall       remove Stratum (--yes: without questions; models and chats are kept)
  --serve           start the server with the chosen model, or the bundled one
  --demo            show the bundled model at work (a meaning, a copy, a tool call), end
  --test            install with the tools for development, check style and types, run the tests
  --test --slow     the same, then the slow tests too

  --headless        no window: the installer in the terminal
  --yes             no questions: take what is recommended
  --model ID        install this model (the list: docs/install.md)
  --data-dir DIR    where models, chats and settings of models go
  --json            one JSON object on standard output, and nothing else there
  --no-start        install only
  --prompt TEXT     with --demo: ask this one question instead
  -h, --help        this text

Options after `--` are passed on: to the server (./setup.sh -- --port 8081), with --demo to
`engine demo` (`engine run` if there is a --prompt), with --test to pytest.
TEXT
}

as_json=no
say() { # progress; where standard output belongs to a program, to standard error
  if [ "$as_json" = yes ]; then printf '%s\n' "$*" >&2; else printf '%s\n' "$*"; fi
}
fail() { # fail STATUS SENTENCE
  printf 'setup: %s\n' "$2" >&2
  exit "$1"
}

mode="" slow=no start=yes prompt="" headless=no
rest=() passed=()
choose() { # choose MODE: only one can be
  [ -z "$mode" ] || [ "$mode" = "$1" ] || fail 2 "--$mode and --$1 cannot be combined. Choose one."
  mode=$1
}
value_of() { # value_of OPTION VALUE...: the text after an option
  [ $# -ge 2 ] || fail 2 "$1 needs a value after it."
  case "$2" in "" | --*) fail 2 "$1 needs a value after it." ;; esac
}
came_from=$(pwd -P)
pass_folder() { # pass_folder OPTION FOLDER: taken from where the person is
  case "$2" in /*) passed+=("$1" "$2") ;; *) passed+=("$1" "$came_from/$2") ;; esac
}
while [ $# -gt 0 ]; do
  case "$1" in
    --demo | --test | --serve) choose "${1#--}" ;;
    --check | --calibrate | --repair | --roll-back | --care | --uninstall)
      choose "${1#--}"
      passed+=("$1")
      ;;
    --move-data)
      value_of "$@"
      choose "${1#--}"
      pass_folder "$1" "$2"
      shift
      ;;
    --headless)
      headless=yes
      passed+=("$1")
      ;;
    --yes) passed+=("$1") ;;
    --json)
      as_json=yes
      passed+=("$1")
      ;;
    --model)
      value_of "$@"
      passed+=("$1" "$2")
      shift
      ;;
    --data-dir)
      value_of "$@"
      pass_folder "$1" "$2"
      shift
      ;;
    --slow) slow=yes ;;
    --no-start) start=no ;;
    --prompt)
      [ $# -ge 2 ] || fail 2 "--prompt needs a text after it."
      [ -n "$2" ] || fail 2 "the text after --prompt is empty. Write a question there."
      prompt=$2
      shift
      ;;
    -h | --help)
      usage
      exit 0
      ;;
    --)
      shift
      rest=("$@")
      break
      ;;
    *) fail 2 "unknown option $1. Type ./setup.sh --help for the list." ;;
  esac
  shift
done
[ -z "$prompt" ] || [ "$mode" = demo ] || fail 2 "--prompt needs --demo beside it."
[ "$slow" = no ] || [ "$mode" = test ] || fail 2 "--slow needs --test beside it."
case "$mode" in
  demo | test | serve)
    [ ${#passed[@]} -eq 0 ] || fail 2 "${passed[0]} is for the installer and cannot stand beside --$mode."
    ;;
  "")
    if [ ${#rest[@]} -gt 0 ]; then
      [ ${#passed[@]} -eq 0 ] || fail 2 "options after -- are for the server and cannot stand beside ${passed[0]}."
      mode=serve
    elif [ "$start" = no ] && [ ${#passed[@]} -eq 0 ]; then
      mode=packages
    else
      mode=installer
    fi
    ;;
esac
# No window is wanted, or there is no screen for one.
if [ "$mode" = installer ] && [ -z "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ] && [ "$headless" = no ]; then
  headless=yes
  passed+=(--headless)
fi
wants_window=no
if [ "$mode" = installer ] && [ "$headless" = no ] && [ "$as_json" = no ]; then wants_window=yes; fi
if [ "$mode" = care ] && [ -n "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ]; then wants_window=yes; fi
case "$mode" in
  installer | check | calibrate | repair | uninstall)
    [ "$start" = yes ] || passed+=(--no-start)
    ;;
esac

# The folder of this script, also when it is called through a link or from elsewhere.
script=${BASH_SOURCE[0]}
while [ -L "$script" ]; do
  target=$(readlink "$script")
  case "$target" in /*) script=$target ;; *) script=$(dirname "$script")/$target ;; esac
done
root=$(cd "$(dirname "$script")" && pwd -P)
cd "$root"

venv="$root/.venv"
python="$venv/bin/python"
installed="$venv/stratum-installed"
made="$venv/stratum-made"
log="$root/.state/setup.log"
{ mkdir -p "$root/.state" && : >"$log"; } 2>/dev/null ||
  fail 1 "the folder $root cannot be written to. Copy it to a place that belongs to you, such as your home folder, and start again there."
trap 'printf "\n" >&2; fail 130 "stopped. Start again to go on."' INT

# Stratum brings its own pins; a person's pip settings must not change them.
unset PIP_REQUIRE_VIRTUALENV PIP_CONSTRAINT PIP_TARGET PIP_USER PYTHONHOME PYTHONPATH || true
export PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONUTF8=1

usable_python() { # a Python proves itself by running, not by being found
  "$1" -c 'import sys, venv, ensurepip
sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' >>"$log" 2>&1
}

find_python() {
  local name
  for name in "${STRATUM_PYTHON:-}" python3.12 python3.13 python3.11 python3 python; do
    if [ -n "$name" ] && command -v "$name" >/dev/null 2>&1 && usable_python "$name"; then
      command -v "$name"
      return 0
    fi
  done
  return 1
}

install_hint() {
  if command -v apt-get >/dev/null 2>&1; then
    printf '%s' "sudo apt-get install python3.12 python3.12-venv   (or python3.11 python3.11-venv)"
  elif command -v dnf >/dev/null 2>&1; then
    printf '%s' "sudo dnf install python3.12"
  elif command -v pacman >/dev/null 2>&1; then
    printf '%s' "sudo pacman -S python312   (or any Python 3.11 to 3.13)"
  elif command -v zypper >/dev/null 2>&1; then
    printf '%s' "sudo zypper install python312"
  else
    printf '%s' "install Python 3.12 from your system's packages"
  fi
}

apt_python() {
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || return 1
  say "No Python 3.11 to 3.13 here: installing one with apt ..."
  DEBIAN_FRONTEND=noninteractive apt-get update >>"$log" 2>&1 || true
  local version
  for version in 3.12 3.13 3.11; do
    if DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
      "python$version" "python$version-venv" >>"$log" 2>&1; then
      return 0
    fi
  done
  DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
    python3 python3-venv >>"$log" 2>&1
}

make_venv() {
  local found
  # One whose making was interrupted has a Python and no pip: it is made anew.
  if [ -f "$made" ] || [ -f "$installed" ]; then
    if [ -x "$python" ] && usable_python "$python"; then return 0; fi
  fi
  rm -rf "$venv"
  found=$(find_python) || { apt_python && found=$(find_python); } || found=""
  if [ -z "$found" ] && command -v uv >/dev/null 2>&1 &&
    uv venv -q --seed --python 3.12 "$venv" >>"$log" 2>&1; then
    return 0
  fi
  [ -n "$found" ] ||
    fail 1 "Stratum needs Python 3.11, 3.12 or 3.13 with its venv module, and found none. Type this, then start again: $(install_hint)"
  say "Creating .venv with $("$found" --version) ..."
  if command -v uv >/dev/null 2>&1; then
    uv venv -q --seed --python "$found" "$venv" >>"$log" 2>&1 && return 0
    rm -rf "$venv"
  fi
  "$found" -m venv "$venv" >>"$log" 2>&1 ||
    fail 1 "Python could not create the folder .venv (free space? write permission?). Details: $log"
}

apt_browser() { # for the slow tests of the chat page; without one they are skipped with that reason
  local name
  for name in chromium chromium-browser google-chrome google-chrome-stable; do
    ! command -v "$name" >/dev/null 2>&1 || return 0
  done
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || return 0
  say "Installing Chromium with apt for the tests of the chat page ..."
  {
    DEBIAN_FRONTEND=noninteractive apt-get update || true
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends chromium || true
  } >>"$log" 2>&1
}

lacks_for_desktop() { # what the tests of real windows need and this machine has not
  local name
  for name in Xvfb openbox tint2 xdotool xwininfo xprop import; do
    command -v "$name" >/dev/null 2>&1 || printf '%s ' "$name"
  done
  missing_library_of xcb || printf '%s' "a part of Qt"
}

apt_desktop() { # for the tests of real windows; without one they are skipped with that reason
  [ -n "$(lacks_for_desktop)" ] || return 0
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || return 0
  say "Installing a desktop that nobody sees with apt for the tests of windows ..."
  {
    DEBIAN_FRONTEND=noninteractive apt-get update || true
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends xvfb openbox tint2 \
      xdotool x11-utils imagemagick $qt_packages || true
  } >>"$log" 2>&1
}

test_desktop() { # test_desktop PYTEST-OPTIONS...: real windows, tray and clicks
  local lacking status=0
  lacking=$(lacks_for_desktop)
  if [ -n "$lacking" ]; then
    say "Skipped the tests of real windows (marker desktop); not installed here: $lacking"
    return 0
  fi
  "$python" -m pytest -q -n 2 -m "desktop and not wine" "$@" || status=$?
  # 5: none is left of those that were asked for.
  [ "$status" = 5 ] && [ $# -gt 0 ] || return "$status"
}

fingerprint() { cksum "requirements/$1.txt" | tr -s ' \t' '-'; }

is_installed() { [ -f "$installed" ] && [ -f "requirements/$1.txt" ] && grep -qxF "$1 $(fingerprint "$1")" "$installed"; }

try_set() { # try_set NAME: install requirements/NAME.txt unless it is there
  is_installed "$1" && return 0
  if command -v uv >/dev/null 2>&1; then
    uv pip install -q --python "$python" --require-hashes -r "requirements/$1.txt" >>"$log" 2>&1 ||
      return 1
  else
    "$python" -m pip install -q --no-input --require-hashes -r "requirements/$1.txt" \
      >>"$log" 2>&1 || return 1
  fi
  { [ -f "$installed" ] && grep -v "^$1 " "$installed" || true; } >"$installed.new"
  printf '%s\n' "$1 $(fingerprint "$1")" >>"$installed.new"
  mv "$installed.new" "$installed"
}

install_set() { # install_set NAME SENTENCE
  is_installed "$1" && return 0
  say "$2"
  try_set "$1" && return 0
  tail -n 5 "$log" >&2
  fail 1 "the packages of requirements/$1.txt could not be installed (network? free space?). Nothing is lost: start again to go on. Details: $log"
}

missing_library() { # what Qt's window plugin lacks on this system; nothing when it can open one
  if [ -n "${DISPLAY:-}" ]; then
    missing_library_of xcb
  elif [ -n "${WAYLAND_DISPLAY:-}" ]; then
    missing_library_of wayland wayland-generic
  fi
}

missing_library_of() { # missing_library_of PLUGIN...
  "$python" - "$@" 2>>"$log" <<'PYTHON'
import ctypes, pathlib, sys
import PySide6
folder = pathlib.Path(PySide6.__file__).parent / "Qt" / "plugins" / "platforms"
names = [f"libq{name}.so" for name in sys.argv[1:]]
for path in (folder / name for name in names if (folder / name).exists()):
    try:
        ctypes.CDLL(str(path))
    except OSError as error:
        sys.exit(print(str(error).split(":")[0]))
PYTHON
}

go_headless() { # go_headless SENTENCE
  say "$1 Going on in this terminal."
  wants_window=no
  passed+=(--headless)
}

install_window() { # the packages of the window; without them the terminal does the same
  is_installed app || say "Installing the window (about 250 MB on disk) ..."
  if ! try_set app; then
    go_headless "The window's packages could not be installed (details: $log)."
    return 0
  fi
  local missing
  missing=$(missing_library) || missing=${missing:-"a part of Qt"}
  [ -z "$missing" ] || go_headless "The window needs the system library $missing. $(qt_hint)"
}

# Of Debian and its like: what Qt needs to open a window of X11.
qt_packages="libegl1 libgl1 libxkbcommon-x11-0 libdbus-1-3 libfontconfig1 libglib2.0-0 libxcb-cursor0 libxcb-icccm4 libxcb-image0 libxcb-keysyms1 libxcb-randr0 libxcb-render-util0 libxcb-shape0"

qt_hint() {
  if command -v apt-get >/dev/null 2>&1; then
    printf '%s' "To have it, type: sudo apt-get install $qt_packages."
  else
    printf '%s' "Install Qt 6's xcb libraries from your system's packages to have it."
  fi
}

leave_nothing() { # after an uninstallation: what only this script can remove
  [ -e "$root/.state/uninstalled" ] || return 0
  rm -rf "$venv" "$root/.state"
  [ -f "$root/release.json" ] || { say "The program itself is still in $root; delete that folder."; return 0; }
  rm -f "$root/release.json" "$root/START-HERE.bat" "$root/setup.sh"
  rmdir "$root" 2>/dev/null || say "Files of yours are still in $root."
}

make_venv
: >"$made"
if [ "$mode" = test ]; then
  [ -f requirements/dev.txt ] || fail 2 "a release brings no tests. Get the sources to run them."
  install_set dev "Installing the engine and the tools for development (about 400 MB on disk; takes minutes) ..."
elif ! is_installed dev && ! is_installed app; then
  install_set base "Installing the engine (about 200 MB on disk; a minute, more on a slow connection) ..."
fi
[ "$wants_window" = no ] || install_window
# The card's packages, once the engine has operations for it.
if [ -f engine/ops/cuda.py ] && { [ -e /proc/driver/nvidia/version ] || command -v nvidia-smi >/dev/null 2>&1; }; then
  is_installed cuda12 || say "Installing the packages for the graphics card ..."
  try_set cuda12 || say "They could not be installed; Stratum uses the processor until then (details: $log)."
fi
if [ "$mode" = packages ] || { [ "$start" = no ] && [[ "$mode" =~ ^(demo|test|serve)$ ]]; }; then
  say "Installed. Start Stratum with: $([ "$came_from" = "$root" ] || printf 'cd %q && ' "$root")./setup.sh"
  exit 0
fi

trap - INT
case "$mode" in
  demo)
    say "This is Stratum's tiny bundled model: it shows the engine at work, not a large model's knowledge."
    [ -n "$prompt" ] || exec "$python" -m engine demo ${rest[@]+"${rest[@]}"}
    say "Question: $prompt"
    exec "$python" -m engine run --prompt "$prompt" --reasoning-effort none --temperature 0 --max-tokens 200 \
      ${rest[@]+"${rest[@]}"}
    ;;
  test)
    "$python" -m ruff check .
    "$python" -m ruff format --check .
    "$python" -m mypy
    "$python" -m engine.kernels.build --check
    marks="not slow and not desktop and not wine and not gpu"
    # Two at a time: most of the time goes into starting servers and commands, and waiting for them.
    "$python" -m pytest -q -n 2 -m "$marks" ${rest[@]+"${rest[@]}"}
    if [ "$slow" = yes ]; then
      apt_browser
      "$python" -m pytest -q -n 2 -m "slow and not desktop and not wine and not gpu" \
        ${rest[@]+"${rest[@]}"}
      apt_desktop
    fi
    test_desktop ${rest[@]+"${rest[@]}"}
    ;;
  serve)
    exec "$python" -m engine serve ${rest[@]+"${rest[@]}"}
    ;;
  uninstall)
    status=0
    "$python" -m installer ${passed[@]+"${passed[@]}"} || status=$?
    [ "$status" != 0 ] || leave_nothing
    exit "$status" # read before the file is gone
    ;;
  *)
    exec "$python" -m installer ${passed[@]+"${passed[@]}"}
    ;;
esac
