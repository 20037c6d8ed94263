# `bench attention --qkv` reads queries, keys and values from a file, and refuses a file that is not what it should be.
source "$LIB"

# write NAME METADATA N, for q [N, 4, 16] and k and v [N, 2, 16] of BF16 numbers between 1/8 and 1
write() {
    local header sizes=($(($3 * 128)) $(($3 * 64)))
    local ends=("${sizes[0]}" $((sizes[0] + sizes[1])) $((sizes[0] + 2 * sizes[1])))
    header="{\"__metadata__\":{$2},\"q\":{\"dtype\":\"BF16\",\"shape\":[$3,4,16],\"data_offsets\":[0,${ends[0]}]},"
    header+="\"k\":{\"dtype\":\"BF16\",\"shape\":[$3,2,16],\"data_offsets\":[${ends[0]},${ends[1]}]},"
    header+="\"v\":{\"dtype\":\"BF16\",\"shape\":[$3,2,16],\"data_offsets\":[${ends[1]},${ends[2]}]}}"
    {
        # shellcheck disable=SC2059
        printf "\\x$(printf %02x $((${#header} & 255)))\\x$(printf %02x $((${#header} >> 8)))\\0\\0\\0\\0\\0\\0"
        printf %s "$header"
        yes '>?>>?>?>??>?>>??>>>?' | tr -d '\n' | head -c "${ends[2]}"
    } >"$1.safetensors"
}
bench() { sparge-gen bench attention --repeat 1 --threads 1 "$@"; }

write video '"grid":"8,12,11","text_prefix":"3","text_suffix":"41","order":"row"' 1100
bench --qkv video.safetensors --heads 3 --topk 0.5 --order hilbert-frame
bench --qkv video.safetensors --tau 0.9 --attention sparge --json report.json >/dev/null
grep -q '"kernel": "sparge tau 0.9"' report.json || fail "no tau in report.json"
grep -q '"kv_heads": 2' report.json || fail "other heads of keys in report.json"

write cells '"grid":"8,12,12"' 1100
write words '"grid":"8,12,eleven"' 1100
write text '"text_prefix":"-3"' 1100
write all_text '"text_prefix":"600","text_suffix":"500"' 1100
write order '"order":"hilbret"' 1100
head -c 4000 video.safetensors >short.safetensors
sed 's/"k"/"x"/' video.safetensors >names.safetensors
sed 's/\[1100,2,16\]/[2200,1,16]/2' video.safetensors >shapes.safetensors
for name in cells words text all_text order short names shapes; do try bench attention --qkv $name.safetensors; done
try bench attention --qkv video
try bench attention --qkv nothing.safetensors
try bench attention --qkv video.safetensors --shape mochi
