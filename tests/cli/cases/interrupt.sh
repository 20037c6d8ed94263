# Ctrl-C is answered at once, ends the render at its next step and leaves nothing, an older clip untouched; so does it while decoding.
source "$LIB"
echo old >clip.y4m
# A background job ignores SIGINT unless told otherwise.
env --default-signal=INT sparge-gen "${prompt[@]}" "${small[@]}" --steps 1000 -o clip.y4m 2>log &
wait_for writes $!
kill -INT $!
wait $!
code=$?
expect_files clip.y4m log
[[ $(<clip.y4m) == old ]] || fail "the older clip is gone"
grep -v '^denoising' log | tail -n 2 >&2 # a step may end after the signal and before the line
exit $code
