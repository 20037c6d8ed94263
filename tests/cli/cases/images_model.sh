# A model of images: one frame and nothing of videos; what it makes starts from a picture with --image and --strength, in renders,
# comparisons and sets.
source "$LIB"
minis sd35_medium
model=(-m sd35_medium -p "a cat" --size 64x64 --steps 4 --dtype f32 -q)
[[ $(sparge-gen info sd35_medium --json - | json - image size_multiple defaults.frames defaults.fps) == "start 8 - -" ]] || fail info
sparge-gen "${model[@]}" --frames 1 -o first.png || fail first
[[ $(sparge-gen info first.png --json - | json - settings.steps settings.frames settings.fps) == "4 - -" ]] || fail "$(sparge-gen info first.png)"

# what is made from it, and again by the command in its file; of 4 steps at 0.3 two are done
sparge-gen "${model[@]}" --image first.png --strength 0.3 --json j -o from.png || fail from
has j steps=2 settings.steps=4
cmp -s first.png from.png && fail "strength does nothing"
makes_again from.png
[[ $again == *" --image first.png --strength 0.3 --fit crop "* ]] || fail "$again"
# 29.5 of 50 steps are 30, as many as have a cache
sparge-gen "${model[@]}" --steps 50 --image first.png --strength 0.59 --cache off -o many.png || fail
makes_again many.png
sparge-gen "${model[@]}" --video first.png --strength 0.3 -o video.png || fail
sparge-gen info video.png --json - | json - settings.strength | grep -qx 0.3 || fail "no strength"

sparge-gen compare "${model[@]:0:10}" --repeat 1 --image first.png --strength 0.5 --arms dense,dense:steps=8:name=eight -o cmp >table || fail
(cd cmp && echo ./*) | grep -qx './dense.png ./eight.png ./image.png ./report.html ./report.json ./side.png' || fail "$(ls cmp)"
grep -q '^eight  *[0-9.]*  *0\.[0-9]*$' table || fail "$(<table)"
cat >set.jsonl <<'END2'
{"prompt": "a cat", "image": "first.png"}
{"prompt": "a dog", "image": "first.png", "strength": 0.9}
END2
set=(eval -m sd35_medium --prompts set.jsonl --size 64x64 --steps 4 --dtype f32 --arms dense -q --strength 0.5 --out out)
sparge-gen "${set[@]}" || fail
[[ $(json out/results.jsonl file image.file strength steps) == \
    "dense/a cat-0.png first.png 0.5 2"$'\n'"dense/a dog-0.png first.png 0.9 4" ]] || fail "$(<out/results.jsonl)"
cp -r out before
sparge-gen "${set[@]}" && diff -r out before || fail "nothing is to be done"
