# What does not fit on the device is refused before anything is computed: one message, exit 1, never the CPU instead.
source "$LIB"

code=0
sparge-gen "${prompt[@]}" --backend cuda --size 4096x4096 --frames 4001 -o a.y4m 2>log || code=$?
((code == 1)) || fail "exit $code: $(<log)"
grep -q "GiB" log || fail "$(<log)"
expect_files log
