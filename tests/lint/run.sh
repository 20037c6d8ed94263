#!/usr/bin/env bash
# The rules of the house that a script can check. Usage: run.sh BUILD_FOLDER (for the symbol rule).
set -uo pipefail
cd "$(dirname "$0")/../.."
build=${1:-}
fail=0
complain() { echo "$1" >&2; fail=1; }
sources() { git ls-files -co --exclude-standard -- "$@" | while read -r f; do [ -f "$f" ] && echo "$f"; done; }
code=$(sources '*.c' '*.h' '*.cc' '*.cu' '*.cuh')

# A test is as long as its subject.
for f in $code; do
    case $f in *_table.h | *_entities.h) continue ;; esac # generated
    lines=$(wc -l <"$f")
    case $f in tests/*) ;; *) [ "$lines" -le 600 ] || complain "$f: $lines lines; the budget is 600" ;; esac
    awk -v f="$f" '/^\{/ { start = FNR } /^\}/ && start { if (FNR - start > 100) { print f ":" start ": " FNR - start " lines; the budget of a function is 100"; bad = 1 } start = 0 } END { exit bad }' "$f" >&2 || fail=1
done

# Only app/ prints, exits or has to do with the environment; tests do as they like. What the library is made of must not refer
# to these either.
owned='printf|vprintf|fprintf|vfprintf|puts|putchar|perror|exit|_exit|quick_exit|abort|getenv|secure_getenv|setenv|unsetenv|putenv|signal|sigaction'
below=$(for f in $code; do case $f in app/* | tests/*) ;; *) echo "$f" ;; esac; done)
hits=$(grep -nE "(^|[^a-z_])($owned)\(|[^a-z_]sigaction |STD(OUT|ERR)_FILENO|[(, ](stdout|stderr)[),;]" $below | grep -vE 'SG_PRINTF|format\(printf|^\S+:\s*\*|"[^"]*stdout') &&
    complain "printing, exiting, the environment or signals below app/:
$hits"
hits=$(nm -A "$build"/libsg_{kernels,attention,thresholds,weights,model}.a 2>/dev/null |
    grep -E " U (__)?($owned|stdout|stderr|environ|__assert_fail)(_chk)?(@.*)?$") && complain "objects of the library that print, exit, or use the environment or signals:
$hits"

# Nor does what is below app/ name an option: a program and a Python user have members. app/options/option_names.c makes the
# command's options of these.
hits=$(grep -nE '"[^"]*--[a-z]' $below | grep -v gguf-split) &&
    complain "an option of the command below app/:
$hits"

# A model names no backend; #if SG_ stands only where a table is chosen.
hits=$(grep -nE '#[ ]*if(def)? .*SG_(CUDA|ONEDNN|FFMPEG)' $below | grep -vE '^(kernels/(backend|cpu/cpu)|model/output/writer)\.c:') &&
    complain "a build switch outside its place:
$hits"
hits=$(grep -nE 'include "(cpu|onednn|cuda)' $(for f in $below; do case $f in model/*) echo "$f" ;; esac; done)) &&
    complain "a model includes a backend:
$hits"

# The CPU is asked in one place; others go by the backend's features, which --cpumask has reduced.
hits=$(grep -nE '__builtin_cpu_|cpuid\.h' $(for f in $below; do case $f in kernels/cpu/*) ;; *) echo "$f" ;; esac; done)) &&
    complain "a processor asked outside kernels/cpu:
$hits"

# Words of our own where the field has one: self-similar, non-finite, transposed or rotated, softmax, absmax or scale, rescale, visible.
allowed=tests/lint/words_allowed
own=$(sources '*.c' '*.h' '*.cc' '*.cu' '*.cuh' '*.py' '*.sh' '*.js' '*.cmake' '*CMakeLists.txt' | grep -v '^tests/lint/')
hits=$(grep -nwE '([a-z0-9]+_)*(alike|wild|turned|soften|reach|fade|sight)(_[a-z0-9]+)*' $own | grep -vFf <(sed '/^#/d; /^$/d' $allowed)) &&
    complain "words that the field has others for; $allowed has the exceptions:
$hits"

hits=$(grep -nE 'TODO|FIXME|#if 0' $code) && complain "unfinished or dead:
$hits"
hits=$(grep -nP '[\x{200B}-\x{200F}\x{202A}-\x{202E}\x{2060}-\x{2064}\x{FEFF}]' $code) && complain "invisible Unicode:
$hits"
hits=$(grep -nE '[[:blank:]]+$' $code) && complain "trailing blanks:
$hits"

# README is short, and so are its sentences: those of paragraphs and of cells, without code.
[ "$(wc -l <README.md)" -le 150 ] || complain "README.md: more than 150 lines"
hits=$(awk '
    function sentences(text,    i, n, part) {
        gsub(/`[^`]*`/, "code", text)
        gsub(/\]\([^)]*\)/, "]", text)
        n = split(text, part, /[.!?]([*)]*[[:space:]]|$)|\|/)
        for (i = 1; i <= n; i++)
            if (split(part[i], word, " ") > 25) print part[i]
    }
    /^```/ { code = !code; next }
    code { next }
    /^(\||#|$)/ { sentences(paragraph); paragraph = ""; sentences($0); next }
    { paragraph = paragraph " " $0 }
    END { sentences(paragraph) }' README.md)
[ -z "$hits" ] || complain "README.md: sentences of more than 25 words:
$hits"

# File names are unique in the tree.
twins=$(for f in $code; do case $f in tests/*) ;; *) basename "$f" ;; esac; done | sort | uniq -d)
[ -z "$twins" ] || complain "file names that are not unique: $twins"

# Every header stands alone, unless it needs one of a library that this machine lacks.
cuda=$(sed -n 's|^CMAKE_CUDA_COMPILER:.*=\(.*\)/bin/nvcc$|\1/include|p' "$build/CMakeCache.txt" 2>/dev/null)
for f in $(for f in $code; do case $f in *.h) echo "$f" ;; esac; done); do
    case $f in *_table.h | tests/* | kernels/cpu/* | attention/cpu/*) continue ;; esac
    why=$(printf '#include "%s"\n' "$(basename "$f")" |
        LC_ALL=C gcc -std=c17 -D_GNU_SOURCE -fsyntax-only -x c -I"$(dirname "$f")" -Ikernels -Ikernels/meta -Iattention -Iweights \
            -Imodel -Iprompts $(printf -- '-I%s ' model/*/ weights/*/ prompts/*/ app/*/) ${cuda:+-isystem "$cuda"} - 2>&1) && continue
    [[ $why =~ fatal\ error:\ ([^:]*):\ No\ such\ file && ! " $code " =~ /${BASH_REMATCH[1]}[[:space:]] ]] ||
        complain "$f: does not compile alone"
done

# Every global symbol of our libraries begins with sg_.
if [ -n "$build" ]; then
    for lib in "$build"/libsg_*.a; do
        hits=$(nm -g --defined-only "$lib" 2>/dev/null | awk 'NF == 3 && $2 ~ /[ABCDGRT]/ { print $3 }' | grep -vE '^(sg_|_Z|__asan|__odr_asan)')
        [ -z "$hits" ] || complain "$lib: symbols without the prefix: $hits"
    done
fi

# No source needs another that needs it, by itself or through others: those of the program, and those of each library,
# whose objects of one source, compiled for several levels, count as one.
circles() { # reads "SOURCE needs SYMBOL" and "SOURCE has SYMBOL"
    awk '$2 == "has" { owner[$3] = $1 } $2 == "needs" { need[++n] = $1; symbol[n] = $3 }
        END { for (i = 1; i <= n; i++) if (symbol[i] in owner) print need[i], owner[symbol[i]] }' |
        sort -u | tsort 2>&1 >/dev/null | grep -v 'input contains a loop' | sed 's/^tsort: //'
}
if [ -n "$build" ]; then
    hits=$(for f in $(sources 'app/*.c'); do # of what is there now: a build folder keeps objects of sources that moved
        o=$build/CMakeFiles/sparge-gen.dir/$f.o
        [ ! -e "$o" ] || nm "$o" | awk -v f="$f" '$1 == "U" { print f, "needs", $2; next } $2 ~ /[BCDRTVW]/ { print f, "has", $3 }'
    done | circles)
    [ -z "$hits" ] || complain "sources that need each other:
$hits"
    for lib in kernels attention thresholds weights model prompts; do
        hits=$(nm -A "$build/libsg_$lib.a" 2>/dev/null | awk '{ split($1, at, ":") } $(NF - 1) == "U" { print at[2], "needs", $NF }
            $(NF - 1) ~ /[BCDRTVW]/ { print at[2], "has", $NF }' | circles)
        [ -z "$hits" ] || complain "sources of libsg_$lib that need each other:
$hits"
    done
fi

# Arrows between app's folders run one way: this says from which of them, beside itself, each may include.
declare -A below=([options]=
    [metric]=
    [language]=
    [output]=
    [session]="options"
    [report]="metric session options"
    [command]="metric output report session options"
    [compare]="metric output report session options"
    [bench]="metric report session options"
    [language]="bench compare report session options"
    [serve]="metric output report session options"
    [eval]="compare metric output report session options")
hits=$(sources 'app/*/*.[ch]' | while IFS=/ read -r _ folder name; do
    [ -v "below[$folder]" ] || { echo "app/$folder is not in the table of this script"; continue; }
    grep -noP '^#\s*include "\K[^"]+' "app/$folder/$name" | while IFS=: read -r line header; do
        for owner in app/*/"$header"; do
            owner=${owner#app/}
            owner=${owner%%/*}
            [[ $owner == '*' || " $folder ${below[$folder]} " == *" $owner "* ]] || echo "app/$folder/$name:$line: includes $header of app/$owner"
        done
    done
done)
[ -z "$hits" ] || complain "arrows between app's folders that run the wrong way:
$hits"

# render, compare and eval, and what they stand on, see of the library what any program sees, and base/. build_facts.c tells
# how the program was built.
seen=$(sources 'app/*/*.[ch]' | grep -vE '^app/(bench/|language/|command/(command_(check|info|tune)\.c|tune_[a-z]+\.[ch])|report/build_facts\.c)')
hits=$(grep -noHP '^#\s*include [<"]\K[^>"]+' $seen | grep -vE ':(base/.*|prompt_set\.h|spargegen/spargegen\.h)$' |
    while IFS=: read -r file line header; do
        grep -qE "^(kernels|attention|weights|model|prompts)/(.*/)?${header//./\\.}$" <<<"$code" && echo "$file:$line: includes $header"
    done)
