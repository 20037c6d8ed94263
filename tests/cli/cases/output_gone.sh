# The folder goes away during the render: a message, and no clip anywhere.
source "$LIB"
mkdir there
sparge-gen "${prompt[@]}" "${small[@]}" --steps 60 -o there/clip.y4m 2>log &
wait_for writes $!
rm -rf there
wait $!
(($? == 1)) || fail "$(<log)"
tail -n 1 log | grep -q '^sparge-gen: there/clip.y4m: .*No such file or directory$' || fail "$(<log)"
expect_files log
