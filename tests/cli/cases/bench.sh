# The benchmarks, small: tables for people, JSON for machines.
source "$LIB"
sparge-gen bench step --size 32x32 --frames 9 --repeat 1 --threads 1 --quiet --json step.json
sparge-gen bench attention --shape 2,3,4x17x16,32 --dtype bf16 --topk 0.5,0.25 --repeat 2 --threads 1
sparge-gen bench attention --shape tiny-wan --heads 2 --preset paper --repeat 1 --threads 1 --json - >attention.json
sparge-gen bench cold --size 32x32 --frames 5 --steps 2 --repeat 1 --threads 1
TMPDIR=$PWD sparge-gen bench cold --size 32x32 --frames 5 --steps 3 --repeat 2 --threads 1 --backend cpu --json - >cold.json
expect_files step.json attention.json cold.json
for op in linear norm attend conv; do grep -q "\"op\": \"$op\"" step.json || fail "no $op in step.json"; done
grep -q '"chunk_frames": 4' step.json || fail "another chunk"
grep -q 'seconds": 0.0,' step.json && fail "something took no time"
for kernel in dense sage "sparge 0.5" "sparge 0.3" "sparge 0.2" "sparge 0.1"; do
    grep -q "\"kernel\": \"$kernel\"" attention.json || fail "no $kernel in attention.json"
done
grep -q '"all_heads": 6' attention.json || fail "other heads"
grep -Eq '"relative_l1": ([0-9.]+e-0?[3-9]|0\.0)' attention.json || fail "dense is not exact"
grep -Eq '"density": 0\.5\b' attention.json || fail "half of the blocks is not half"
for piece in start opening plan loading prompt "first step" "second step" "other steps" decoding file closing exit; do
    grep -q "\"piece\": \"$piece\"" cold.json || fail "no $piece in cold.json"
done
grep -q '"above_context_seconds": 0' cold.json || fail "a clip takes no longer than nothing"
sparge-gen bench cold --size 64x64 --frames 6 --strict --repeat 1 2>failed && fail "a clip that cannot be was measured"
grep -q "the process for --part clip failed" failed || fail "no word of which process failed"
rm failed
