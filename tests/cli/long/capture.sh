# Queries, keys and values of one layer and step are saved, and bench attention takes them.
source "$LIB"
sparge-gen "${prompt[@]}" --size 256x256 --frames 1 --steps 1 --cfg-scale 1 -q --capture-qkv 2:0:q.safetensors -o a.png || fail
expect_files a.png q.safetensors
head -c 2000 q.safetensors | grep -aq '"k":{"dtype":"\(F32\|BF16\)","shape":\[256,6,64\]' || fail "no keys [256, 6, 64]"
sparge-gen bench attention --qkv q.safetensors --attention dense --repeat 1 --threads 1 >/dev/null || fail
