# What is too short for sparse attention runs dense; told where it was asked for, and in the settings and the report.
source "$LIB"
sparge-gen "${prompt[@]}" "${small[@]}" --frames 1 --attention sparge --json j -o a.png || fail
sparge-gen "${prompt[@]}" "${small[@]}" --frames 1 -q -o b.png || fail
cmp a.png b.png || fail "settings or picture differ"
grep -q '"why": "short"' j || fail "no reason in the report"
sparge-gen "${prompt[@]}" "${small[@]}" --frames 1 -v -o c.png 2>log || fail
grep -q '^attention: dense: 4 tokens are fewer than 8192$' log || fail "$(<log)"
grep -q '^step  2  dense   the sequence is short$' log || fail "$(<log)"
sparge-gen "${prompt[@]}" "${small[@]}" --frames 1 --attention sparge --latents l.safetensors -q -o d.png || fail
sparge-gen --latents l.safetensors --capture-qkv 0:0:q.safetensors -o e.png
(($? == 2)) || fail "decoding captures nothing"
