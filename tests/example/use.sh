#!/usr/bin/env bash
# Compiles the example with what the pkg-config file of an installed copy says alone, as C and as C++, runs it and judges
# what it prints. usage: use.sh PREFIX CC MOST, where MOST is the largest relative L1 allowed.
set -euo pipefail
prefix=$(realpath "$1") cc=$2 most=$3
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

pc=$(find "$prefix" -name spargegen.pc)
export PKG_CONFIG_LIBDIR=${pc%/*}
read -ra compile <<<"$(pkg-config --cflags spargegen)"
read -ra link <<<"$(pkg-config --libs --static spargegen)"
[[ ${link[*]} != *cuda* ]] || { echo "wants a CUDA toolkit: ${link[*]}" >&2; exit 1; }
# Neither a name nor a section of what is inside may meet those of the program: it may have a CUDA runtime of its own.
library=${pc%/*}/../libspargegen.a
if readelf -gW "$library" | grep COMDAT >&2; then exit 1; fi
nm -g --defined-only "$library" | sed -n 's/.* [A-Z] //p' >"$work/visible"
[[ -s $work/visible ]]
while read -r name; do
    grep -qw "SG_PUBLIC.*$name" "$prefix"/include/spargegen/*.h || { echo "visible, but not declared: $name" >&2; exit 1; }
done <"$work/visible"
cd "$work"
"$cc" -std=c17 -Wall -Wextra -Wpedantic -Werror "${compile[@]}" -o example "$here/example.c" "${link[@]}"
echo '#include <spargegen/attention.h>' >header.cc
"$cc" -std=c++11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -x c++ "${compile[@]}" header.cc

said=$(LD_LIBRARY_PATH=${pc%/*}/.. ./example)
echo "$said"
[[ $said =~ ^sparge:\ ([0-9]+)\ %\ of\ the\ blocks,\ relative\ L1\ ([0-9.]+)$ ]]
awk -v density="${BASH_REMATCH[1]}" -v l1="${BASH_REMATCH[2]}" -v most="$most" \
    'BEGIN { exit !(density > 0 && density < 60 && l1 > 0 && l1 <= most) }'
