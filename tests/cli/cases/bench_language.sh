# `bench attention --inputs language`, small: which blocks of planted keys are kept, by a table and as JSON, and by a given mask.
source "$LIB"
small=(--inputs language --shape 1,2,2048,32 --margin 2 --threads 1)
sparge-gen bench attention "${small[@]}" --planted noisy --topk 0.3 --save-qkv qkv.safetensors >table || fail
for by in oracle "sink + window" random mean "mean, judged" sub16 "sub16, judged" error "error, judged"; do
    grep -q "^$by  *[0-9.]*% " table || fail "no $by in $(<table)"
done
grep -q "^oracle .* 100.0%  *1.000 " table || fail "the oracle misses keys: $(<table)"
grep -q "^sink + window .*misses$" table || fail "a window has the keys: $(<table)"
grep -q "^mean, judged .* 100.0% .*[0-9]$" table || fail "the judge misses noisy blocks: $(<table)"

sparge-gen bench attention "${small[@]}" --score mean --topk 0.3 --json table.json >/dev/null || fail
has table.json command="bench attention" inputs[0].planted=similar inputs[1].planted=noisy inputs[2].planted=scattered \
    inputs[0].arms[0].kept_by=oracle inputs[0].arms[3].kept_by=mean kv_heads=2
awk -v a="$(json table.json 'inputs[1].arms[0].density')" -v b="$(json table.json 'inputs[1].arms[3].density')" 'BEGIN { exit !(a - b < .05 && b - a < .05) }' ||
    fail "a mask keeps more than top-k" # but for the diagonal, which either may have taken already

# a mask that keeps all: its density is that of all arms, and nothing is missed
printf '%512s' | tr ' ' '\1' | safetensors all.safetensors '{"mask":{"dtype":"U8","shape":[1,16,32],"data_offsets":[0,512]}}'
sparge-gen bench attention "${small[@]}" --planted noisy --block-mask all.safetensors >all || fail
grep -q "^the given mask  *100.0%  *100.0%  *1.000  *100.0%" all || fail "$(<all)"
grep -q "misses$" all && fail "$(<all)"

# what was saved is all of q, k and v in F32
size=$(stat -c %s qkv.safetensors)
((size > 3 * 2 * 2048 * 32 * 4 && size < 3 * 2 * 2048 * 32 * 4 + 1000)) || fail "$size bytes are saved"
grep -aq '"k":{"dtype":"F32","shape":\[2048,2,32\]' qkv.safetensors || fail "$(head -c 300 qkv.safetensors)"
