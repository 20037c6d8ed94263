#!/usr/bin/env bash
# Runs the command as people do. usage: run.sh [--update] PROGRAM [NAME-PATTERN]
#
# A case is a script cases/NAME.sh; CASES=gpu in the environment takes those of gpu/, which need an NVIDIA GPU, and
# CASES=long those of long/. It runs in an empty folder of its own, with `sparge-gen` in its PATH, lib.sh at $LIB and the mini
# checkpoints of a build at $FIXTURES. Neighbours say what is expected:
# NAME.sh.stdout.exact or .stdout.glob, .stderr.exact or .stderr.glob, .exit (0 without it). A stream without a neighbour
# may hold anything. In a .glob a line is a shell pattern, and a line "..." stands for any number of lines. Exit code 77
# is a skip. --update rewrites the .exact files that are there.
set -uo pipefail

update=0
[[ ${1-} == --update ]] && { update=1; shift; }
program=$(readlink -f "${1:?usage: run.sh [--update] PROGRAM [NAME-PATTERN]}")
pattern=${2:-*}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir "$work/bin"
ln -s "$program" "$work/bin/sparge-gen"
export PATH=$work/bin:$PATH LIB=$here/lib.sh FIXTURES=${program%/*}/tests/fixtures LC_ALL=C.UTF-8
export SPARGE_GEN_MODEL=${SPARGE_GEN_MODEL:-$here/../../weights/tiny-wan}
[[ -e $SPARGE_GEN_MODEL/model_index.json ]] || { echo "run.sh: no model at $SPARGE_GEN_MODEL" >&2; exit 1; }
# A command that is not there, as a misspelt one or a function of lib.sh without `source "$LIB"`, ends a case.
command_not_found_handle() { echo "run.sh: no command '$1'" >&2; kill $$; return 127; }
export -f command_not_found_handle
unset TERM
export OMP_WAIT_POLICY=passive # these renders are so small that waiting threads would take most of the time

# matches LINES PATTERNS, two arrays by name
# shellcheck disable=SC2053
matches() {
    local -n lines_=$1 patterns_=$2
    local -i i=0 p=0 star=-1 resume=0
    # The last "..." passed takes in one line more whenever what follows it does not fit.
    while ((i < ${#lines_[@]})); do
        if ((p < ${#patterns_[@]})) && [[ ${patterns_[p]} == ... ]]; then
            star=$p resume=$i p+=1
        elif ((p < ${#patterns_[@]})) && [[ ${lines_[i]} == ${patterns_[p]} ]]; then
            i+=1 p+=1
        elif ((star >= 0)); then
            resume+=1 i=resume p=star+1
        else
            return 1
        fi
    done
    while ((p < ${#patterns_[@]})) && [[ ${patterns_[p]} == ... ]]; do p+=1; done
    ((p == ${#patterns_[@]}))
}

# stream_fits CASE STREAM: prints why not
stream_fits() {
    local expected=$1.$2 got=$work/$2 lines patterns
    if [[ -e $expected.exact ]]; then
        ((update && code == expected_code)) && cp "$got" "$expected.exact"
        diff -u "$expected.exact" "$got"
    elif [[ -e $expected.glob ]]; then
        mapfile -t lines <"$got"
        mapfile -t patterns <"$expected.glob"
        matches lines patterns || diff -u "$expected.glob" "$got"
    fi
}

passed=0 skipped=0 failed=()
for case in "$here/${CASES:-cases}"/$pattern.sh; do
    name=$(basename "$case" .sh)
    mkdir "$work/$name"
    (cd "$work/$name" && exec timeout -k 5 800 bash -u "$case") >"$work/stdout" 2>"$work/stderr" </dev/null
    code=$?
    expected_code=0
    [[ -e $case.exit ]] && expected_code=$(<"$case.exit")
    if ((code == 77)); then
        skipped=$((skipped + 1))
        echo "skip $name: $(tail -n 1 "$work/stdout")"
    elif why=$(stream_fits "$case" stdout) && why+=$(stream_fits "$case" stderr) && ((code == expected_code)); then
        passed=$((passed + 1))
    else
        failed+=("$name")
        echo "FAIL $name: exit $code, expected $expected_code"
        printf '%s\n' "$why"
        echo "--- stderr"
        tail -n 20 "$work/stderr"
    fi
    chmod -R u+w "$work/$name" 2>/dev/null
    rm -rf "${work:?}/$name"
done

echo "$passed passed, ${#failed[@]} failed, $skipped skipped${failed[*]:+: ${failed[*]}}"
((passed || ${#failed[@]} || !skipped)) || exit 77
((${#failed[@]} == 0 && passed > 0))
