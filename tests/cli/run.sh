#!/usr/bin/env bash
# Runs the command as people do. usage: run.sh [--update] PROGRAM [NAME-PATTERN]
#
# A case is a script cases/NAME.sh; CASES=gpu in the environment takes those of gpu/, which need an NVIDIA GPU, and
# CASES=long those of long/. It runs in an empty folder of its own, with `sparge-gen` in its PATH, lib.sh at $LIB and the mini
# checkpoints of a build at $FIXTURES. Exit code 0 is a pass, 77 a skip. A case asserts options, values, exit codes and files; what
# the command says stands in the file messages alone, which the case of that name compares and --update writes anew. Reports that
# it leaves, or has read by `json`, are validated by their schemas, where Python has jsonschema.
set -uo pipefail

[[ ${1-} == --update ]] && { export UPDATE=1; shift; }
program=$(readlink -f "${1:?usage: run.sh [--update] PROGRAM [NAME-PATTERN]}")
pattern=${2:-*}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir "$work/bin"
ln -s "$program" "$work/bin/sparge-gen"
export REPORTS=$work/reports
export PATH=$work/bin:$PATH LIB=$here/lib.sh FIXTURES=${program%/*}/tests/fixtures LC_ALL=C.UTF-8
export SPARGE_GEN_MODEL=${SPARGE_GEN_MODEL:-$here/../../weights/tiny-wan}
[[ -e $SPARGE_GEN_MODEL/model_index.json ]] || { echo "run.sh: no model at $SPARGE_GEN_MODEL" >&2; exit 1; }
# A command that is not there, as a misspelt one or a function of lib.sh without `source "$LIB"`, ends a case.
command_not_found_handle() { echo "run.sh: no command '$1'" >&2; kill $$; return 127; }
export -f command_not_found_handle
unset TERM
export OMP_WAIT_POLICY=passive # these renders are so small that waiting threads would take most of the time

passed=0 skipped=0 failed=()
for case in "$here/${CASES:-cases}"/$pattern.sh; do
    name=$(basename "$case" .sh)
    mkdir "$work/$name" "$REPORTS"
    (cd "$work/$name" && exec timeout -k 5 800 bash -u "$case") >"$work/stdout" 2>"$work/stderr" </dev/null
    code=$?
    if ((code == 0)) && grep -rqsE '^(\{"version":2,"arm"| *"format": "sparge-gen",)' "$REPORTS" "$work/$name"; then
        python3 "$here/reports.py" "$REPORTS" "$work/$name" >"$work/stdout"
        code=$(($? == 77 ? 0 : $?))
    fi
    if ((code == 77)); then
        skipped=$((skipped + 1))
        echo "skip $name: $(tail -n 1 "$work/stdout")"
    elif ((code == 0)); then
        passed=$((passed + 1))
    else
        failed+=("$name")
        echo "FAIL $name: exit $code"
        tail -n 200 "$work/stdout"
        echo "--- stderr"
        tail -n 20 "$work/stderr"
    fi
    chmod -R u+w "$work/$name" 2>/dev/null
    rm -rf "${work:?}/$name" "$REPORTS"
done

echo "$passed passed, ${#failed[@]} failed, $skipped skipped${failed[*]:+: ${failed[*]}}"
((passed || ${#failed[@]} || !skipped)) || exit 77
((${#failed[@]} == 0 && passed > 0))
