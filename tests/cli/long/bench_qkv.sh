# `bench attention --qkv` reads queries, keys and values from a file, and refuses a file that is not what it should be.
source "$LIB"

# write NAME METADATA N, for q [N, 4, 16] and k and v [N, 2, 16] of BF16 numbers between 1/8 and 1
write() {
    local header sizes=($(($3 * 128)) $(($3 * 64)))
    local ends=("${sizes[0]}" $((sizes[0] + sizes[1])) $((sizes[0] + 2 * sizes[1])))
    header="{\"__metadata__\":{$2},\"q\":{\"dtype\":\"BF16\",\"shape\":[$3,4,16],\"data_offsets\":[0,${ends[0]}]},"
    header+="\"k\":{\"dtype\":\"BF16\",\"shape\":[$3,2,16],\"data_offsets\":[${ends[0]},${ends[1]}]},"
    header+="\"v\":{\"dtype\":\"BF16\",\"shape\":[$3,2,16],\"data_offsets\":[${ends[1]},${ends[2]}]}}"
    yes '>?>>?>?>??>?>>??>>>?' | tr -d '\n' | head -c "${ends[2]}" | safetensors "$1.safetensors" "$header"
}
bench() { sparge-gen bench attention --repeat 1 --threads 1 "$@"; }

write video '"grid":"8,12,11","text_prefix":"3","text_suffix":"41","order":"row"' 1100
bench --qkv video.safetensors --heads 3 --topk 0.5 --order hilbert-frame --json j >table || fail
# a grid of 8x12x11, 3 tokens of text before and 41 behind; of 4 heads and 2 of keys 2 and 1
has j 'bhnd[1]=2' 'bhnd[2]=1100' 'bhnd[3]=16' kv_heads=1 all_heads=4 'grid[2]=11' text_prefix=3 text_suffix=41 order=hilbert-frame
grep -q '^sparge 0.5 ' table || fail "$(<table)"
bench --qkv video.safetensors --tau 0.9 --attention sparge --json j >/dev/null
[[ $(json j 'kernels[*].kernel') == *"sparge tau 0.9" && $(json j kv_heads) == 2 ]] || fail "$(<j)"

write cells '"grid":"8,12,12"' 1100
write words '"grid":"8,12,eleven"' 1100
write text '"text_prefix":"-3"' 1100
write all_text '"text_prefix":"600","text_suffix":"500"' 1100
write order '"order":"hilbret"' 1100
head -c 4000 video.safetensors >short.safetensors
sed 's/"k"/"x"/' video.safetensors >names.safetensors
sed 's/\[1100,2,16\]/[2200,1,16]/2' video.safetensors >shapes.safetensors
for name in cells:8x12x12 words:8,12,eleven text:-3 all_text:1x1x0 order:hilbret short:k names:k shapes:q,; do
    refused 1 "${name#*:}" bench attention --qkv "${name%:*}.safetensors"
done
refused 2 video bench attention --qkv video
refused 1 nothing.safetensors bench attention --qkv nothing.safetensors
refused 2 --shape bench attention --qkv video.safetensors --shape mochi
