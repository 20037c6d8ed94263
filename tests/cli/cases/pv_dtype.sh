# A CPU multiplies no FP8 and says so before it computes anything; bf16 and int8 are what it may be told to take.
source "$LIB"

code=0
sparge-gen "${prompt[@]}" --backend cpu --attention sage --pv-dtype fp8 -o a.y4m 2>log || code=$?
((code == 1)) || fail "exit $code: $(<log)"
grep -q "^sparge-gen: pv-dtype fp8: only backend cuda has it, from level sm89 up, and ref$" log || fail "$(<log)"
rm log
for type in bf16 int8; do
    sparge-gen "${prompt[@]}" --backend cpu --attention sage --pv-dtype $type --size 512x512 --frames 1 --steps 2 \
        --cfg-scale 1 --dense-steps 0 --quiet --json r.json -o $type.y4m || fail
    grep -q "\"pv_dtype\": \"$type\"" r.json || fail "$(<r.json)"
done
cmp -s bf16.y4m int8.y4m && fail "int8 gives what bf16 gives"
expect_files bf16.y4m int8.y4m r.json
