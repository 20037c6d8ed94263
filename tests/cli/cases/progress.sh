# Without a terminal a render says a few whole lines, without control characters, and --quiet says none.
source "$LIB"
sparge-gen "${prompt[@]}" "${small[@]}" --frames 5 -o a.y4m >stdout 2>log || fail "$(<log)"
(($(wc -l <log) <= 10)) && [[ ! -s stdout ]] || fail "$(wc -l <log) lines"
grep -q $'[\r\x1b]' log && fail "control characters"
for stage in "32x32, 5 frames" "denoising 2/2, .* s/step" decoding a.y4m:; do grep -q "^$stage" log || fail "no $stage in $(<log)"; done
sparge-gen "${prompt[@]}" "${small[@]}" --frames 5 -o a.y4m -q 2>quiet || fail
[[ ! -s quiet ]] || fail "$(<quiet)"
