# Without a terminal a render says a few whole lines, without control characters, and --quiet says none.
source "$LIB"
sparge-gen "${prompt[@]}" "${small[@]}" --frames 5 -o a.y4m 2>log || fail "$(<log)"
(($(wc -l <log) <= 10)) || fail "$(wc -l <log) lines"
grep -q $'[\r\x1b]' log && fail "control characters"
sparge-gen "${prompt[@]}" "${small[@]}" --frames 5 -o a.y4m -q 2>quiet || fail
[[ ! -s quiet ]] || fail "$(<quiet)"
cat log >&2
