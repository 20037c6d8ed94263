# A model of single files renders as its folder; where they come from is told, and kept in the clip.
source "$LIB"
ln -s "$SPARGE_GEN_MODEL" wan
dit=wan/transformer/diffusion_pytorch_model.safetensors.index.json
parts=(--diffusion-model $dit --vae wan/vae/diffusion_pytorch_model.safetensors --t5xxl wan/text_encoder/model.safetensors
    --tokenizer wan/tokenizer)
same=("${prompt[@]}" "${small[@]}" --frames 5 --flow-shift 5 --dtype f32 --quiet)
sparge-gen --model wan "${same[@]}" -o folder.y4m || fail
unset SPARGE_GEN_MODEL
sparge-gen "${parts[@]}" "${same[@]}" -o parts.y4m || fail
sparge-gen --model $dit "${parts[@]:2}" "${same[@]}" -o model.y4m || fail
sparge-gen --model wan "${parts[@]:2:2}" "${same[@]}" -o vae.y4m || fail
cmp folder.y4m parts.y4m && cmp folder.y4m model.y4m && cmp folder.y4m vae.y4m || fail
sparge-gen "${parts[@]}" "${same[@]}" -o parts-%03d.png || fail
files=(--model diffusion_pytorch_model.safetensors.index.json --vae diffusion_pytorch_model.safetensors --text-encoder model.safetensors
    --tokenizer tokenizer)
sparge-gen info parts-001.png --json - >j && has j settings.{model.file="${files[1]}",vae="${files[3]}",text_encoder="${files[5]}",tokenizer=tokenizer} || fail
[[ $(sparge-gen info parts-001.png) == *"again: sparge-gen ${files[*]} --prompt "* ]] || fail "$(sparge-gen info parts-001.png)"
for model in "${parts[*]}" "$dit ${parts[*]:2}"; do
    # shellcheck disable=SC2086
    sparge-gen info $model --size 64x64 --frames 5 --json - >j || fail "info $model"
    [[ $(json j 'components[*].file' | sort | tr '\n' ' ') == "${parts[5]} $dit ${parts[3]} " ]] || fail "$(<j)"
done
