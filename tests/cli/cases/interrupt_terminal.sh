# On a terminal Ctrl-C is answered on a line of its own, in place of the changing one, and the render ends at its next step.
source "$LIB"
script -qec true /dev/null &>/dev/null || skip "no pseudo-terminal"
export TERM=xterm
mkfifo keys
sleep 60 >keys & # holds it open
env --default-signal=INT script -qefc "sparge-gen --prompt ball ${small[*]} --steps 1000 --frames 5 -o a.y4m" log <keys >/dev/null &
wait_for grep -q 'denoising 1/1000' log
printf '\003' >keys
wait $!
code=$?
kill %1
tr '\r' '\n' <log | grep 'stopping after this step' | sed $'s/\x1b\\[//g'
tr '\r' '\n' <log | grep -o 'sparge-gen: interrupted'
[[ ! -e a.y4m ]] || fail "a clip"
exit $code
