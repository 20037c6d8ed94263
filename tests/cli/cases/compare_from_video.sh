# compare of clips that are made from a video: the steps that are done are fewer than those of the schedule, in every round; the
# first arm's clip is that of a render.
source "$LIB"
[[ -d $FIXTURES/wan22_hd128 ]] || skip "no mini checkpoints beside the program"
export OMP_NUM_THREADS=1
ln -s "$FIXTURES/wan22_hd128" .
ending=$(has_mp4 && echo mp4 || echo y4m)
sparge-gen -q -p "a red ball" --size 32x32 --frames 9 --steps 2 --cfg-scale 1 -o from.y4m || fail
clip=(-m wan22_hd128 -q -p "a ball" --size 32x32 --frames 5 --steps 6 --cfg-scale 1)
sparge-gen compare "${clip[@]}" --video from.y4m --strength 0.5 --arms dense,dense:steps=4 --repeat 2 -o out >/dev/null || fail
sparge-gen "${clip[@]}" --video from.y4m --strength 0.5 --attention dense -o alone."$ending" || fail
cmp alone."$ending" out/dense."$ending" || fail "not what a render gives"
tr -d ' \n' <out/report.json | grep -o '"relative_l2":\[[^]]*\]' | tr -cd ',\n' | awk '{print length + 1 " steps"}'
grep -o -- '--steps 6 .*\|--video from.y4m --strength 0.5 --fit crop' out/report.json | grep -o -- '^--video.*' | sort -u
try compare "${clip[@]}" --strength 0.5 --arms dense,dense:steps=4
try compare "${clip[@]}" --video none.y4m --arms dense,dense:steps=4
