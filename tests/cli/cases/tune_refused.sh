# The thresholds that come with a model stay, behind a link too, unless tune is told to replace them.
source "$LIB"
own=$(readlink -f "$SPARGE_GEN_MODEL")
cp -r "$own" copy
cp -rs "$own" links
for model in copy links; do
    refused 2 "$model/sparge-attention.json is there" tune "${prompt[@]}" "${small[@]}" --size 256x256 --frames 13 --model $model
done
cmp copy/sparge-attention.json "$own/sparge-attention.json" || fail
[[ -L links/sparge-attention.json ]] || fail "the link was replaced"
