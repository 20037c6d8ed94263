# bench step of a model that begins with a picture: its ceilings alone take seconds.
source "$LIB"
minis wan22_i2v
cp "$corpus/image/rgb.png" .
sparge-gen bench step -m wan22_i2v --size 32x32 --frames 5 --image rgb.png --repeat 1 --json j >/dev/null && has j chunk_frames=4 || fail
