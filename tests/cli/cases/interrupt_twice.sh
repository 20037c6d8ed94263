# A second Ctrl-C ends the process at once, and even then nothing is left.
source "$LIB"
env --default-signal=INT sparge-gen "${prompt[@]}" "${small[@]}" --steps 1000 -o clip.y4m 2>log &
wait_for writes $!
kill -INT $!
kill -INT $! 2>/dev/null || true
wait $!
code=$?
expect_files log
exit $code
