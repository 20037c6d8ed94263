# Pictures of prompt sets, and of compare: all arms and clips of an entry begin with the same one, results and reports hold its
# name and hash, and what is missing or bad is told before anything renders.
source "$LIB"
has_mp4 || skip "a build without FFmpeg"
minis wan22_i2v wan22_ti2v
images=$corpus/image
mkdir sets sets/pictures crop
cp "$images"/{rgb.png,base.jpg,cut.png} sets/pictures
cp "$images/rgb.png" .
cp "$images/base.jpg" "crop/a dog.jpg"
i2v=(-m wan22_i2v --size 32x32 --frames 5 --steps 2 -g 1 --cfg-scale-2 1 --dtype f32)
two=(--arms dense,dense:steps=3 -q)

# compare
sparge-gen compare "${i2v[@]}" --repeat 1 "${two[@]}" -p "a cat" --image rgb.png --last-image sets/pictures/base.jpg -o compared >table ||
    fail compare
[[ -s compared/image.png && -s compared/last-image.png ]] || fail "$(ls compared)"
has compared/report.json pictures.image=image.png pictures.last_image=last-image.png \
    'again=sparge-gen compare * --image rgb.png --last-image base.jpg --fit crop *'
sparge-gen "${i2v[@]}" --attention dense -q -p "a cat" --image rgb.png --last-image sets/pictures/base.jpg -o dense.mp4 || fail
cmp dense.mp4 compared/dense.mp4 || fail "not what a render gives"
[[ $(sparge-gen info compared/side.mp4) == *"again: sparge-gen compare "*" --image rgb.png"* ]] || fail "$(sparge-gen info compared/side.mp4)"
sparge-gen "${i2v[@]}" -q -p "a cat" --image compared/image.png --attention dense -o a.y4m || fail "of the fitted one"
sparge-gen "${i2v[@]}" -q -p "a cat" --image rgb.png --attention dense -o b.y4m || fail "of the file"
cmp a.y4m b.y4m || fail "what the folder shows is not what the model had"

# a set: its own pictures, and the usual one
cat >sets/set.jsonl <<'END'
{"prompt": "a cat", "image": "pictures/rgb.png"}
{"prompt": "a cat", "image": "pictures/base.jpg", "last_image": "pictures/rgb.png", "size": "48x32"}
{"prompt": "a dog"}
END
set=(--prompts sets/set.jsonl "${i2v[@]}" "${two[@]}" --image rgb.png --per-prompt 2)
sparge-gen eval "${set[@]}" --out out || fail eval
# the first two clips of an entry begin with the same picture, by both arms
rgb="rgb.png 275654a88a7ec809" base="base.jpg acff856135810676"
[[ $(json out/results.jsonl prompt width image.file image.hash image.picture last_image.file last_image.picture | sort | uniq -c |
    sed 's/^ *//') == "4 0 32 $rgb image/a cat-0.png - -
4 1 48 $base image/a cat-2.png rgb.png last_image/a cat-2.png
4 2 32 $rgb image/a dog-0.png - -" ]] || fail "$(<out/results.jsonl)"
[[ $(json out/summary.json 'pictures[*].*.picture' | tr '\n' ,) == "image/a cat-0.png,image/a cat-2.png,last_image/a cat-2.png,image/a dog-0.png," ]] ||
    fail "$(<out/summary.json)"
(cd out && find image last_image -type f | sort) | cmp - <(printf '%s\n' image/a\ cat-{0,2}.png image/a\ dog-0.png last_image/a\ cat-2.png) || fail
sparge-gen "${i2v[@]}" -q -p "a cat" --size 48x32 --seed 2 --attention dense --image sets/pictures/base.jpg \
    --last-image rgb.png -o alone.mp4 || fail alone
cmp alone.mp4 "out/dense/a cat-2.mp4" || fail "not what a render gives"

# again: nothing is left to do; another picture or another fit is another set
cp -r out before
sparge-gen eval "${set[@]}" --out out || fail "again"
diff -r out before || fail "done again"
cp sets/pictures/base.jpg kept.jpg
cp "$images/exif.jpg" sets/pictures/base.jpg
refused 2 'out was begun with another set: ' eval "${set[@]}" --out out
mv kept.jpg sets/pictures/base.jpg
refused 2 'fit: "crop" -> "stretch"' eval "${set[@]}" --out out --fit stretch
eval "$(json out/manifest.json again) -q" || fail "again"
cmp {again,out}/dense/"a cat-3.mp4" || fail "the command makes other clips"

# parts
for rank in 1 2; do sparge-gen eval "${set[@]}" --out parts --shard $rank/2 2>log || fail "$(<log)"; done
cat parts/results-*.jsonl | sed 's/"seconds.*//' | sort >parts.lines
sed 's/"seconds.*//' out/results.jsonl | sort | cmp - parts.lines || fail "parts differ"

# VBench-I2V's layout
cat >sets/i2v-bench-info.json <<'END'
[{"file_name": "a dog.jpg", "prompt_en": "a dog, camera pans left", "type": "animal"},
 {"prompt_en": "a dog", "type": "animal"}]
END
sparge-gen eval "${i2v[@]}" --arms dense -q --prompts sets/i2v-bench-info.json --image-folder crop --out vbench || fail
for name in "a dog, camera pans left" "a dog"; do [[ -s vbench/dense/$name-0.mp4 && -s vbench/image/$name-0.png ]] || fail "$name"; done

# of a set with a picture that is broken the other entries are made
sed '2s/base.jpg/cut.png/' sets/set.jsonl >sets/cut.jsonl
sparge-gen eval "${i2v[@]}" -q --arms dense --out skipped --prompts sets/cut.jsonl --skip-bad --image rgb.png || fail "skip bad"
[[ $(json skipped/results.jsonl text | tr '\n' ,) == "a cat,a dog," ]] || fail "$(<skipped/results.jsonl)"

# a model that takes a picture and needs none
printf '{"prompt": "a"}\n{"prompt": "b", "image": "pictures/rgb.png"}\n' >sets/some.jsonl
sparge-gen eval -m wan22_ti2v --size 32x32 --frames 5 --steps 2 -q --arms dense --prompts sets/some.jsonl --out some || fail some
[[ $(json some/results.jsonl prompt image.file) == $'0 -\n1 rgb.png' ]] || fail "$(<some/results.jsonl)"

# one step and one render of it; the other commands that render
sparge-gen check "${i2v[@]}" --image rgb.png -q >checked || fail check
[[ $(sparge-gen bench cold --part clip "${i2v[@]:0:8}" 2>&1 >/dev/null) == *"--image FILE is needed"* ]] || fail "a clip without a picture"
sparge-gen bench cold --part clip "${i2v[@]:0:8}" --image rgb.png | grep -q 'first step' || fail bench
sparge-gen tune -m wan22_i2v --size 256x256 --frames 13 --steps 2 -p "a cat" --image rgb.png -q -o thresholds.json >/dev/null || fail tune
has thresholds.json heads=2