[ -z "$hits" ] || complain "what is behind render, compare and eval includes more of the library than spargegen.h:
$hits"

# A library sees its own folders and the public ones, which hold no header of its insides, of the libraries below it.
sees() { # LIBRARY OBJECT-PATTERN FOLDER...
    local lib=$1 objects=$2 extra
    shift 2
    extra=$(ninja -C "$build" -t commands all 2>/dev/null | grep -E -- "-o $objects" | grep -oE -- "-I$PWD/[^ ]*" |
        sed "s|^-I$PWD/||" | sort -u | grep -vxF "$(printf '%s\n' "$@")" | grep -vE "^$lib(/|$)")
    [ -z "$extra" ] || complain "$lib includes from: $extra"
}
if [ -f "$build/build.ninja" ]; then
    sees kernels 'CMakeFiles/sg_(kernels|cpu|cuda)[^ ]*' # attention's kernels are compiled with them, into them
    sees attention 'CMakeFiles/sg_attention.dir' kernels kernels/meta
    sees attention 'CMakeFiles/sg_thresholds.dir' weights kernels kernels/meta
    sees weights 'CMakeFiles/sg_weights.dir' kernels kernels/meta
    sees model 'CMakeFiles/sg_model.dir' weights attention kernels kernels/meta
    sees prompts 'CMakeFiles/sg_prompts.dir' kernels kernels/meta
    sees app 'CMakeFiles/sparge-gen.dir' model model/output prompts weights attention kernels kernels/meta
fi
[ $fail = 0 ] && echo "lint: clean"
exit $fail
