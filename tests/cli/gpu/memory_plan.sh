# The peak that was planned is the one in use on the device, within 5 %.
source "$LIB"

{ echo "file transformer/" && shapes_of "$SPARGE_GEN_MODEL"/transformer/*.safetensors; } >shapes
published_gguf wan transformer Q8_0 shapes
quantised="--model $SPARGE_GEN_MODEL --attention dense --diffusion-model wan-transformer-Q8_0.gguf"
for options in "--dtype f32" "--dtype bf16" "--dtype bf16 --size 512x512 --attention sparge --topk 0.5" "--dtype bf16 $quantised" \
    "--dtype f32 $quantised"; do
    # shellcheck disable=SC2086
    sparge-gen "${prompt[@]}" --backend cuda --steps 3 --quiet --json r.json -o a.y4m $options 2>log || fail "$(<log)"
    measured=$(json r.json peak_bytes) planned=$(json r.json plan.peak_bytes)
    off=$((measured - planned))
    ((20 * ${off#-} <= measured)) || fail "$options: $measured bytes measured, $planned bytes planned"
done
