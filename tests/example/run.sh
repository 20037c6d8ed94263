#!/usr/bin/env bash
# Installs into a folder of its own and uses what was installed. usage: run.sh CMAKE BUILD_FOLDER CC MOST: see use.sh. Exits
# with 77 where WATCH is set, but its command is missing.
set -euo pipefail
[[ ! ${WATCH-} ]] || type -P "${WATCH%% *}" >/dev/null || exit 77
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

"$cmake" --install "$build" --prefix "$prefix/installed" >/dev/null
for file in bin/sparge-gen share/sparge-gen/tiny-wan/model_index.json include/spargegen/spargegen.h; do
    [[ -e $prefix/installed/$file ]] || { echo "not installed: $file" >&2; exit 1; }
done
mv "$prefix/installed" "$prefix/moved"
"$here/use.sh" "$prefix/moved" "$cmake" "$cc" "$most"
