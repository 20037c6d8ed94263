# Open-Sora-Plan: fresh noise at every step, the same at every level; tokens that attend in groups; a LoRA; video to video; the
# colours of its latents are not known.
source "$LIB"
minis opensora_hd96
clip=(-m opensora_hd96 -p "a cat" --size 64x64 --frames 9 --steps 3 --dtype f32)
sparge-gen "${clip[@]}" -q -o a.y4m || fail
sparge-gen "${clip[@]}" -q -o b.y4m --cpumask base --threads 2 || fail "base"
psnr a.y4m b.y4m 60
sparge-gen "${clip[@]}" -q -o b.y4m --seed 1 || fail "a seed"
cmp -s a.y4m b.y4m && fail "the seed does nothing"
[[ $(sparge-gen info opensora_hd96) == *"attention in groups"*"steps of euler_a"* ]] || fail "info"

# 4,096 tokens in groups of 1,024: their counts are added, the first one is captured
sparge-gen -m opensora_hd96 -p "a cat" --size 256x256 --frames 61 --steps 2 -g 1 --threads 1 --dense-steps 0 --topk 0.05 \
    --capture-qkv 3:1:q.safetensors --json j -q -o s.y4m || fail "sparse"
has j attention.totals.{blocks=20480,density=0.05*,sparge=8}
head -c 300 q.safetensors | grep -aq '"shape":\[1024,2,96\]' || fail "$(head -c 300 q.safetensors)"

yes $'\\0\\0\\200\\76' | head -n 192 | tr -d '\n' | { printf '%b' "$(cat)"; } |
    safetensors l.safetensors '{"transformer_blocks.0.attn1.to_q.diff_b":{"dtype":"F32","shape":[192],"data_offsets":[0,768]}}'
sparge-gen "${clip[@]}" --lora l.safetensors -q -o l.y4m 2>log || fail "$(<log)"
cmp -s a.y4m l.y4m && fail "a LoRA does nothing"

sparge-gen "${clip[@]}" --steps 4 --video a.y4m --strength 0.5 --json j -q -o v.y4m || fail "a video"
has j steps=2
refused 2 '"latent_rgb_factors"' "${clip[@]}" --preview p.png -q -o p.y4m
refused 2 "does not take a picture" "${clip[@]}" --image "$pictures/scene.png" -q -o p.y4m
