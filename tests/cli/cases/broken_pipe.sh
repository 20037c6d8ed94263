# Whoever reads goes away: an error with a reason, not a silent death; a clip stays where only its report finds no reader. A table
# or a help text has been read enough, whether it is written at once or in pieces.
source "$LIB"
sparge-gen "${prompt[@]}" "${small[@]}" --frames 33 -q -o - 2>log | head -c 10 >/dev/null
[[ ${PIPESTATUS[0]} == 1 && $(<log) == *"Broken pipe" ]] || fail "$(<log)"
{ sparge-gen "${prompt[@]}" "${small[@]}" --frames 5 -q -o a.y4m --json - 2>log; echo $? >code; } | exec true
[[ $(<code) == 1 && $(<log) == *"Broken pipe" ]] || fail "exit $(<code): $(<log)"
expect_files a.y4m code log

exec 3> >(exec true)
wait $!
quietly() {
    sparge-gen "$@" >&3 2>log || fail "$*: exit $?"
    [[ ! -s log ]] || fail "$*: $(<log)"
}
quietly help all # longer than a stream's buffer
quietly --version
quietly bench cold --size 16x16 --frames 1 --steps 2 --repeat 1 --threads 1
quietly info
