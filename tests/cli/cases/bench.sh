# `bench step`, small: it warms up first; a line an operation for people, JSON for machines. bench_tables of the long cases has the others.
source "$LIB"
sparge-gen bench step --size 32x32 --frames 9 --repeat 1 --threads 1 --quiet --json step.json >table || fail
for op in linear norm attend conv; do
    grep -q "^$op " table && [[ $(json step.json '*.ops[*].op') == *$op* ]] || fail "no $op in $(<table)"
done
has step.json format=sparge-gen version=[1-9]* command="bench step" chunk_frames=4 measured.runs=1 attention=dense density=1.0
(($(json step.json measured.warm_runs) >= 3)) || fail "nothing was warm"
grep -q 'seconds": 0.0,' step.json && fail "something took no time"
sparge-gen bench cold --size 64x64 --frames 6 --strict --repeat 1 2>failed && fail "a clip that cannot be was measured"
grep -q -- "--part clip" failed || fail "no word of which process failed"
