# Skip-layer guidance: what it changes, what a picture keeps of it, and the same of compare's arms.
source "$LIB"
minis sd35_medium
model=(-m sd35_medium --prompt x --size 32x24 --steps 4 --dtype f32 --seed 5 -q)
slg=(--slg-scale 2.8 --skip-layers 1 --skip-layer-end 0.6)
sparge-gen "${model[@]}" -o plain.png || fail plain
sparge-gen "${model[@]}" "${slg[@]}" --json a.json -o a.png || fail skipping
! cmp -s plain.png a.png || fail "skip-layer guidance changes nothing"
has a.json attention.totals.dense=46 # 2 passes of 5 layers in 4 steps, 3 layers in 2 of them
makes_again a.png
[[ $again == *" --slg-scale 2.8 --skip-layers 1 --skip-layer-start 0.01 --skip-layer-end 0.6 "* ]] || fail "$again"
sparge-gen compare "${model[@]}" --repeat 1 "${slg[@]}" --arms dense,dense:steps=5 -o arms >/dev/null || fail compare
has arms/report.json 'arms[1].settings.slg_scale=2.8'
own=(--skip-layers 1 --skip-layer-end 0.6 --arms "dense,dense:slg-scale=2.8:name=b")
sparge-gen compare "${model[@]}" --repeat 1 "${own[@]}" -o own >/dev/null || fail "an arm's own"
[[ $(json own/report.json '*[*].settings.slg_scale') == 2.8 ]] || fail "not in one arm alone"
! cmp -s own/dense.* own/b.* || fail "the arm makes the same picture"
again=$(sparge-gen info own/side.* | sed -n 's/^again: //p')
[[ $again == *" --skip-layers 1 --skip-layer-end 0.6 "* ]] || fail "$again"
printf 'a ball\n' >set.txt
sparge-gen eval --prompts set.txt "${model[@]:0:2}" "${model[@]:4}" "${own[@]}" -o runs || fail eval
refused 2 'arm_settings[1].slg_scale: 2.8 -> 3.0' eval --prompts set.txt "${model[@]:0:2}" "${model[@]:4}" "${own[@]/2.8/3}" -o runs
