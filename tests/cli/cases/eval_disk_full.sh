# A full disk stops with a message, and the last finished clip stays as it is: with room the same command goes on.
source "$LIB"
printf 'a\nb\nc\nd\n' >set.txt
command=(eval --prompts set.txt "${small[@]}" --frames 5 --arms dense,dense:cfg-scale=0.5:name=b -t 1 -q)
sparge-gen "${command[@]}" --out whole || fail
intact() { # every line is whole, and of a clip that is whole
    [[ -s $1/results.jsonl && $(tail -c 1 "$1/results.jsonl" | wc -l) == 1 ]] || fail "$(<"$1/results.jsonl")"
    json "$1/results.jsonl" file | while read -r file; do cmp "$1/$file" "whole/$file" || fail "$file"; done || exit 1
    [[ $(json "$1/results.jsonl" status | grep -c '^done$') == $(wc -l <"$1/results.jsonl") ]] || fail "$(<"$1/results.jsonl")"
}

# Lines beyond a limit on the size of files fail; frames, clips and pictures fit.
(ulimit -f 3 && sparge-gen "${command[@]}" --out limit) 2>log && fail "no failure"
grep -q '^sparge-gen: limit/.*: File too large$' log || fail "$(<log)"
if [[ -e limit/results.jsonl ]]; then
    [[ ! -s limit/results.jsonl ]] || intact limit
fi
sparge-gen "${command[@]}" --out limit || fail
diff -r -x 'results*' -x 'summary.*' -x report.html limit whole || fail "other files"

mkdir disk # with room for half of it
mount -t tmpfs -o size=$(($(du -sk whole | cut -f1) / 2))k tmpfs disk 2>/dev/null || skip "mounting is not allowed"
trap 'umount disk' EXIT
sparge-gen "${command[@]}" --out disk/out 2>log && fail "no failure"
grep -q '^sparge-gen: disk/out/.*: No space left on device$' log || fail "$(<log)"
intact disk/out
mount -o remount,size=1m disk
sparge-gen "${command[@]}" --out disk/out || fail
diff -r -x 'results*' -x 'summary.*' -x report.html disk/out whole || fail "other files"
