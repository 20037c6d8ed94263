# Ctrl-C is answered at once, ends the render at its next step and leaves nothing, an older clip untouched; so does it while frames
# are written, where --quiet leaves it unanswered. A second one ends the process at once, and even then nothing is left.
source "$LIB"
clip=("${prompt[@]}" "${small[@]}" -o clip.y4m)
echo old >clip.y4m
in_background "${clip[@]}" --steps 1000
wait_for writes $!
ends_by INT 130 clip.y4m
[[ $(<clip.y4m) == old ]] || fail "the older clip is gone"
# a step may end after the signal and before the line
[[ $(grep -v '^denoising' log | tail -n 2) == "stopping "*$'\n'"sparge-gen: interrupted" ]] || fail "$(<log)"
rm clip.y4m
in_background "${clip[@]}" --steps 1 --size 160x160 --frames 81 -q
wait_for writes $! 1000
ends_by INT 130
[[ $(<log) == "sparge-gen: interrupted" ]] || fail "$(<log)"
in_background "${clip[@]}" --steps 1000
wait_for writes $!
kill -INT $!
kill -INT $! 2>/dev/null || true
wait $!
(($? == 130)) || fail "$(<log)"
expect_files log
