# On a terminal Ctrl-C is answered on a line of its own, in place of the changing one, and the render ends at its next step.
source "$LIB"
needs_terminal
export TERM=xterm
mkfifo keys
sleep 60 >keys & # holds it open
env --default-signal=INT script -qefc "sparge-gen --prompt ball ${small[*]} --steps 1000 --frames 5 -o a.y4m" log <keys >/dev/null &
wait_for grep -q 'denoising 1/1000' log
printf '\003' >keys
wait $!
(($? == 130)) || fail "exit code"
kill %1
tr '\r' '\n' <log | grep -q $'^\x1b\\[Kstopping ' || fail "$(cat -v log)"
grep -q 'sparge-gen: interrupted' log || fail "$(cat -v log)"
[[ ! -e a.y4m ]] || fail "a clip"
