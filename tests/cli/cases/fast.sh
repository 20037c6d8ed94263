# --fast: the model's own LoRA and the steps it was made for.
source "$LIB"
take=("${prompt[@]}" --size 32x48 --frames 5 --dtype f32 -q)
latents() { sparge-gen "${take[@]}" --latents "$1.safetensors" -o "$1%d.png" "${@:2}" || fail "$1"; }
latents fast --fast
latents apart --lora "$SPARGE_GEN_MODEL/fast.safetensors" --preset-steps lightx2v
latents without --preset-steps lightx2v
[[ $(tensors fast.safetensors) == "$(tensors apart.safetensors)" ]] || fail "--fast is not its parts"
[[ $(tensors fast.safetensors) != "$(tensors without.safetensors)" ]] || fail "the LoRA does nothing"
sparge-gen "${take[@]}" --fast --frames 1 -o one.png || fail
makes_again one.png
[[ $again == "sparge-gen --fast "* && $again != *--lora* ]] || fail "$again"
sparge-gen info --fast --json - >j && has j defaults.{steps=4,sampler=euler,cfg_scale=1.0} defaults.sigmas=1,0.9375,* || fail
sparge-gen check --fast --size 32x32 --frames 1 -q >/dev/null || fail "check"
sparge-gen compare "${prompt[@]}" --repeat 1 --fast --size 512x512 --frames 1 -q -o arms >/dev/null || fail "compare"
own_model model '{"fast_preset": "rcm"}'
sparge-gen -m model "${take[@]}" --fast -o own.y4m && sparge-gen "${take[@]}" --preset-steps rcm -o rcm.y4m &&
    cmp own.y4m rcm.y4m || fail "a model whose own weights are for few steps"
