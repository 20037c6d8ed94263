# Open-Sora-Plan as its own repository has it, with mT5's folder beside it, and as single files, renders as its folder.
source "$LIB"
[[ -d $FIXTURES/opensora_hd96 ]] || skip "no mini checkpoint of Open-Sora-Plan beside the program"
minis opensora_hd96
mini=$PWD/opensora_hd96
mkdir plan mt5-xxl
ln -s "$mini"/transformer plan/any93x640x640
ln -s "$mini"/vae plan/vae
ln -s "$mini"/tokenizer/* "$mini"/text_encoder/model.safetensors mt5-xxl
sed 's/MT5EncoderModel/MT5ForConditionalGeneration/' opensora_hd96/text_encoder/config.json >mt5-xxl/config.json
same=(--prompt x --size 32x32 --frames 5 --steps 3 --dtype f32 --seed 5 --quiet)
sparge-gen -m opensora_hd96 "${same[@]}" -o folder.y4m || fail
sparge-gen -m plan --text-encoder mt5-xxl "${same[@]}" -o repository.y4m || fail
index=diffusion_pytorch_model.safetensors.index.json
sparge-gen --diffusion-model plan/any93x640x640/$index --vae plan/vae/$index --text-encoder mt5-xxl/model.safetensors "${same[@]}" \
    -o files.y4m || fail
cmp folder.y4m repository.y4m && cmp folder.y4m files.y4m || fail
sparge-gen -m opensora_hd96 "${same[@]}" --sampler euler_a --frames 1 -o sampler.png || fail
makes_again sampler.png
[[ $again == *" --sampler euler_a "* && $again != *flow-shift* ]] || fail "$again"
