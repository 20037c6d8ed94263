# --fast: the model's own LoRA and the steps it was made for; refused where sparge-gen.json names none.
source "$LIB"
take=("${prompt[@]}" --size 32x48 --frames 5 --dtype f32 -q)
tensors() { tail -c +$((9 + $(od -An -tu8 -N8 "$1"))) "$1" | cksum; } # without the header, which has the settings
latents() { sparge-gen "${take[@]}" --latents "$1.safetensors" -o "$1%d.png" "${@:2}" || fail "$1"; }
latents fast --fast
latents apart --lora "$SPARGE_GEN_MODEL/fast.safetensors" --preset-steps lightx2v
latents without --preset-steps lightx2v
[[ $(tensors fast.safetensors) == "$(tensors apart.safetensors)" ]] || fail "--fast is not its parts"
[[ $(tensors fast.safetensors) != "$(tensors without.safetensors)" ]] || fail "the LoRA does nothing"
again=$(sparge-gen info fast1.png | sed -n 's/^again: //p')
[[ $again == "sparge-gen --fast "* && $again != *--lora* ]] || fail "$again"
eval "$again -q -o again.y4m" && sparge-gen "${take[@]}" --fast -o first.y4m && cmp again.y4m first.y4m || fail "$again"
sparge-gen info --fast | grep -q "4 steps of euler, guidance 1, sigmas 1,0.9375," || fail "info"
sparge-gen check --fast --size 32x32 --frames 1 -q | grep -q "every operation agrees" || fail "check"
sparge-gen compare "${prompt[@]}" --fast --size 512x512 --frames 1 -q -o arms >/dev/null || fail "compare"
try --prompt x -q --fast --steps 8
try --prompt x -q --fast --flow-shift 3
try --prompt x -q --fast --sched-compat old
try --prompt x -q --fast --sampler unipc
try --prompt x -q --sigmas 1,0.5 --steps 2
try --prompt x -q --sigmas 1,0.5,0.6
try --prompt x -q --sigmas 1,half
try --prompt x -q --sampler unipc --sigmas 1
try --prompt x -q --sampler ddim
try --prompt x -q --preset-steps rmc
cp -rs "$(readlink -f "$SPARGE_GEN_MODEL")" model
for own in '{}' '{"fast_preset": "slow"}' '{"fast_preset": 4}' '{"fast_preset": "rcm", "fast_lora": "../x.safetensors"}'; do
    rm -f model/sparge-gen.json
    echo "$own" >model/sparge-gen.json
    try -m model --prompt x -q --fast
done
try bench step -m model -q --fast # which reads the same, and takes seconds to measure the machine
echo '{"fast_preset": "rcm"}' >model/sparge-gen.json
sparge-gen -m model "${take[@]}" --fast -o own.y4m && sparge-gen "${take[@]}" --preset-steps rcm -o rcm.y4m &&
    cmp own.y4m rcm.y4m || fail "a model whose own weights are for few steps"
rm -r model
