# LoRAs: what they change, the notices, the settings and the command again, and what is refused.
source "$LIB"
# lora FILE KEY NUMBERS: a file with one tensor of so many F32, each 0.25
lora() {
    local header
    printf -v header '{"%s":{"dtype":"F32","shape":[%d],"data_offsets":[0,%d]}}' "$2" "$3" $((4 * $3))
    {
        printf "\\x$(printf %02x $((${#header} % 256)))\\x$(printf %02x $((${#header} / 256)))\0\0\0\0\0\0"
        printf %s "$header"
        for ((i = 0; i < $3; i++)); do printf '\0\0\200\76'; done
    } >"$1"
}
lora look.safetensors diffusion_model.head.head.diff_b 64
lora extra.safetensors diffusion_model.blocks.77.ffn.0.diff_b 2
lora wide.safetensors transformer.proj_out.diff_b 65
lora lightning-4step.safetensors lora_unet_blocks_0_self_attn_q.diff_b 384
take=("${prompt[@]}" "${small[@]}" --frames 1 --seed 3 -q)
sparge-gen "${take[@]}" -o plain.png || fail
sparge-gen "${take[@]}" -o with.png --lora look.safetensors:0.5 --lora lightning-4step.safetensors || fail
cmp -s plain.png with.png && fail "it changes nothing"
again=$(sparge-gen info with.png | sed -n '/^again: /,$p')
[[ $again == *" --lora look.safetensors:0.5 --lora lightning-4step.safetensors:1 "* ]] || fail "$again"
eval "${again#again: } -q -o again.png" || fail "$again"
cmp with.png again.png || fail
sparge-gen info with.png | grep ^lora
sparge-gen info --lora look.safetensors --lora lightning-4step.safetensors:-2 | sed -n '/^lora/,/^$/p'
sparge-gen info --lora look.safetensors --json | sed -n '/"loras"/,/\]$/p'
sparge-gen "${prompt[@]}" --size 32x32 --frames 1 --steps 1 --cfg-scale 3 -o a.png --lora lightning-4step.safetensors 2>&1 | grep lora
try "${take[@]}" -o a.png --lora none.safetensors:2
try "${take[@]}" -o a.png --lora extra.safetensors
try "${take[@]}" -o a.png --lora wide.safetensors
try "${take[@]}" -o a.png --lora :2
try "${take[@]}" -o a.png --lora look.safetensors:1000
try "${take[@]}" -o a.png --high-noise-lora look.safetensors
sparge-gen "${take[@]}" -o b.png --latents l.safetensors || fail
try --latents l.safetensors -o a.png --lora look.safetensors
try "${take[@]}" -o a.png $(printf -- '--lora look.safetensors %.0s' 1 2 3 4 5 6 7 8 9)
