# Two renders to the same name do not meet: one of the two clips is there, whole.
source "$LIB"
run() { sparge-gen "${prompt[@]}" "${small[@]}" --frames 5 -q -s "$1" -o "$2" --threads 1; }
run 1 a.y4m || fail
run 2 b.y4m || fail
run 1 c.y4m & first=$!
run 2 c.y4m & second=$!
wait $first || fail
wait $second || fail
cmp -s a.y4m c.y4m || cmp -s b.y4m c.y4m || fail
expect_files a.y4m b.y4m c.y4m
