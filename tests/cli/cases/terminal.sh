# On a terminal one line changes in place and is gone at the end, what the stages took stays, and neither line wraps; video does not go there, an error in red.
source "$LIB"
needs_terminal
on_terminal "sparge-gen --prompt ball ${small[*]} --frames 5 -o a.y4m" >log || fail
grep -q $'\rdenoising 1/2.*\x1b\\[K' log || fail "no changing line"
grep -q '^.*text [0-9.]* s, denoise 2 steps [0-9.]* s, decode [0-9.]* s' log || fail "no times of stages"
on_terminal "stty cols 30; sparge-gen --prompt ball ${small[*]} --frames 5 -o a.y4m" >narrow || fail
tr '\r' '\n' <narrow | grep 'denoising\|decod' | sed $'s/\x1b\\[[A-Z]//g' | awk 'length($0) > 29 { exit 1 }' || fail "too wide"
tail -n 1 log | grep -q 'a.y4m: .* s of video' || fail "$(tail -n 1 log)"
on_terminal "sparge-gen --prompt ball ${small[*]} -o -" >error
[[ $? == 2 && $(<error) == *$'\e[31msparge-gen: -o - '*$'\e[m'* ]] || fail "$(cat -v error)"
