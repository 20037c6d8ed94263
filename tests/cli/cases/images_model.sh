# A model of images: one frame and nothing of videos; what it makes starts from a picture with --image and --strength, in renders,
# comparisons and sets.
source "$LIB"
[[ -d $FIXTURES/sd35_medium ]] || skip "no mini checkpoints beside the program"
export OMP_NUM_THREADS=1
ln -s "$FIXTURES/sd35_medium" .
model=(-m sd35_medium -p "a cat" --size 64x64 --steps 4 --dtype f32)
try "${model[@]}" --frames 5
try "${model[@]}" --seconds 2
try "${model[@]}" --fps 8
try "${model[@]}" --strength 0.5
try "${model[@]}" --image missing.png
sparge-gen info sd35_medium | grep '^render\|sizes\|^picture'
sparge-gen "${model[@]}" --frames 1 2>log || fail "$(<log)"
sparge-gen info out.png | grep '^frames\|^fps'
mv out.png first.png

# what is made from it, and again by the command in its file; of 4 steps at 0.3 two are done
sparge-gen "${model[@]}" --image first.png --strength 0.3 -o from.png 2>log || fail "$(<log)"
grep -o 'image of .*' log
cmp -s first.png from.png && fail "strength does nothing"
again=$(sparge-gen info from.png | sed -n 's/^again: //p')
grep -o -- '--image.*--fit [a-z]*' <<<"$again"
eval "$again -q -o again.png" || fail "$again"
cmp from.png again.png || fail "$again"
# 29.5 of 50 steps are 30, as many as have a cache
sparge-gen "${model[@]}" --steps 50 --image first.png --strength 0.59 --cache off -q -o many.png || fail
eval "$(sparge-gen info many.png | sed -n 's/^again: //p') -q -o again.png"
cmp many.png again.png || fail "$(sparge-gen info many.png)"
sparge-gen "${model[@]}" --video first.png --strength 0.3 -q -o video.png || fail
sparge-gen info video.png | grep -q '^strength' || fail
try "${model[@]}" --image first.png --video first.png
try "${model[@]}" --image first.png -o first.png

sparge-gen compare "${model[@]}" --image first.png --strength 0.5 --arms dense,dense:steps=8:name=eight -q -o cmp >table || fail
(cd cmp && echo ./*)
grep -A 1 '^arm .*PSNR' table | sed 's/[0-9.]\+/N/g'
cat >set.jsonl <<'END2'
{"prompt": "a cat", "image": "first.png"}
{"prompt": "a dog", "image": "first.png", "strength": 0.9}
END2
set=(eval -m sd35_medium --prompts set.jsonl --size 64x64 --steps 4 --dtype f32 --arms dense -q)
sparge-gen "${set[@]}" --strength 0.5 --out out || fail
grep -o '"image":{"file":"first.png"\|"strength":[0-9.]*\|"steps":.' out/results.jsonl
(cd out && printf '%s\n' dense/*)
sparge-gen "${set[@]}" --strength 0.5 --out out || fail "nothing is to be done"
echo '{"prompt": "a cat"}' >set.jsonl
try "${set[@]}" --strength 0.5 --out none
exit 0
