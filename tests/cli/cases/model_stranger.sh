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
mkdir ltx two
made ltx/ltx-video.safetensors patchify_proj.weight
cp ltx/ltx-video.safetensors two
made two/vae.safetensors decoder.conv_in.weight
made unet.safetensors model.diffusion_model.input_blocks.0.0.weight
told -m ltx -p x
told info ltx
told info unet.safetensors
told --diffusion-model two/vae.safetensors -p x
told info two
