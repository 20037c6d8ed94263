# `bench attention` and `bench cold`, small: tables for people, JSON for machines.
source "$LIB"
lines() { for line in "${@:2}"; do grep -q "^$line " "$1" || fail "no $line in $(<"$1")"; done; }
sparge-gen bench attention --shape 2,3,4x17x16,32 --dtype bf16 --topk 0.5,0.25 --repeat 2 --threads 1 >table || fail
lines table kernel dense sage "sparge 0.5" "sparge 0.25" "order hilbert-cube:"
[[ $(grep -c '^dense ' table)$(grep -c '^sage ' table) == 12 ]] || fail "kernels, and the stages of those that have some: $(<table)"
grep -Eq '^medians of 2 runs each, by turns, after [0-9]+ that do not count; (steady|NOT STEADY: )' table || fail "$(<table)"
sparge-gen bench attention --shape tiny-wan --heads 2 --preset paper --repeat 1 --threads 1 --json - >attention.json || fail
sparge-gen bench cold --size 32x32 --frames 5 --steps 2 --repeat 1 --threads 1 >cold || fail
lines cold "renders a clip" start exit
TMPDIR=$PWD sparge-gen bench cold --size 32x32 --frames 5 --steps 3 --repeat 2 --threads 1 --backend cpu --json - >cold.json || fail
expect_files table attention.json cold cold.json
[[ $(json attention.json 'kernels[*].kernel' | tr '\n' ,) == "dense,sage,sparge 0.5,sparge 0.3,sparge 0.2,sparge 0.1," ]] || fail "$(<attention.json)"
has attention.json command="bench attention"
has cold.json command="bench cold"
has attention.json all_heads=6 'kernels[2].density=0.5*'
grep -Eq '^([0-9.]+e-0?[3-9]|0\.0)' <(json attention.json 'kernels[0].relative_l1') || fail "dense is not exact"
[[ $(json cold.json 'pieces[*].piece' | tr '\n' ,) == \
    "start,opening,plan,loading,prompt,first step,second step,other steps,decoding,file,closing,exit," ]] || fail "$(<cold.json)"
has cold.json measured.runs=2 measured.clocks=null above_context_seconds='?*'
