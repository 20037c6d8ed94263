# bench step of a model that begins with a picture: its ceilings alone take seconds.
source "$LIB"
[[ -d $FIXTURES/wan22_i2v ]] || skip "no mini checkpoints beside the program"
cp "${LIB%/*}/../fuzz/corpus/image/rgb.png" .
sparge-gen bench step -m "$FIXTURES/wan22_i2v" --size 32x32 --frames 5 --image rgb.png --repeat 1 2>&1 | grep -o '^a decoded chunk of 4 frames'
