# A standard stream that is closed: no message gets into a file that took its number.
source "$LIB"
has_mp4 && mp4=.mp4
run() { sparge-gen "${prompt[@]}" "${small[@]}" --frames 5 "$@"; }
for end in .y4m ${mp4-}; do
    run -q -o a$end || fail
    run -o b$end --latents l.safetensors 2>&- || fail "stderr closed"
    cmp a$end b$end || fail "a message in b$end"
    run -o b$end --json r.json <&- >&- 2>&- || fail "all closed"
    cmp a$end b$end || fail "a message in b$end"
    rm l.safetensors
done
grep -q sparge-gen r.json || fail "no report"
run -q -o - >&- 2>log
(($? == 1)) || fail "video into nothing"
run -q -o c.y4m --json - >&- 2>>log
(($? == 1)) || fail "a report into nothing"
sparge-gen --version >&- 2>>log
(($? == 1)) || fail "a version into nothing"
[[ $(grep -c "^sparge-gen: stdout: " log) == 3 ]] || fail "$(<log)"
