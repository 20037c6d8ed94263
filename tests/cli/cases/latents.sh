# Latents saved before decoding give the same frames again, without a prompt; the two meanings are not mixed up.
source "$LIB"
sparge-gen "${prompt[@]}" "${small[@]}" --frames 5 -q --latents l.safetensors -o a.y4m || fail
sparge-gen -q --latents l.safetensors -o b.y4m --fps "$(sed -n '1s/.* F\([0-9]*\):.*/\1/p' a.y4m)" || fail
cmp a.y4m b.y4m || fail
expect_files a.y4m b.y4m l.safetensors
sparge-gen info l.safetensors | grep '^prompt\|^frames'
try "${prompt[@]}" --latents l.safetensors -o c.y4m
try --size 128x128 --latents l.safetensors -o c.y4m
head -c 100 l.safetensors >cut.safetensors
sparge-gen --latents cut.safetensors -o c.y4m 2>/dev/null
(($? == 1)) || fail "cut latents"
[[ ! -e c.y4m ]] || fail
