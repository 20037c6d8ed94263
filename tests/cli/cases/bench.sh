# Both benchmarks, small: tables for people, JSON for machines.
source "$LIB"
sparge-gen bench step --size 32x32 --frames 9 --repeat 1 --threads 1 --quiet --json step.json
sparge-gen bench attention --shape 2,3,100,16 --dtype bf16 --repeat 2 --threads 1
sparge-gen bench attention --shape tiny-wan --repeat 1 --threads 1 --json - >attention.json
expect_files step.json attention.json
for op in linear norm attend conv; do grep -q "\"op\": \"$op\"" step.json || fail "no $op in step.json"; done
grep -q '"chunk_frames": 4' step.json || fail "another chunk"
grep -q 'seconds": 0.0,' step.json && fail "something took no time"
grep -q '"kernel": "dense"' attention.json || fail "no dense in attention.json"
grep -Eq '"relative_l1": ([0-9.]+e-0?[3-9]|0\.00)' attention.json || fail "dense is not exact"
