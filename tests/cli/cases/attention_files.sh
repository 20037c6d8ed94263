# Thresholds and masks from files are taken; the report names them. Beside the model they are taken unless something else is named.
source "$LIB"
large=(--size 512x512 --frames 1 --steps 2 --cfg-scale 1 --dense-steps 0)
row='[V,V,V,V,V,V]' # of 6 heads each
grid="[[$row,$row,$row,$row,$row,$row]]"
printf '{"format":"sparge-gen thresholds","version":1,"model":"0123456789abcdef","rule":"topk","layers":6,"heads":6,"buckets":[0],' >own.json
printf '"amount":%s,"theta":%s,"lambda":%s}' "${grid//V/0.125}" "${grid//V/-1}" "${grid//V/0}" >>own.json
head -c 128 /dev/zero | tr '\0' '\1' | safetensors all.safetensors '{"mask":{"dtype":"BOOL","shape":[1,8,16],"data_offsets":[0,128]}}'

# A name need not be UTF-8; where text must be, it is told without its other bytes.
cp own.json $'o\xffn.json'
sparge-gen "${prompt[@]}" "${large[@]}" --sparse-config $'o\xffn.json' --json j -o a.png 2>log || fail "$(<log)"
has j settings.sparse_config.file='o\?n.json' attention.totals.density=0.1[23]* attention.totals.sparge=12
grep -q '^attention: .*(0123456789abcdef; ' log && grep -q '^attention: 8[78] % .* 2 of 2 steps' log || fail "$(<log)"
mv all.safetensors $'\xff.safetensors'
sparge-gen "${prompt[@]}" "${large[@]}" --block-mask $'\xff.safetensors' -q --json j -o b.png || fail "a mask"
has j settings.block_mask.file='\?.safetensors' attention.totals.density=1.0 attention.totals.sparge=12

own_model model
rm -f model/sparge-attention.json
cp own.json model/sparge-attention.json
info() { sparge-gen info model --json - --size 512x512 --frames 33 --steps 12 "$@" >j || fail "$*"; }
tuned() { info "$@"; has j attention.policy.tuned.layers=6 'attention.doubt=*0123456789abcdef*'; }
found() { info "$@"; has j attention.policy.tuned=null attention.doubt=null attention.policy.amount=0.*; }
tuned; tuned --score mean
for options in "--topk 0.25" "--preset paper" "--sparse-config none" "--attention sage"; do found $options; done
# What SpargeAttn's own tuning saves, of 6 layers of 6 heads.
info --sparse-config "$corpus/thresholds/spargeattn" --preset paper
has j attention.policy.tuned.layers=6 attention.policy.score=mean attention.policy.tail=false 'attention.doubt=*--preset paper --order row*'

# A clip keeps the hash of the thresholds by which it was made: info tells if other ones are beside the model now.
sparge-gen -m model "${prompt[@]}" "${large[@]}" --attention sparge -q -o c.png || fail
beside() { sparge-gen info -m model --json - c.png >j && sparge-gen info -m model c.png >log || fail; }
beside
has j settings.tuned.file=sparge-attention.json doubt=
echo >>model/sparge-attention.json
beside
has j 'doubt=*/sparge-attention.json is another file (*'
grep -q '^doubt ' log || fail "$(<log)"
rm model/sparge-attention.json
beside
has j 'doubt=*/sparge-attention.json, by which it was made, cannot be read'
