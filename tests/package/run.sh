#!/usr/bin/env bash
# Makes the Debian package of a build, installs it into a folder, uses what was installed, and removes it: nothing may be
# left. usage: run.sh CPACK BUILD_FOLDER. Exits with 77 where dpkg, or the right to run it, is missing.
set -euo pipefail
cpack=$1 build=$2
if ((EUID != 0)) || ! command -v dpkg >/dev/null; then exit 77; fi
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
fail() { echo "$*" >&2; exit 1; }

(cd "$build" && "$cpack" -G DEB -B "$root/package" >/dev/null)
packages=("$root"/package/*.deb)
((${#packages[@]} == 1)) || fail "not one package but ${#packages[@]}"
mkdir -p "$root/system/var/lib/dpkg"
touch "$root/system/var/lib/dpkg/status"
on_system() { dpkg --root="$root/system" --force-depends "$@" >"$root/log" 2>&1 || { cat "$root/log" >&2; exit 1; }; }
# What its libraries' packages are called is known to the system that it was made on.
for name in $(dpkg-deb -f "${packages[0]}" Depends | sed 's/([^)]*)//g; s/,//g'); do
    dpkg-query -W "$name" >/dev/null || fail "depends on $name, which is not installed here"
done
on_system -i "${packages[0]}"

usr=$root/system/usr
[[ $("$usr/bin/sparge-gen" --version) == *"License: Apache-2.0" ]] || fail "--version does not name the license"
for file in share/man/man1/sparge-gen.1 share/bash-completion/completions/sparge-gen share/zsh/vendor-completions/_sparge-gen \
    share/doc/sparge-gen/copyright include/spargegen/attention.h; do
    [[ -s $usr/$file ]] || fail "not in the package: $file"
done
# Without a folder of sources beside it, the program finds the model of the package.
env -u SPARGE_GEN_MODEL "$usr/bin/sparge-gen" info --json >"$root/info.json"
grep -q '"folder": ".*/system/usr/.*tiny-wan"' "$root/info.json" || fail "info does not show the package's model"
env -u SPARGE_GEN_MODEL "$usr/bin/sparge-gen" -p "a red ball" --size 64x64 --frames 5 --steps 1 -q -o "$root/clip.y4m"
[[ -s $root/clip.y4m ]] || fail "no clip"

on_system -P sparge-gen
left=$(find "$usr" ! -type d 2>/dev/null || true)
[[ -z $left ]] || fail "left after removal: $left"
