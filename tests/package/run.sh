#!/usr/bin/env bash
# Makes the packages of a build and uses them: the Debian packages, installed into a folder and removed, and the archive in
# a system that has the C library alone. usage: run.sh CPACK BUILD_FOLDER CC MOST, where tests/example/use.sh says what MOST
# is. Exits with 77 where the tools that cpack wants, or the right to install, are missing.
set -euo pipefail
cpack=$1 build=$2 cc=$3 most=$4
cmake=${cpack%/*}/cmake
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if ((EUID != 0)) || ! type -P dpkg >/dev/null || ! type -P dpkg-shlibdeps >/dev/null || ! type -P file >/dev/null; then exit 77; fi
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
fail() { echo "$*" >&2; exit 1; }
quietly() { "$@" >"$root/log" 2>&1 || { cat "$root/log" >&2; exit 1; }; }
export FORMAT=y4m
[[ $(ldd "$build/sparge-gen") != *libavformat* ]] || FORMAT=mp4

cd "$build"
quietly "$cpack" -G "DEB;TGZ" -B "$root/package"
cd "$root"

# ---- the Debian packages ----
mkdir -p system/var/lib/dpkg
touch system/var/lib/dpkg/status
on_system() { quietly dpkg --root="$root/system" --force-depends --force-script-chrootless "$@"; }
names=()
for package in package/*.deb; do
    name=$(dpkg-deb -f "$package" Package)
    names+=("$name")
    # What its libraries' packages are called is known to the system that it was made on.
    for needed in $(dpkg-deb -f "$package" Depends | sed 's/([^)]*)//g; s/,//g'); do
        [[ $needed == libspargegen* ]] || dpkg-query -W "$needed" >/dev/null || fail "$name depends on $needed, which is not installed here"
    done
    on_system -i "$package"
    [[ -s system/usr/share/doc/$name/copyright ]] || fail "$name has no copyright"
done
[[ ${names[*]} == "libspargegen-dev "*"sparge-gen" ]] || fail "not the packages expected: ${names[*]}"
for name in "${names[@]}"; do
    [[ $name == libspargegen-dev ]] || ! dpkg-deb -c package/"$name"_*.deb | grep -q '/include/\|\.a$\|\.so$\|\.pc$\|/cmake/' || fail "$name has what only development needs"
done

usr=$root/system/usr
[[ $("$usr/bin/sparge-gen" --version) == *"License: Apache-2.0" ]] || fail "--version does not name the license"
for file in share/man/man1/sparge-gen.1 share/bash-completion/completions/sparge-gen share/zsh/vendor-completions/_sparge-gen \
    share/sparge-gen/schema/{render,common}.json; do
    [[ -s $usr/$file ]] || fail "not in the package: $file"
done
help=$("$usr/bin/sparge-gen" help serve)
[[ $("$usr/bin/sparge-gen" --version) != *"libmicrohttpd for"* || ($help == *share/doc/sparge-gen/serve.md* && -s $usr/share/doc/sparge-gen/serve.md) ]] ||
    fail "not in the package: the file that the help of serve names"
# Without a folder of sources beside it, the program finds the model of the package.
env -u SPARGE_GEN_MODEL "$usr/bin/sparge-gen" info --json - >info.json
grep -q '"folder": ".*/system/usr/.*tiny-wan"' info.json || fail "info does not show the package's model"
env -u SPARGE_GEN_MODEL "$usr/bin/sparge-gen" -p "a red ball" --size 64x64 --frames 5 --steps 1 -q -o "clip.$FORMAT"
[[ -s clip.$FORMAT ]] || fail "no clip"
"$here/../example/use.sh" "$usr" "$cmake" "$cc" "$most"
# The packages of the files that the linker takes are those that the library's package depends on.
depends=$(dpkg-deb -f package/libspargegen-dev_*.deb Depends)
for flag in $(PKG_CONFIG_LIBDIR=$(dirname "$(find "$usr" -name spargegen.pc)") pkg-config --libs-only-l --static spargegen); do
    [[ $flag != -lspargegen ]] || continue
    file=$("$cc" -print-file-name="lib${flag#-l}.so")
    [[ -e $file ]] || file=$("$cc" -print-file-name="lib${flag#-l}.a")
    owner=$(dpkg-query --search "$(realpath -s "$file")")
    [[ ", $depends," == *", ${owner%%:*},"* ]] || fail "links $flag of ${owner%%:*}, but depends on $depends"
done

on_system -P "${names[@]}"
left=$(find "$usr" ! -type d 2>/dev/null || true)
[[ -z $left ]] || fail "left after removal: $left"

# ---- the archive: a system with a shell and the C library, no /proc and nothing of the build ----
mkdir -p bare/usr/{bin,lib,lib64} bare/tmp
for folder in bin lib lib64; do ln -s "usr/$folder" "bare/$folder"; done
while read -r file; do
    [[ $file != *.so* || ! -f $file ]] || cp --parents -L "$file" bare
done < <(dpkg -L libc6)
cp -L /bin/sh /bin/readlink bare/bin
quietly "$here/bare" bare package/*.tar.gz
"$here/../example/use.sh" bare/srv/moved "$cmake" "$cc" "$most"
# With what a compiler needs, it is a system for which the example is built, and where it renders, by the archive alone.
while read -r file; do
    [[ $file != /usr/@(include|lib)/* || ! -f $file ]] || cp --parents "$file" bare
done < <(dpkg -L libc6-dev)
if [[ -e bare/srv/moved/lib/libspargegen.so ]]; then
    export LDFLAGS=--sysroot=$root/bare
    read -ra flags <<<"$(PKG_CONFIG_LIBDIR=$root/bare/srv/moved/lib/pkgconfig pkg-config --cflags --libs spargegen)"
    "$cc" "$LDFLAGS" -o bare/tmp/by_pc "$here/../example/render.c" "${flags[@]}"
    quietly "$cmake" -S "$here/../example" -B by_cmake -G Ninja -DCMAKE_C_COMPILER="$cc" -Dspargegen_ROOT="$root/bare/srv/moved"
    quietly "$cmake" --build by_cmake
    cp by_cmake/render bare/tmp/by_cmake
    . "$here/../example/small_model.sh"
    small_model bare/srv/moved/share/sparge-gen/tiny-wan bare/tmp/model
    in_bare() { quietly env -i LD_LIBRARY_PATH=/srv/moved/lib "$(type -P chroot)" bare "$@"; }
    in_bare /srv/moved/bin/sparge-gen -m /tmp/model -p "a red ball" --seed 0 -o /tmp/command.y4m
    for program in by_pc by_cmake; do
        in_bare /tmp/$program /tmp/model "a red ball" "/tmp/$program.$FORMAT"
        in_bare /tmp/$program /tmp/model "a red ball" /tmp/$program.raw.y4m
        [[ -s bare/tmp/$program.$FORMAT ]] || fail "$program made no clip"
        cmp bare/tmp/$program.raw.y4m bare/tmp/command.y4m || fail "$program makes other frames than the command"
    done
fi
libraries=bare/srv/moved/lib/sparge-gen notices=bare/srv/moved/share/doc/sparge-gen/libraries
grep '^lib.*: ' "$notices/README" >listed
while IFS=' :,' read -r name package _; do
    [[ -e $libraries/$name && -s $notices/$package ]] || fail "no such library, or without its notice: $name of $package"
done <listed
(($(wc -l <listed) == $(find "$libraries" -name 'lib*' -type f | wc -l))) || fail "not every library is listed"
