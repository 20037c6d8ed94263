# shellcheck disable=SC2034
# What the cases share. Sourced by each.
# shellcheck shell=bash

small=(--size 32x32 --steps 2 --cfg-scale 1) # with --frames it makes a render of under a second
prompt=(--prompt "a red ball bouncing on green grass")

fail() { echo "not so: $*" >&2; exit 1; }
skip() { echo "$*"; exit 77; }

# Does this build write MP4?
has_mp4() { [[ $(sparge-gen --version) == *.mp4* ]]; }

# Does its encoder of MP4 know --crf?
has_crf() { [[ $(sparge-gen --version) == *" by "@(libx264|libsvtav1|libaom-av1)* ]]; }

# Says a command, what it prints and how it ends.
try() {
    echo "\$ sparge-gen $*"
    local code=0
    sparge-gen "$@" 2>&1 || code=$?
    echo "= $code"
}

# Ends unless the folder holds exactly these names, hidden ones included.
expect_files() {
    local there
    there=$(find . -mindepth 1 -printf '%P\n' | sort | tr '\n' ' ')
    [[ $there == "$(printf '%s\n' "$@" | sort | tr '\n' ' ')" || ($# == 0 && -z $there) ]] || fail "the folder holds: $there"
}

# Waits until a command is true; at most a minute.
wait_for() {
    for ((i = 0; i < 1200; i++)); do
        "$@" 2>/dev/null && return
        sleep 0.05
    done
    fail "waited in vain for: $*"
}

# Does the process write a file in this folder, with more than so many bytes so far? It may have no name yet.
writes() {
    local fd
    for fd in /proc/"$1"/fd/*; do
        [[ ${fd##*/} -gt 2 && $(readlink "$fd") == "$PWD"/* && $(stat -Lc %s "$fd") -ge ${2-0} ]] && return
    done
    return 1
}
