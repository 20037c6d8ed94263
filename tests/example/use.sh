#!/usr/bin/env bash
# Builds the examples against an installed copy, by what its pkg-config file says alone and by its CMake package, reads its
# headers as C and C++, runs the examples, and judges what they print and render. usage: use.sh PREFIX CMAKE CC MOST, where
# MOST is the largest relative L1 allowed. WATCH is a command under which all runs.
set -euo pipefail
prefix=$(realpath "$1") cmake=$2 cc=$3 most=$4
read -ra watch <<<"${WATCH-}"
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
warnings=(-Wall -Wextra -Wpedantic -Werror)
for header in "$prefix"/include/spargegen/*.h; do # each stands alone, in C and in C++
    echo "#include <spargegen/${header##*/}>" >header.c
    for standard in c99 c17 c++11 c++17; do
        language=c
        [[ $standard != c++* ]] || language=c++
        "$cc" -std=$standard "${warnings[@]}" -fsyntax-only -x $language "${compile[@]}" header.c
    done
done
{ # from C++ each symbol is found
    echo '#include <spargegen/spargegen.h>'
    echo 'typedef void (*any)();'
    echo 'extern const any all[] = {'
    sed 's/.*/    reinterpret_cast<any>(&),/' "$here/symbols"
    echo '};'
} >plus.cc
cat >>plus.cc <<'END'
int main()
{
    sg_error          error = {};
    sg_engine        *engine;
    sg_engine_options options = {};
    options.size = sizeof options;
    options.model_dir = "no/such/folder";
    return all[0] && sg_engine_open(&engine, &options, &error) == SG_E_FILE ? 0 : 1;
}
END
"$cc" -std=c++11 "${warnings[@]}" "${compile[@]}" -o plus -x c++ plus.cc -x none "${link[@]}"
for program in attention render; do
    "$cc" -std=c17 "${warnings[@]}" "${compile[@]}" -o $program "$here/$program.c" "${link[@]}" -lm
done
"$cmake" -S "$here" -B by_cmake -G Ninja -DCMAKE_C_COMPILER="$cc" -Dspargegen_ROOT="$prefix" >log 2>&1 &&
    "$cmake" --build by_cmake >>log 2>&1 || { cat log >&2; exit 1; }
for program in {,by_cmake/}{attention,render}; do
    [[ -e $lib/libspargegen.so ]] || continue # what it needs itself is no business of who links it
    needs=$(readelf -d $program | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -vE '^lib(m|c)\.so\.' || true)
    [[ $needs =~ ^libspargegen\.so\.[0-9]+$ ]] || fail "$program needs $needs"
done
library() { LD_LIBRARY_PATH=$lib "${watch[@]}" "$@"; }
last() { tr '\r' '\n' <said | tail -n 1; }
library ./plus || fail "C++ got another status"

. "$here/small_model.sh"
small_model "$(pkg-config --variable=model spargegen)" model
prompt="a red ball bouncing on green grass"
command=$prefix/bin/sparge-gen
clip=library.y4m
[[ $("$command" --version) != *.mp4* ]] || clip=library.mp4
kinds=('' by_cmake/)
((!${#watch[@]})) || kinds=('') # slow
for kind in "${kinds[@]}"; do
    said=$(library ./${kind}attention)
    echo "$said"
    [[ $said =~ ^sparge:\ ([0-9]+)\ %\ of\ the\ blocks,\ relative\ L1\ ([0-9.]+)$ ]]
    awk -v density="${BASH_REMATCH[1]}" -v l1="${BASH_REMATCH[2]}" -v most="$most" \
        'BEGIN { exit !(density > 0 && density < 60 && l1 > 0 && l1 <= most) }'

    rm -f $clip
    library ./${kind}render model "$prompt" $clip 2>said || fail "${kind}render: $(last)"
    "$command" compare $clip $clip --json - >judged || fail "$clip cannot be read"
    grep -q '"frames": 5' judged || fail "$clip: $(<judged)"
done

# Frames are the command's to the bit, where both are on the same processor: valgrind's is another one.
if ((!${#watch[@]})); then
    "$command" -m model -p "$prompt" --seed 0 -q -o command.y4m >/dev/null
    library ./render model "$prompt" raw.y4m 2>said || fail "render: $(last)"
    cmp raw.y4m command.y4m >&2 || fail "render makes other frames than the command"
fi

# Ctrl-C ends it, and what fails is said; neither leaves a file.
sed -i 's/"steps": 2/"steps": 1000/' model/sparge-gen.json
rm said # which has the progress of the last render
LD_LIBRARY_PATH=$lib "${watch[@]}" ./render model "$prompt" never.y4m 2>said & # a function would be a shell with a process of its own
until grep -qs 'denoise *[1-9]' said; do
    kill -0 $! 2>/dev/null || fail "ended before it was interrupted: $(last)"
    sleep 0.1
done
kill -INT $!
status=0
wait $! || status=$?
((status == 1)) || fail "interrupted, it ended with $status: $(last)"
status=0
library ./render no/such/folder "$prompt" never.y4m 2>said || status=$?
[[ $status == 1 && $(<said) == *no/such/folder* ]] || fail "without a model it ended with $status: $(last)"
[[ ! $(find . -name '*never*') ]] || fail "left a file of a render that failed"
