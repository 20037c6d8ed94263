# Ctrl-C while frames are written.
source "$LIB"
env --default-signal=INT sparge-gen "${prompt[@]}" "${small[@]}" --steps 1 --size 160x160 --frames 81 -o clip.y4m 2>log &
frames_there() { (($(stat -c %s .clip.y4m.*.part) > 1000)); }
wait_for frames_there
kill -INT $!
wait $!
code=$?
expect_files log
exit $code
