# Skip-layer guidance: what refuses it, what a picture keeps of it, and the same of compare's arms.
source "$LIB"
[[ -n ${MINIS-} ]] || skip "MINIS names no folder of mini checkpoints"
model=(-m "$MINIS/sd35_medium" --prompt x --size 32x24 --steps 4 --dtype f32 --seed 5 -q)
refused() { try "${model[@]}" "$@" | sed "s|${model[*]} ||"; }
refused --skip-layers 1
refused --skip-layer-end 0.5
refused --slg-scale 0 --skip-layer-start 0.1
refused --slg-scale 2.8
refused --slg-scale 2.8 --skip-layers 1
refused --slg-scale 2.8 --skip-layers 1, --skip-layer-end 0.6
refused --slg-scale 2.8 --skip-layers 1 --skip-layer-end 0.6 --cfg-scale 1
try "${prompt[@]}" "${small[@]}" --slg-scale 2.8 --cfg-scale 2
expect_files
slg=(--slg-scale 2.8 --skip-layers 1 --skip-layer-end 0.6)
sparge-gen "${model[@]}" -o plain.png || fail plain
sparge-gen "${model[@]}" "${slg[@]}" --json a.json -o a.png || fail skipping
! cmp -s plain.png a.png || fail "skip-layer guidance changes nothing"
grep -q '"dense": 46' a.json || fail "2 passes of 5 layers in 4 steps, 3 layers in 2 of them: $(grep '"dense"' a.json)"
again=$(sparge-gen info a.png | sed -n 's/^again: //p')
[[ $again == *" --slg-scale 2.8 --skip-layers 1 --skip-layer-start 0.01 --skip-layer-end 0.6 "* ]] || fail "$again"
eval "$again -m $MINIS/sd35_medium -q -o b.png" || fail "$again"
cmp a.png b.png || fail "$again"
sparge-gen compare "${model[@]}" "${slg[@]}" --arms dense,dense:steps=5 -o arms >/dev/null || fail compare
grep -q '"slg_scale": 2.8' arms/report.json || fail "no word of it in the report"
own=(--skip-layers 1 --skip-layer-end 0.6 --arms "dense,dense:slg-scale=2.8:name=b")
sparge-gen compare "${model[@]}" "${own[@]}" -o own >/dev/null || fail "an arm's own"
[[ $(grep -c '"slg_scale": 2.8' own/report.json) == 1 ]] || fail "$(grep slg_scale own/report.json)"
! cmp -s own/dense.* own/b.* || fail "the arm makes the same picture"
again=$(sparge-gen info own/side.* | sed -n 's/^again: //p')
[[ $again == *" --skip-layers 1 --skip-layer-end 0.6 "* ]] || fail "$again"
printf 'a ball\n' >set.txt
sparge-gen eval --prompts set.txt "${model[@]:0:2}" "${model[@]:4}" "${own[@]}" -o runs || fail eval
sparge-gen eval --prompts set.txt "${model[@]:0:2}" "${model[@]:4}" "${own[@]/2.8/3}" -o runs 2>log && fail "another scale"
grep -qF 'attention[1].slg_scale: 2.8 -> 3.0' log || fail "$(<log)"
