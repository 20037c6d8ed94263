#!/usr/bin/env bash
# Installs into a folder of its own, compiles the example with what pkg-config says alone, as C and as C++, runs it and
# judges what it prints. usage: run.sh CMAKE BUILD_FOLDER CC MOST, where MOST is the largest relative L1 allowed.
set -euo pipefail
cmake=$1 build=$2 cc=$3 most=$4
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT

# What app/run builds is all that is installed after it. Here it runs in a tree of its own, and stand-ins for CMake and ninja
# note what they were asked for.
tree=$prefix/tree
mkdir -p "$tree/build/release" "$tree/bin" "$tree/app"
cp "$here"/../../app/{run,packages,toolkit} "$tree/app"
ln -s "$(type -P true)" "$tree/build/release/sparge-gen"
ln -s "$(type -P true)" "$tree/bin/cmake"
printf '#!/bin/sh\nshift 2\necho "$@" >"%s/asked"\n' "$tree" >"$tree/bin/ninja"
chmod +x "$tree/bin/ninja"
PATH=$tree/bin:$PATH SG_ROOT=$tree SG_FETCH=no "$tree/app/run" 2>/dev/null
read -ra asked <"$tree/asked" || true
((${#asked[@]})) || asked=(all)
commands=$(ninja -C "$build" -t commands "${asked[@]}")
outputs=$(ninja -C "$build" -t targets all)
while read -r file; do
    [[ $'\n'$outputs != *$'\n'"$file: "* ]] && continue # there since CMake ran
    [[ $commands == *" $file"[[:space:]]* || $commands == *" $file" ]] || { echo "app/run does not build $file, which is installed" >&2; exit 1; }
done < <(sed -n "s|.* FILES \"$build/\([^\"]*\)\".*|\1|p" "$build/cmake_install.cmake")

"$cmake" --install "$build" --prefix "$prefix" >/dev/null
for file in bin/sparge-gen share/sparge-gen/tiny-wan/model_index.json include/spargegen/attention.h; do
    [[ -e $prefix/$file ]] || { echo "not installed: $file" >&2; exit 1; }
done
pc=$(find "$prefix" -name spargegen.pc)
export PKG_CONFIG_LIBDIR=${pc%/*}
read -ra compile < <(pkg-config --cflags spargegen)
read -ra link < <(pkg-config --libs --static spargegen)
cd "$prefix"
"$cc" -std=c17 -Wall -Wextra -Wpedantic -Werror "${compile[@]}" -o example "$here/example.c" "${link[@]}"
echo '#include <spargegen/attention.h>' >header.cc
"$cc" -std=c++11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -x c++ "${compile[@]}" header.cc

said=$(./example)
echo "$said"
[[ $said =~ ^sparge:\ ([0-9]+)\ %\ of\ the\ blocks,\ relative\ L1\ ([0-9.]+)$ ]]
awk -v density="${BASH_REMATCH[1]}" -v l1="${BASH_REMATCH[2]}" -v most="$most" \
    'BEGIN { exit !(density > 0 && density < 60 && l1 > 0 && l1 <= most) }'
