# What tune cannot do is said before it works, and no file comes of it.
source "$LIB"
small+=(--frames 5)
try tune "${small[@]}" -o t.json
try tune "${prompt[@]}" "${small[@]}" -o none/t.json
try tune "${prompt[@]}" "${small[@]}" -o t.json --l1 0.05 --l2 0.04
try tune "${prompt[@]}" "${small[@]}" -o t.json --l2 0.04
try tune "${prompt[@]}" "${small[@]}" -o t.json --quiet
try tune "${prompt[@]}" "${small[@]}" -o t.json --force
expect_files

# The thresholds that come with the model stay, behind a link too.
own=$(readlink -f "$SPARGE_GEN_MODEL")
cp -r "$own" copy
cp -rs "$own" links
for model in copy links; do try tune "${prompt[@]}" "${small[@]}" --size 256x256 --frames 13 --model $model; done
cmp copy/sparge-attention.json "$own/sparge-attention.json" || fail
[[ -L links/sparge-attention.json ]] || fail "the link was replaced"

# Nor is anything written beside the embedded model, which nobody has named.
unset SPARGE_GEN_MODEL
try tune
try tune --prompt x
try tune --prompt x --cache --force
try tune "${prompt[@]}" "${small[@]}" -o t.json
rm -r copy links
expect_files
