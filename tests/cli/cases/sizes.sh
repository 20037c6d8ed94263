# Sizes and frame counts that the model cannot make: the nearest that it can are taken; reports and metadata have what was rendered.
# --seconds takes the nearest count of frames.
source "$LIB"
sparge-gen "${prompt[@]}" --steps 1 --cfg-scale 1 --size 39x32 --frames 3 -o a.y4m --json a.json || fail
has a.json settings.{width=32,height=32,frames=5}
[[ $(head -n 1 a.y4m) == "YUV4MPEG2 W32 H32 "* ]] || fail "$(head -n 1 a.y4m)"
frames() { sparge-gen info --json - --size 64x64 "$@" | json - defaults.frames; }
[[ $(frames --seconds 0.5 --fps 16) == 9 && $(frames --seconds 0.001) == 1 ]] || fail "other counts of frames"
