# Ctrl-C while frames are written; with --quiet it is not answered.
source "$LIB"
env --default-signal=INT sparge-gen "${prompt[@]}" "${small[@]}" --steps 1 --size 160x160 --frames 81 -q -o clip.y4m 2>log &
wait_for writes $! 1000
kill -INT $!
wait $!
code=$?
expect_files log
[[ $(<log) == "sparge-gen: interrupted" ]] || fail "$(<log)"
exit $code
