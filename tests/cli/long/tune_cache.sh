# The threshold of the step cache, found in renders, written beside the model with what stands there of attention, used by the next
# render and told; what it says it found is what a render comes to.
source "$LIB"
cp -rs "$(readlink -f "$SPARGE_GEN_MODEL")" model
rm -f model/sparge-attention.json
export SPARGE_GEN_MODEL=$PWD/model
take=(--size 32x48 --frames 5 --steps 20 --cfg-scale 1)
printf '%s\n' "a red ball" "a blue cube" >prompts.txt
sparge-gen tune --prompt-file prompts.txt "${take[@]}" --cache --cache-error 0.02 --json report.json >table 2>log || fail "$(<log)"
threshold=$(sed -nE 's/.*"cache": \{"threshold": ([0-9.e-]+), "bound": 0.02,.*/\1/p' model/sparge-attention.json)
[[ $threshold ]] || fail "$(<model/sparge-attention.json)"
grep -q "^ *$threshold .* taken$" table && grep -q '"trials": \[' report.json || fail "$(<table)"
sparge-gen -p "a red ball" "${take[@]}" --cache usual -o usual.y4m --json usual.json 2>log || fail "$(<log)"
grep -q "^cache: threshold $threshold, as sparge-attention.json beside the model has it$" log || fail "$(<log)"
grep -q "\"cache_threshold\": $threshold" usual.json || fail "no threshold in the report"
sparge-gen -p "a red ball" "${take[@]}" --cache fast -q -o fast.y4m --json fast.json || fail
grep -q cache_threshold fast.json && fail "a level with a threshold of its own takes the model's"
sparge-gen compare -p "a red ball" "${take[@]}" --arms dense,dense:cache=usual -o arms --json arms.json 2>log >shown || fail "$(<log)"
grep -q "^dense:cache=usual: cache: threshold $threshold, as" log || fail "$(<log)"
error=$(tr -d ' \n' <arms.json | sed -nE 's/.*"relative_l2":\[[^]]*,([0-9.]+)\].*/\1/p')
awk "BEGIN {exit !($error > 0 && $error <= 0.02)}" || fail "error $error"

# Each kind of tuning leaves what the other found.
sparge-gen tune -p ball --size 256x256 --frames 17 --steps 2 --cfg-scale 1 -q >/dev/null || fail
grep -q '"rule": "topk"' model/sparge-attention.json || fail "no thresholds of attention"
grep -q "\"threshold\": $threshold," model/sparge-attention.json || fail "tuning attention loses the cache's threshold"
rules=$(grep -vE '"cache"|"written"' model/sparge-attention.json | tr -d ' \n,')
sparge-gen tune -p ball "${take[@]}" --cache --cache-error 0.3 -q >/dev/null || fail
grep -q '"bound": 0.3' model/sparge-attention.json || fail "not tuned again"
[[ $(grep -vE '"cache"|"written"' model/sparge-attention.json | tr -d ' \n,') == "$rules" ]] || fail "tuning the cache changes attention"

refused() { sparge-gen tune -p ball --size 32x48 --frames 5 -q "$@" 2>&1 && fail "$*"; }
refused --cache --steps 12
refused --cache --steps 20 --cfg-scale 1 --cache-error 1e-6
refused --cache --steps 20 --l1 0.1
refused --cache-error 0.1
refused --cache --steps 20 --cache-error 0
echo '{"format": "sparge-gen thresholds", "version": 1, "cache": {"threshold": 0.2}}' >alone.json
sparge-gen -p ball --size 256x256 --sparse-config alone.json -o none.y4m 2>&1 && fail "no thresholds of attention"
echo '{"format": "sparge-gen thresholds", "version": 1, "cache": {"threshold": 1e300}}' >model/sparge-attention.json
sparge-gen -p ball "${take[@]}" -o none.y4m 2>log && fail "an absurd threshold"
sed "s|$PWD/||" log
echo '{"format": "sparge-gen thresholds", "version": 1, "model": "0123456789abcdef", "cache": {"threshold": 0.2}}' >model/sparge-attention.json
sparge-gen -p ball "${take[@]}" --cache usual -o other.y4m 2>log || fail "$(<log)"
grep -qE '^cache: threshold 0.2, as .* has it; it was tuned for another checkpoint \(0123456789abcdef; this is [0-9a-f]{16}\)$' log ||
    fail "$(<log)"
rm -r model
