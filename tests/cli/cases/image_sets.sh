# Pictures of prompt sets, and of compare: all arms and clips of an entry begin with the same one, results and reports hold its
# name and hash, and what is missing or bad is told before anything renders.
source "$LIB"
[[ $(sparge-gen --version) == *.webp* ]] || skip "a build without FFmpeg"
[[ -d $FIXTURES/wan22_i2v ]] || skip "no mini checkpoints beside the program"
export OMP_NUM_THREADS=1
images="${LIB%/*}/../fuzz/corpus/image"
ln -s "$FIXTURES"/{wan22_i2v,wan22_ti2v} .
mkdir sets sets/pictures crop
cp "$images"/{rgb.png,base.jpg,cut.png} sets/pictures
cp "$images/rgb.png" .
cp "$images/base.jpg" "crop/a dog.jpg"
ending=$(has_mp4 && echo mp4 || echo y4m)
i2v=(-m wan22_i2v --size 32x32 --frames 5 --steps 2 -g 1 --cfg-scale-2 1 --dtype f32)
two=(--arms dense,dense:steps=3 -q)

# compare
sparge-gen compare "${i2v[@]}" "${two[@]}" -p "a cat" --image rgb.png --last-image sets/pictures/base.jpg -o compared >table ||
    fail compare
[[ -s compared/image.png && -s compared/last-image.png ]] || fail "$(ls compared)"
grep -A3 '"pictures"' compared/report.json
grep -q 'sparge-gen compare .* --image rgb.png --last-image base.jpg --fit crop ' compared/report.json || fail "the command"
if has_mp4; then
    sparge-gen "${i2v[@]}" --attention dense -q -p "a cat" --image rgb.png --last-image sets/pictures/base.jpg -o dense.mp4 || fail
    cmp dense.mp4 compared/dense.mp4 || fail "not what a render gives"
    sparge-gen info compared/side.mp4 | grep -o '^again: sparge-gen compare .* --image rgb.png'
fi
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
sed -n 's/.*"arm_index":\(.\),"prompt":\(.\),"clip":\(.\).*"width":\(..\).*"image":{\([^}]*\)}\(,"last_image":{[^}]*}\)\?.*/\2 \3 \1 \4 \5\6/p' \
    out/results.jsonl
grep -A20 '"pictures"' out/summary.json | grep '"prompt"\|"picture"'
(cd out && find image last_image -type f | sort)
sparge-gen "${i2v[@]}" -q -p "a cat" --size 48x32 --seed 2 --attention dense --image sets/pictures/base.jpg \
    --last-image rgb.png -o alone."$ending" || fail alone
cmp alone."$ending" "out/dense/a cat-2.$ending" || fail "not what a render gives"

# again: nothing is left to do; another picture or another fit is another set
cp -r out before
sparge-gen eval "${set[@]}" --out out || fail "again"
diff -r out before || fail "done again"
cp sets/pictures/base.jpg kept.jpg
cp "$images/exif.jpg" sets/pictures/base.jpg
try eval "${set[@]}" --out out | sed 's/"[0-9a-f]\{16\}"/HASH/g'
mv kept.jpg sets/pictures/base.jpg
try eval "${set[@]}" --out out --fit stretch
diff -r out before || fail "changed by what was refused"
again=$(sed -n 's/^  "command": "\(.*\)",*$/\1/p' out/manifest.json)
eval "$again -q" || fail "$again"
cmp "again/dense/a cat-3.$ending" "out/dense/a cat-3.$ending" || fail "$again"

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
(cd vbench && find dense image -type f | sort)

# what is refused, before a folder is made
echo "a cat" >sets/set.txt
sed '2s/base.jpg/cut.png/' sets/set.jsonl >sets/cut.jsonl
sed '2s/base.jpg/none.png/' sets/set.jsonl >sets/none.jsonl
echo '{"prompt": "a cat", "last_image": "pictures/rgb.png"}' >sets/last.jsonl
few=("${i2v[@]}" -q --arms dense --out refused)
try eval "${few[@]}" --prompts sets/set.txt
try eval "${few[@]}" --prompts sets/set.txt --image none.png
try eval "${few[@]}" --prompts sets/set.txt --image-folder crop
try eval "${few[@]}" --prompts sets/set.txt --image-folder crop --image rgb.png
try eval "${few[@]}" --prompts sets/none.jsonl
try eval "${few[@]}" --prompts sets/cut.jsonl
try eval "${few[@]}" --prompts sets/last.jsonl
try eval --size 32x32 --steps 2 --arms dense --out refused -q --prompts sets/set.jsonl
try eval --size 32x32 --steps 2 --arms dense --out refused -q --prompts sets/set.txt --fit pad
[[ ! -e refused ]] || fail "a folder was made"
try eval "${few[@]}" --prompts sets/cut.jsonl --skip-bad --image rgb.png
[[ $(wc -l <refused/results.jsonl) == 2 ]] || fail "$(<refused/results.jsonl)"

# a model that takes a picture and needs none
printf '{"prompt": "a"}\n{"prompt": "b", "image": "pictures/rgb.png"}\n' >sets/some.jsonl
sparge-gen eval -m wan22_ti2v --size 32x32 --frames 5 --steps 2 -q --arms dense --prompts sets/some.jsonl --out some || fail some
grep -c '"image"' some/results.jsonl

# one step and one render of it; the other commands that render
sparge-gen check "${i2v[@]}" --image rgb.png -q >checked || fail check
try bench cold --part clip "${i2v[@]:0:8}" 2>&1 | grep -v '^[0-9]'
sparge-gen bench cold --part clip "${i2v[@]:0:8}" --image rgb.png | grep -o 'first step'
sparge-gen tune -m wan22_i2v --size 256x256 --frames 13 --steps 2 -p "a cat" --image rgb.png -q -o thresholds.json | head -n 1
