#!/usr/bin/env bash
# Builds the example against an installed copy, by what its pkg-config file says alone and by its CMake package, reads its
# headers as C++, runs the example and judges what it prints. usage: use.sh PREFIX CMAKE CC MOST, where MOST is the largest
# relative L1 allowed.
set -euo pipefail
prefix=$(realpath "$1") cmake=$2 cc=$3 most=$4
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "$*" >&2; exit 1; }

pc=$(find "$prefix" -name spargegen.pc)
export PKG_CONFIG_LIBDIR=${pc%/*}
lib=$(realpath "${pc%/*}/..")
read -ra compile <<<"$(pkg-config --cflags spargegen)"
read -ra link <<<"$(pkg-config --libs spargegen)"
[[ ${link[*]} != *cuda* ]] || fail "wants a CUDA toolkit: ${link[*]}"

# What is exported is what was decided. Of the static library neither a name nor a section of what is inside may meet those
# of the program: it may have a CUDA runtime of its own.
if [[ -e $lib/libspargegen.so ]]; then
    nm -D --defined-only "$lib/libspargegen.so" >"$work/table"
    [[ ! -e $lib/libspargegen.a ]] || fail "shared, but static too"
    [[ $(pkg-config --libs --static spargegen) =~ ^-L[^\ ]+\ -lspargegen(\ -Wl,-rpath-link,[^\ ]+)?\ *$ ]] || fail "links more than the library: ${link[*]}"
else
    nm -g --defined-only "$lib/libspargegen.a" >"$work/table"
    if readelf -gW "$lib/libspargegen.a" | grep COMDAT >&2; then exit 1; fi
fi
sed -n 's/.* [A-Z] //p' "$work/table" | LC_ALL=C sort | diff "$here/symbols" - >&2 || fail "exports other symbols than tests/example/symbols lists"
while read -r name; do
    grep -qw "SG_PUBLIC.*$name" "$prefix"/include/spargegen/*.h || fail "exported, but not declared: $name"
done <"$here/symbols"

cd "$work"
"$cc" -std=c17 -Wall -Wextra -Wpedantic -Werror "${compile[@]}" -o example "$here/example.c" "${link[@]}" -lm
for header in "$prefix"/include/spargegen/*.h; do
    echo "#include <spargegen/${header##*/}>" >header.cc
    "$cc" -std=c++11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -x c++ "${compile[@]}" header.cc
done
"$cmake" -S "$here" -B by_cmake -G Ninja -DCMAKE_C_COMPILER="$cc" -Dspargegen_ROOT="$prefix" >log 2>&1 &&
    "$cmake" --build by_cmake >>log 2>&1 || { cat log >&2; exit 1; }

for program in example by_cmake/example; do
    if [[ -e $lib/libspargegen.so ]]; then # what it needs itself is no business of who links it
        needs=$(readelf -d $program | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -vE '^lib(m|c)\.so\.' || true)
        [[ $needs =~ ^libspargegen\.so\.[0-9]+$ ]] || fail "$program needs $needs"
    fi
    said=$(LD_LIBRARY_PATH=$lib ./$program)
    echo "$said"
    [[ $said =~ ^sparge:\ ([0-9]+)\ %\ of\ the\ blocks,\ relative\ L1\ ([0-9.]+)$ ]]
    awk -v density="${BASH_REMATCH[1]}" -v l1="${BASH_REMATCH[2]}" -v most="$most" \
        'BEGIN { exit !(density > 0 && density < 60 && l1 > 0 && l1 <= most) }'
done
