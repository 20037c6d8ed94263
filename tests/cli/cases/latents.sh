# Latents saved before decoding give the same frames again, without a prompt, and keep the settings.
source "$LIB"
sparge-gen "${prompt[@]}" "${small[@]}" --frames 5 -q --latents l.safetensors -o a.y4m || fail
sparge-gen -q --latents l.safetensors -o b.y4m --fps "$(sed -n '1s/.* F\([0-9]*\):.*/\1/p' a.y4m)" || fail
cmp a.y4m b.y4m || fail
expect_files a.y4m b.y4m l.safetensors
sparge-gen info l.safetensors --json - >j && has j settings.prompt="${prompt[1]}" settings.frames=5 || fail
head -c 100 l.safetensors >cut.safetensors
refused 1 cut.safetensors --latents cut.safetensors -o c.y4m
