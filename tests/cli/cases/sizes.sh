# Sizes and frame counts that the model cannot make: the nearest that it can are taken, the larger of two as near, with a notice;
# reports and metadata have what was rendered. With --strict they are refused, and so is what is no clip of that kind.
source "$LIB"
one=("${prompt[@]}" --steps 1 --cfg-scale 1)
sparge-gen "${one[@]}" --size 39x32 --frames 3 -o a.y4m --json a.json 2>&1 | grep nearest
grep '^    "\(width\|height\|frames\)"' a.json
head -n 1 a.y4m | cut -d ' ' -f 1-3
sparge-gen info --width 5 --frames 10 2>&1 >/dev/null
sparge-gen check --size 32x40 --frames 2 --steps 1 --cfg-scale 1 2>&1 >/dev/null | grep nearest
sparge-gen compare "${one[@]}" --size 70x64 --frames 7 --strict 2>&1
sparge-gen bench step --size 70x64 --strict 2>&1 && fail
sparge-gen "${one[@]}" --size 39x32 --frames 3 -o b.y4m -q 2>&1 || fail
cmp a.y4m b.y4m || fail
rm a.y4m a.json b.y4m
try "${prompt[@]}" --strict --size 70x64 -o x.y4m
try "${prompt[@]}" --strict --size 64x64 --frames 7 -o x.y4m
try "${prompt[@]}" --size 64x64 --frames 5 -o x.png
try "${prompt[@]}" -q --vae-tiling on -o x.y4m
expect_files
