# `bench attention` at the shape of a language model: causal, heads that share keys, operations and density of the visible pairs.
source "$LIB"
shape=(bench attention --shape llama-8b-24k)
sparge-gen "${shape[@]}" --heads 4 --repeat 1 --attention sage,sparge --topk 0.2 --json causal.json >table || fail
grep -q "^1 x 4 heads of 128 (of 32), 1 of keys, 24576 tokens (causal, 1x1x24576), 0.6185 TFLOP" table || fail "$(<table)"
grep -q "to put the tokens in order" table && fail "a text has no other order"
has causal.json causal=true kv_heads=1 layers=0 order=row flops=618500* "kernels[0].density=1.0"
awk -v sage="$(json causal.json 'kernels[0].relative_l1')" -v density="$(json causal.json 'kernels[1].density')" \
    'BEGIN { exit !(sage > 0 && sage < 0.02 && density > 0.19 && density <= 0.21) }' || fail "$(<table)"
refused 2 "--order has no effect with --shape llama-8b-24k" "${shape[@]}" --order hilbert
