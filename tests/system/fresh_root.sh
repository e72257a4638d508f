#!/usr/bin/env bash
# `setup.sh` on a system that has nothing: a Debian root made by mmdebstrap, once as root and once as a
# plain user whose home is empty. Needs root, mmdebstrap and the network; about 1 GB, some minutes.
#
#   tests/system/fresh_root.sh FOLDER     # FOLDER is made, and kept for a second run
set -euo pipefail
[ $# = 1 ] || { echo "usage: $0 FOLDER" >&2; exit 2; }
[ "$(id -u)" = 0 ] || { echo "$0 needs root" >&2; exit 2; }
command -v mmdebstrap >/dev/null || { echo "mmdebstrap is missing: apt-get install mmdebstrap" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd -P)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
root="$folder/root"

[ -e "$root/etc/debian_version" ] ||
  mmdebstrap --variant=apt --include=ca-certificates "${SUITE:-bookworm}" "$root"

# What a clone has, in folders whose names are awkward, without anything that was made before.
copy_to() {
  rm -rf "${root:?}/$1"
  mkdir -p "$root/$1"
  (cd "$here" && git ls-files -z --cached --others --exclude-standard | grep -zv '^tests/' |
    tar --null --ignore-failed-read -T - -cf - 2>/dev/null) | tar -xf - -C "$root/$1"
}

# The network of this machine: its certificates, proxy and index are the new system's too.
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
network=()
for name in PIP_CERT PIP_INDEX_URL http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
  [ -z "${!name:-}" ] || network+=("$name=${!name}")
done

inside() { # inside COMMAND...: in the root, with mounts and processes of its own
  unshare --mount --pid --fork --kill-child sh -c '
    set -e
    mount -t proc proc "$1/proc"; mount --rbind /dev "$1/dev"
    cp /etc/resolv.conf "$1/etc/resolv.conf"
    root=$1; shift
    exec chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 "$@"
  ' sh "$root" ${network[@]+"${network[@]}"} "$@"
}

as_root="srv/My Programs ünï 中文"
copy_to "$as_root"
echo "== as root, without any Python"
inside HOME=/root "/$as_root/setup.sh" --demo --prompt "Who are you?"
status=0 # 1 means: only the bundled model can run here
inside HOME=/root "/$as_root/setup.sh" --check --json >"$folder/check.json" || status=$?
[ "$status" -le 1 ]
grep -q '^{' "$folder/check.json"

echo "== as a plain user with an empty home"
inside sh -c 'id person >/dev/null 2>&1 || useradd --create-home --shell /bin/bash person'
rm -rf "$root/home/person" && mkdir "$root/home/person"
as_person="home/person/Jürgen 測試"
copy_to "$as_person"
inside chown -R person:person /home/person
inside HOME=/home/person su --preserve-environment person -c "'/$as_person/setup.sh' --headless --yes --model tiny --no-start"
inside HOME=/home/person su --preserve-environment person -c "'/$as_person/setup.sh' --uninstall --yes"
[ ! -e "$root/$as_person/.venv" ]
[ ! -e "$root/$as_person/.state" ]
echo "== all is well"
