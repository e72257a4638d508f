#!/usr/bin/env bash
# Installs Stratum into this folder (.venv) and starts it. Nothing outside the folder is changed,
# except that as root a missing Python, and for --test --slow a missing browser, are installed with apt.
# A second run skips what is already there. What was installed, and from which requirements, is kept in
# .venv/stratum-installed.
[ -n "${BASH_VERSION:-}" ] || exec bash "$0" "$@" # started as `sh setup.sh`
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: ./setup.sh [MODE] [OPTIONS]

  (no mode)         install, then start the server with the bundled model
  --demo            install, show the bundled model at work (a meaning, a copy, a tool call), end
  --test            install with the tools for development, check style and types, run the tests
  --test --slow     the same, then the slow tests too

  --prompt TEXT     with --demo: ask this one question instead
  --no-start        install only
  -h, --help        this text

Options after `--` are passed on: to the server (./setup.sh -- --port 8081), with --demo to
`engine demo` (`engine run` if there is a --prompt), with --test to pytest. A second start skips
what is installed already.
TEXT
}

say() { printf '%s\n' "$*"; }
fail() { # fail STATUS SENTENCE
  printf 'setup: %s\n' "$2" >&2
  exit "$1"
}

mode=serve slow=no start=yes prompt=""
rest=()
while [ $# -gt 0 ]; do
  case "$1" in
    --demo) mode=demo ;;
    --test) mode=test ;;
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

# The folder of this script, also when it is called through a link or from elsewhere.
script=${BASH_SOURCE[0]}
while [ -L "$script" ]; do
  target=$(readlink "$script")
  case "$target" in /*) script=$target ;; *) script=$(dirname "$script")/$target ;; esac
done
root=$(cd "$(dirname "$script")" && pwd -P)
came_from=$(pwd -P)
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
    say "sudo apt-get install python3.12 python3.12-venv   (or python3.11 python3.11-venv)"
  elif command -v dnf >/dev/null 2>&1; then
    say "sudo dnf install python3.12"
  elif command -v pacman >/dev/null 2>&1; then
    say "sudo pacman -S python312   (or any Python 3.11 to 3.13)"
  elif command -v zypper >/dev/null 2>&1; then
    say "sudo zypper install python312"
  else
    say "install Python 3.12 from your system's packages"
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

fingerprint() { cksum "requirements/$1.txt" | tr -s ' \t' '-'; }

is_installed() { [ -f "$installed" ] && grep -qxF "$1 $(fingerprint "$1")" "$installed"; }

install_set() { # install_set NAME SENTENCE
  is_installed "$1" && return 0
  say "$2"
  local failed=no
  if command -v uv >/dev/null 2>&1; then
    uv pip install -q --python "$python" --require-hashes -r "requirements/$1.txt" >>"$log" 2>&1 ||
      failed=yes
  else
    "$python" -m pip install -q --no-input --require-hashes -r "requirements/$1.txt" \
      >>"$log" 2>&1 || failed=yes
  fi
  if [ "$failed" = yes ]; then
    tail -n 5 "$log" >&2
    fail 1 "the packages of requirements/$1.txt could not be installed (network? free space?). Nothing is lost: start again to go on. Details: $log"
  fi
  { [ -f "$installed" ] && grep -v "^$1 " "$installed" || true; } >"$installed.new"
  say "$1 $(fingerprint "$1")" >>"$installed.new"
  mv "$installed.new" "$installed"
}

make_venv
: >"$made"
if [ "$mode" = test ]; then
  install_set dev "Installing the engine and the tools for development (about 400 MB on disk; takes minutes) ..."
elif ! is_installed dev; then
  install_set base "Installing the engine (about 200 MB on disk; a minute, more on a slow connection) ..."
fi
[ "$start" = yes ] || {
  say "Installed. Start the server with: $([ "$came_from" = "$root" ] || printf 'cd %q && ' "$root").venv/bin/python -m engine serve"
  exit 0
}

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
    "$python" -m pytest -q -m "$marks" ${rest[@]+"${rest[@]}"}
    if [ "$slow" = yes ]; then
      apt_browser
      "$python" -m pytest -q -m "slow and not desktop and not wine and not gpu" \
        ${rest[@]+"${rest[@]}"}
    fi
    ;;
  serve)
    exec "$python" -m engine serve ${rest[@]+"${rest[@]}"}
    ;;
esac
