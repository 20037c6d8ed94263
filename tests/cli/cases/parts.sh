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
sparge-gen info parts-000.png | grep -E '^(model|vae|text_encoder|tokenizer) '
sparge-gen info parts-000.png | grep -o 'again: sparge-gen .* --prompt'
sparge-gen info "${parts[@]}" --size 64x64 --frames 5 | grep -A 3 '^text_encoder    wan'
sparge-gen info $dit "${parts[@]:2}" --size 64x64 --frames 5 | grep -c 'wan/'
try info wan/vae/diffusion_pytorch_model.safetensors
try --diffusion-model $dit "${prompt[@]}"
