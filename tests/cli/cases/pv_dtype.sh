# A CPU multiplies no FP8 and says so before it computes anything; bf16 is what it may be told to take.
source "$LIB"

code=0
sparge-gen "${prompt[@]}" --backend cpu --attention sage --pv-dtype fp8 -o a.y4m 2>log || code=$?
((code == 1)) || fail "exit $code: $(<log)"
grep -q "^sparge-gen: pv-dtype fp8: only backend cuda has it, from level sm89 up, and ref$" log || fail "$(<log)"
rm log
sparge-gen "${prompt[@]}" --backend cpu --attention sage --pv-dtype bf16 --size 256x256 --frames 13 --steps 2 \
    --cfg-scale 1 --dense-steps 0 --quiet --json r.json -o a.y4m || fail
grep -q '"pv_dtype": "bf16"' r.json || fail "$(<r.json)"
expect_files a.y4m r.json
