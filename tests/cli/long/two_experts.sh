# A model of two experts: thresholds are tuned for the steps of each, a render takes them up, and a set resumes.
source "$LIB"
minis wan22_a14b
export SPARGE_GEN_MODEL=$PWD/wan22_a14b
# 1,280 tokens; the second expert begins at the third of six steps
tiny=(--size 256x256 --frames 17 --steps 6 -g 2 --backend cpu --dtype f32)
sparge-gen tune "${prompt[@]}" "${tiny[@]}" --buckets 2 -o tuned.json >table.txt || fail "tune"
grep -q '^timesteps .*>=' table.txt || fail "$(<table.txt)"
sparge-gen "${prompt[@]}" "${tiny[@]}" --cfg-scale-2 1.5 --sparse-config tuned.json --dense-steps 0 -o a.y4m --json a.json || fail
[[ $(json a.json 'attention.layers[*].kept' | wc -l) -ge 6 ]] || fail "not sparse in every step of both: $(<a.json)"
sparge-gen "${prompt[@]}" "${tiny[@]}" --cfg-scale-2 1.5 --sparse-config tuned.json --dense-steps 0 -o b.y4m || fail
cmp a.y4m b.y4m || fail "the same command gives another clip"
sparge-gen "${prompt[@]}" "${tiny[@]}" --cfg-scale-2 3 --sparse-config tuned.json --dense-steps 0 -o c.y4m || fail
cmp -s a.y4m c.y4m && fail "guidance of the second expert does nothing"

printf 'a\nb\n' >set.txt
command=(eval --prompts set.txt "${tiny[@]}" --arms dense,sparge:topk=0.3:dense-steps=0 --out out)
sparge-gen "${command[@]}" --shard 1/2 || fail
sparge-gen "${command[@]}" --shard 2/2 || fail
grep -q '"sparge:topk=0.3:dense-steps=0","all",2,2,0' out/summary.csv || fail "$(<out/summary.csv)"

# The cache computes the first two steps of the second expert, which begins at step 13 of 40, whatever was skipped before.
sparge-gen "${prompt[@]}" --size 64x64 --frames 5 --steps 40 -g 2 --backend cpu --dtype f32 -q --cache fast -o d.y4m --json d.json || fail
list=,$(json d.json 'cache.skipped_steps[*]' | tr '\n' ,)
[[ $list == *,12,* && $list != *,13,* && $list != *,14,* && $list == *,15,16,17,* ]] || fail "skipped $list"
