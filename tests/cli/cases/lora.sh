# LoRAs: what they change, what info tells of them, the settings and the command again.
source "$LIB"
# lora FILE KEY NUMBERS: a file with one tensor of so many F32, each 0.25
lora() {
    yes $'\\0\\0\\200\\76' | head -n "$3" | tr -d '\n' | { printf '%b' "$(cat)"; } |
        safetensors "$1" "{\"$2\":{\"dtype\":\"F32\",\"shape\":[$3],\"data_offsets\":[0,$((4 * $3))]}}"
}
lora look.safetensors diffusion_model.head.head.diff_b 64
lora lightning-4step.safetensors lora_unet_blocks_0_self_attn_q.diff_b 384
take=("${prompt[@]}" "${small[@]}" --frames 1 --seed 3 -q)
sparge-gen "${take[@]}" -o plain.png || fail
sparge-gen "${take[@]}" -o with.png --lora look.safetensors:0.5 --lora lightning-4step.safetensors || fail
cmp -s plain.png with.png && fail "it changes nothing"
makes_again with.png
[[ $again == *" --lora look.safetensors:0.5 --lora lightning-4step.safetensors:1 "* ]] || fail "$again"
sparge-gen info with.png --json - >j
has j 'settings.lora[0].'{file=look.safetensors,strength=0.5,hash=482b8df401adca1f} 'settings.lora[1].hash=43de0f5a978c1935'
sparge-gen info --lora look.safetensors --lora lightning-4step.safetensors:-2 --json - >j || fail info
has j 'loras[0].'{file=look.safetensors,strength=1.0,keys=1,tensors=1} 'loras[1].'{file=lightning-4step.safetensors,strength=-2.0}
