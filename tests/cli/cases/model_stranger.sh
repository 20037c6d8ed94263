# A folder with one file of weights is that file, and a file of a model that is not rendered is named.
source "$LIB"
# A safetensors file of empty tensors.
made() {
    local json file=$1
    shift
    json='{'$(printf '"%s":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},' "$@")
    json=${json%,}'}'
    printf "\\x$(printf %02x ${#json})\0\0\0\0\0\0\0%s" "$json" >"$file"
}
# What else it knows does not matter here.
told() { try "$@" | sed -E 's/ \([^)]*\)/ (...)/; s/(is no model):.*/\1/'; }
mkdir flux two
made flux/flux1-dev.safetensors double_blocks.0.img_attn.qkv.weight
cp flux/flux1-dev.safetensors two
made two/ae.safetensors decoder.conv_in.weight
made unet.safetensors model.diffusion_model.input_blocks.0.0.weight
told -m flux -p x
told info flux
told info unet.safetensors
told --diffusion-model two/ae.safetensors -p x
told info two
made hunyuan.safetensors txt_in.individual_token_refiner.blocks.0.norm1.weight double_blocks.0.img_attn.qkv.weight
told info hunyuan.safetensors
made llama.safetensors blk.0.attn_norm.weight
told --text-encoder llama.safetensors -p x
