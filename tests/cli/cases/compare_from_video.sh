# compare of clips that are made from a video: the steps that are done are fewer than those of the schedule, in every round; the
# first arm's clip is that of a render.
source "$LIB"
minis wan22_hd128
ending=$(ending)
sparge-gen -q -p "a red ball" --size 32x32 --frames 9 --steps 2 --cfg-scale 1 -o from.y4m || fail
clip=(-m wan22_hd128 -q -p "a ball" --size 32x32 --frames 5 --steps 6 --cfg-scale 1)
sparge-gen compare "${clip[@]}" --video from.y4m --strength 0.5 --arms dense,dense:steps=4 --repeat 2 -o out >/dev/null || fail
sparge-gen "${clip[@]}" --video from.y4m --strength 0.5 --attention dense -o alone."$ending" || fail
cmp alone."$ending" out/dense."$ending" || fail "not what a render gives"
[[ $(json out/report.json 'arms[1].latents.relative_l2[*]' | wc -l) == 2 ]] || fail "not 2 steps"
has out/report.json 'again=*--video from.y4m --strength 0.5 --fit crop *' 'arms[1].settings.video.file=from.y4m'
