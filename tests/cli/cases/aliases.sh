# The names that people know from elsewhere mean the same.
source "$LIB"
sparge-gen "${prompt[@]}" --size 32x48 --frames 5 --steps 2 --cfg-scale 2 --flow-shift 4 -q -o a.y4m || fail
sparge-gen -p "${prompt[1]}" -W 32 -H48 --num-frames=5 --num-inference-steps 2 --guidance-scale 2 --sample-shift=4 -q \
    -o b.y4m || fail
sparge-gen "${prompt[@]}" --size '32*48' --video-frames 5 --steps=2 -g2 --flow-shift=4 -q -o c.y4m || fail
cmp a.y4m b.y4m && cmp a.y4m c.y4m
