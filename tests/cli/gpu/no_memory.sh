# What does not fit on the device, or into the limit that stands for it, is refused before anything is computed: one
# message, exit 1, never the CPU instead.
source "$LIB"

code=0
sparge-gen "${prompt[@]}" --backend cuda --size 512x512 --memory-limit 100M -o a.y4m 2>log || code=$?
((code == 1)) || fail "exit $code: $(<log)"
grep -q "GiB" log || fail "$(<log)"
expect_files log
