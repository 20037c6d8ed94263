# Videos of prompt sets: all arms and clips of an entry start from the same one, results and reports hold its name, hash and
# strength, and what is missing or bad is told before anything renders.
source "$LIB"
[[ $(sparge-gen --version) == *.webp* ]] || skip "a build without FFmpeg"
[[ -d $FIXTURES/wan21_hd12 ]] || skip "no mini checkpoints beside the program"
export OMP_NUM_THREADS=1
ln -s "$FIXTURES"/{wan21_hd12,mochi_hd16} .
mkdir -p sets/pictures
for i in {1..5}; do cp "${LIB%/*}/../fuzz/corpus/image/rgb.png" "sets/pictures/$i.png"; done
ending=$(has_mp4 && echo mp4 || echo y4m)
v2v=(-m wan21_hd12 --size 32x32 --frames 5 --fps 8 --steps 4 --dtype f32 -q)
sparge-gen "${v2v[@]}" -p "a cat" --seed 1 -o usual.y4m || fail "the video"

# its own, by two strengths, and the usual one
cat >sets/set.jsonl <<'END2'
{"prompt": "a cat", "video": "pictures", "strength": 0.5}
{"prompt": "a cat", "video": "../usual.y4m", "size": "48x32"}
{"prompt": "a dog"}
END2
set=(--prompts sets/set.jsonl "${v2v[@]}" --arms dense,dense:steps=3 --video usual.y4m --strength 0.75)
sparge-gen eval "${set[@]}" --out out || fail eval
sed -n 's/.*"arm_index":\(.\),"prompt":\(.\).*"width":\(..\).*"video":{\([^}]*\)},"strength":\([0-9.]*\).*"steps":\(.\).*/\2 \1 \3 \4 \5, \6 steps/p' \
    out/results.jsonl | sed 's/"hash":"[0-9a-f]\{16\}"/HASH/'
grep -A30 '"pictures"' out/summary.json | grep '"prompt"\|"file"\|"strength"'
sparge-gen "${v2v[@]}" -p "a cat" --attention dense --video sets/pictures --strength 0.5 -o alone."$ending" || fail alone
cmp alone."$ending" "out/dense/a cat-0.$ending" || fail "not what a render gives"
sparge-gen "${v2v[@]}" -p "a dog" --attention dense --video usual.y4m --strength 0.75 -o alone."$ending" || fail alone
cmp alone."$ending" "out/dense/a dog-0.$ending" || fail "not what a render gives of the usual one"
[[ $ending != mp4 ]] || sparge-gen info "out/dense/a cat-0.mp4" | grep '^strength '

# again: nothing is left to do; another strength or another video is another set; the command makes all of it again
cp -r out before
sparge-gen eval "${set[@]}" --out out || fail again
try eval "${set[@]}" --strength 1 --out out
cp sets/pictures/1.png sets/pictures/6.png
try eval "${set[@]}" --out out | sed 's/"[0-9a-f]\{16\}"/HASH/g'
rm sets/pictures/6.png
diff -r out before || fail "done again, or changed by what was refused"
again=$(sed -n 's/^  "command": "\(.*\)",*$/\1/p' out/manifest.json)
eval "$again -q" || fail "$again"
cmp "again/dense/a cat-0.$ending" "out/dense/a cat-0.$ending" || fail "$again"
for rank in 1 2; do sparge-gen eval "${set[@]}" --out parts --shard $rank/2 2>log || fail "$(<log)"; done
sed 's/"seconds.*//' parts/results-*.jsonl | sort >parts.lines
sed 's/"seconds.*//' out/results.jsonl | sort | cmp - parts.lines || fail "parts differ"

# what is refused, before a folder is made
few=("${v2v[@]}" --arms dense --out refused)
printf '{"prompt": "a"}\n{"prompt": "b", "strength": 0.5}\n' >sets/strength.jsonl
sed '1s/pictures/none/' sets/set.jsonl >sets/none.jsonl
sed '2s/48x32", *//; 2s/}/, "frames": 9}/' sets/set.jsonl >sets/short.jsonl
sed 's/0.5/0.2/' sets/set.jsonl >sets/few.jsonl
echo "a cat" >sets/set.txt
try eval "${few[@]}" --prompts sets/strength.jsonl
for bad in none short few; do try eval "${few[@]}" --prompts sets/$bad.jsonl; done
try eval "${few[@]}" --prompts sets/set.txt --video none.y4m
try eval "${few[@]}" --prompts sets/set.txt --strength 0.5
try eval -m mochi_hd16 -q --arms dense --out refused --prompts sets/set.jsonl
[[ ! -e refused ]] || fail "a folder was made"
sparge-gen eval "${few[@]}" --prompts sets/none.jsonl --skip-bad || fail "skip bad"
[[ $(wc -l <refused/results.jsonl) == 2 ]] || fail "$(<refused/results.jsonl)"

# the strength of videos that only the set names
sed '1!d; s/, "strength": 0.5//' sets/set.jsonl >sets/own.jsonl
sparge-gen eval "${v2v[@]}" --arms dense --out own --prompts sets/own.jsonl --strength 0.5 || fail "its own video"
cmp "own/dense/a cat-0.$ending" "out/dense/a cat-0.$ending" || fail "another strength"
