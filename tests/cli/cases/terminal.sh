# On a terminal one line changes in place and is gone at the end, what the stages took stays, and neither line wraps; video does not go there, an error in red.
source "$LIB"
script -qec true /dev/null &>/dev/null || skip "no pseudo-terminal"
export TERM=xterm
script -qec "sparge-gen --prompt ball ${small[*]} --frames 5 -o a.y4m" /dev/null >log || fail
grep -q $'\rdenoising 1/2.*\x1b\\[K' log || fail "no changing line"
grep -q '^.*text [0-9.]* s, denoise 2 steps [0-9.]* s, decode [0-9.]* s' log || fail "no times of stages"
script -qec "stty cols 30; sparge-gen --prompt ball ${small[*]} --frames 5 -o a.y4m" /dev/null >narrow || fail
tr '\r' '\n' <narrow | grep 'denoising\|decod' | sed $'s/\x1b\\[[A-Z]//g' | awk 'length($0) > 29 { exit 1 }' || fail "too wide"
tail -n 1 log | grep -q 'a.y4m: .* s of video' || fail "$(tail -n 1 log)"
script -qec "sparge-gen --prompt ball ${small[*]} -o -" /dev/null
