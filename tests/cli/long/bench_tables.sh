# `bench attention` and `bench cold`, small: tables for people, JSON for machines.
source "$LIB"
sparge-gen bench attention --shape 2,3,4x17x16,32 --dtype bf16 --topk 0.5,0.25 --repeat 2 --threads 1
sparge-gen bench attention --shape tiny-wan --heads 2 --preset paper --repeat 1 --threads 1 --json - >attention.json
sparge-gen bench cold --size 32x32 --frames 5 --steps 2 --repeat 1 --threads 1
TMPDIR=$PWD sparge-gen bench cold --size 32x32 --frames 5 --steps 3 --repeat 2 --threads 1 --backend cpu --json - >cold.json
expect_files attention.json cold.json
for kernel in dense sage "sparge 0.5" "sparge 0.3" "sparge 0.2" "sparge 0.1"; do
    grep -q "\"kernel\": \"$kernel\"" attention.json || fail "no $kernel in attention.json"
done
grep -q '"all_heads": 6' attention.json || fail "other heads"
grep -Eq '"relative_l1": ([0-9.]+e-0?[3-9]|0\.0)' attention.json || fail "dense is not exact"
grep -Eq '"density": 0\.5\b' attention.json || fail "half of the blocks is not half"
for piece in start opening plan loading prompt "first step" "second step" "other steps" decoding file closing exit; do
    grep -q "\"piece\": \"$piece\"" cold.json || fail "no $piece in cold.json"
done
grep -q '"above_context_seconds": ' cold.json || fail "no difference from a process that does nothing"
