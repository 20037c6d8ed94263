# Thresholds and masks from files: sound ones are taken, others are refused by name.
source "$LIB"
large=(--size 512x512 --frames 1 --steps 2 --cfg-scale 1 --dense-steps 0)

# grid LAYERS VALUE: of 6 heads each
grid() {
    local layers
    layers=$(for ((i = 0; i < $1; i++)); do printf ',[%s,%s,%s,%s,%s,%s]' "$2" "$2" "$2" "$2" "$2" "$2"; done)
    printf '[[%s]]' "${layers#,}"
}
# thresholds LAYERS MODEL
thresholds() {
    printf '{"format":"sparge-gen thresholds","version":1,"model":"%s","rule":"topk","layers":%s,"heads":6,' "$2" "$1"
    printf '"buckets":[0],"amount":%s,"theta":%s,"lambda":%s}' "$(grid "$1" 0.125)" "$(grid "$1" -1)" "$(grid "$1" 0)"
}
# write NAME TYPE HEADS QUERIES KEYS BYTES: a mask that keeps all
write() {
    local n=$(($3 * $4 * $5)) header
    header="{\"mask\":{\"dtype\":\"$2\",\"shape\":[$3,$4,$5],\"data_offsets\":[0,$n]}}"
    {
        # shellcheck disable=SC2059
        printf "\\x$(printf %02x ${#header})\\0\\0\\0\\0\\0\\0\\0"
        printf %s "$header"
        head -c "$n" /dev/zero | tr '\0' '\1'
    } >"$1.safetensors"
}

thresholds 6 0123456789abcdef >own.json
sparge-gen "${prompt[@]}" "${large[@]}" --sparse-config own.json --json j -o a.png 2>log || fail "$(<log)"
grep -q '^attention: the thresholds were tuned for another checkpoint (0123456789abcdef; this is ' log || fail "$(<log)"
grep -Eq '^attention: 8[78] % of blocks skipped in 2 of 2 steps$' log || fail "$(<log)"
grep -q '"sparse_config": "own.json"' j || fail "no thresholds in the settings"

write all BOOL 1 8 16
sparge-gen "${prompt[@]}" "${large[@]}" --block-mask all.safetensors -o b.png 2>log || fail "$(<log)"
grep -q '^attention: 0 % of blocks skipped in 2 of 2 steps$' log || fail "$(<log)"

# A name need not be UTF-8; where text must be, it is told without its other bytes.
cp own.json $'o\xffn.json' && cp all.safetensors $'\xff.safetensors'
sparge-gen "${prompt[@]}" "${large[@]}" --sparse-config $'o\xffn.json' -q --json j -o a.png || fail "thresholds of another name"
grep -q '"sparse_config": "o?n.json"' j || fail "$(grep sparse_config j)"
sparge-gen "${prompt[@]}" "${large[@]}" --block-mask $'\xff.safetensors' -q -o b.png || fail "a mask of another name"

# Beside the model they are taken unless something else is named.
mkdir model
ln -s "$SPARGE_GEN_MODEL"/* model
rm -f model/sparge-attention.json
cp own.json model/sparge-attention.json
info() {
    sparge-gen info model --size 512x512 --frames 33 --steps 12 "$@" |
        sed -n '/^attention/,/^device/{/^device/!{s/^.\{11\}//;s/this is [0-9a-f]\{16\})/this is another)/;p;}}'
}
info
info --score mean
info --topk 0.25
info --preset paper
info --sparse-config none
info --attention sage

# What SpargeAttn's own tuning saves, of 6 layers of 6 heads.
theirs=${LIB%/*}/../fuzz/corpus/thresholds
info --sparse-config "$theirs/spargeattn" --preset paper

thresholds 5 0123456789abcdef >five.json
cp "$theirs/spargeattn_missing" part.json
write small U8 1 8 15
write heads U8 5 8 16
head -c 90 all.safetensors >cut.safetensors
small=(--size 512x512 --frames 1 --steps 2 -q -p x)
for file in five part nothing; do try "${small[@]}" --sparse-config $file.json; done
for mask in small heads nothing; do try "${small[@]}" --block-mask $mask.safetensors; done
try "${small[@]}" --block-mask own.json
sparge-gen "${small[@]}" --block-mask cut.safetensors 2>/dev/null
(($? == 1)) || fail "cut.safetensors"
try "${small[@]}" --dense-layers 6
