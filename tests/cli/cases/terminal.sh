# On a terminal one line changes in place and is gone at the end; video does not go there, which is told in red.
source "$LIB"
script -qec true /dev/null &>/dev/null || skip "no pseudo-terminal"
export TERM=xterm
script -qec "sparge-gen --prompt ball ${small[*]} --frames 5 -o a.y4m" /dev/null >log || fail
grep -q $'\rdenoising 1/2.*\x1b\\[K' log || fail "no changing line"
tail -n 1 log | grep -q 'a.y4m: .* s of video' || fail "$(tail -n 1 log)"
script -qec "sparge-gen --prompt ball ${small[*]} -o -" /dev/null
