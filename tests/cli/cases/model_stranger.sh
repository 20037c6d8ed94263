# A folder with one file of weights is that file, and a file of a model that is not rendered is named.
source "$LIB"
# A safetensors file of one empty tensor.
one() {
    local json='{"'$2'":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}'
    printf "\\x$(printf %02x ${#json})\0\0\0\0\0\0\0%s" "$json" >"$1"
}
# What else it knows does not matter here.
told() { try "$@" | sed -E 's/ \([^)]*\)/ (...)/; s/(is no model):.*/\1/'; }
mkdir flux two
one flux/flux1-dev.safetensors double_blocks.0.img_attn.qkv.weight
cp flux/flux1-dev.safetensors two
one two/ae.safetensors decoder.conv_in.weight
one unet.safetensors model.diffusion_model.input_blocks.0.0.weight
told -m flux -p x
told info flux
told info unet.safetensors
told --diffusion-model two/ae.safetensors -p x
told info two
