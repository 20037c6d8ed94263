# The threshold of the step cache, found in renders, written beside the model with what stands there of attention, used by the next
# render and told; what it says it found is what a render comes to.
source "$LIB"
own_model model
rm -f model/sparge-attention.json
export SPARGE_GEN_MODEL=$PWD/model
take=(--size 32x48 --frames 5 --steps 20 --cfg-scale 1)
printf '%s\n' "a red ball" "a blue cube" >prompts.txt
sparge-gen tune --prompt-file prompts.txt "${take[@]}" --cache --cache-error 0.02 --json report.json >table 2>log || fail "$(<log)"
has model/sparge-attention.json cache.bound=0.02
threshold=$(json model/sparge-attention.json cache.threshold)
grep -q "^ *$threshold .* taken$" table || fail "$(<table)"
has report.json threshold="$threshold" 'trials[0].error=[0-9]*'
sparge-gen -p "a red ball" "${take[@]}" --cache usual -o usual.y4m --json usual.json 2>log || fail "$(<log)"
grep -q "^cache: threshold $threshold, as sparge-attention.json " log || fail "$(<log)"
has usual.json settings.cache_threshold.threshold="$threshold"
sparge-gen -p "a red ball" "${take[@]}" --cache fast -q -o fast.y4m --json fast.json || fail
has fast.json settings.cache=fast settings.cache_threshold.threshold=
sparge-gen compare -p "a red ball" --repeat 1 "${take[@]}" --arms dense,dense:cache=usual -o arms --json arms.json 2>log >shown || fail "$(<log)"
grep -q "^dense:cache=usual: cache: threshold $threshold, as" log || fail "$(<log)"
error=$(json arms.json 'arms[1].latents.relative_l2[19]')
awk "BEGIN {exit !($error > 0 && $error <= 0.02)}" || fail "error $error"

# Each kind of tuning leaves what the other found.
sparge-gen tune -p ball --size 256x256 --frames 17 --steps 2 --cfg-scale 1 -q >/dev/null || fail
has model/sparge-attention.json rule=topk cache.threshold="$threshold"
rules=$(grep -vE '"cache"|"written"' model/sparge-attention.json | tr -d ' \n,')
sparge-gen tune -p ball "${take[@]}" --cache --cache-error 0.3 -q >/dev/null || fail
has model/sparge-attention.json cache.bound=0.3
[[ $(grep -vE '"cache"|"written"' model/sparge-attention.json | tr -d ' \n,') == "$rules" ]] || fail "tuning the cache changes attention"

refused 2 "--cache-error 1e-06" tune -p ball --size 32x48 --frames 5 -q --cache --steps 20 --cfg-scale 1 --cache-error 1e-6
echo '{"format": "sparge-gen thresholds", "version": 1, "model": "0123456789abcdef", "cache": {"threshold": 0.2}}' >model/sparge-attention.json
sparge-gen -p ball "${take[@]}" --cache usual -o other.y4m 2>log || fail "$(<log)"
grep -q '^cache: threshold 0.2, .* another checkpoint (0123456789abcdef; ' log || fail "$(<log)"
