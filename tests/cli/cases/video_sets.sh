# Videos of prompt sets: all arms and clips of an entry start from the same one, results and reports hold its name, hash and
# strength, and what is missing or bad is told before anything renders.
source "$LIB"
minis wan21_hd12
mkdir -p sets/pictures
for i in {1..5}; do cp "$corpus/image/rgb.png" "sets/pictures/$i.png"; done
ending=$(ending)
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
[[ $(json out/results.jsonl prompt arm_index width video.file strength steps) == "0 0 32 pictures 0.5 2
0 1 32 pictures 0.5 1
1 0 48 usual.y4m 0.75 3
1 1 48 usual.y4m 0.75 2
2 0 32 usual.y4m 0.75 3
2 1 32 usual.y4m 0.75 2" ]] || fail "$(<out/results.jsonl)"
[[ $(json out/results.jsonl video.hash | sort | uniq -c | tr -s ' ' | cut -d ' ' -f 2 | sort | tr '\n' ' ') == "2 4 " ]] || fail "hashes"
[[ $(json out/summary.json 'pictures[*].video.file' | tr '\n' ' ') == "pictures usual.y4m usual.y4m " ]] || fail "$(<out/summary.json)"
[[ $(json out/summary.json 'pictures[*].*.strength'; json out/summary.json 'pictures[*].strength') == $'0.5\n0.75\n0.75' ]] || fail
sparge-gen "${v2v[@]}" -p "a cat" --attention dense --video sets/pictures --strength 0.5 -o alone."$ending" || fail alone
cmp alone."$ending" "out/dense/a cat-0.$ending" || fail "not what a render gives"
sparge-gen "${v2v[@]}" -p "a dog" --attention dense --video usual.y4m --strength 0.75 -o alone."$ending" || fail alone
cmp alone."$ending" "out/dense/a dog-0.$ending" || fail "not what a render gives of the usual one"
[[ $ending != mp4 ]] || sparge-gen info "out/dense/a cat-0.mp4" --json - | json - settings.strength | grep -qx 0.5 || fail "no strength"

# again: nothing is left to do; another strength or another video is another set; the command makes all of it again
cp -r out before
sparge-gen eval "${set[@]}" --out out || fail again
refused 2 "strength: 0.75 -> 1.0" eval "${set[@]}" --strength 1 --out out
cp sets/pictures/1.png sets/pictures/6.png
refused 2 'out was begun with another set: ' eval "${set[@]}" --out out
rm sets/pictures/6.png
diff -r out before || fail "done again, or changed by what was refused"
eval "$(json out/manifest.json again) -q" || fail "again"
cmp {again,out}/dense/"a cat-0.$ending" || fail "the command makes other clips"
for rank in 1 2; do sparge-gen eval "${set[@]}" --out parts --shard $rank/2 2>log || fail "$(<log)"; done
sed 's/"seconds.*//' parts/results-*.jsonl | sort >parts.lines
sed 's/"seconds.*//' out/results.jsonl | sort | cmp - parts.lines || fail "parts differ"

# of a set with a video that is missing the other entries are made
sed '1s/pictures/none/' sets/set.jsonl >sets/none.jsonl
sparge-gen eval "${v2v[@]}" --arms dense --video usual.y4m --out skipped --prompts sets/none.jsonl --skip-bad || fail "skip bad"
[[ $(json skipped/results.jsonl video.file | tr '\n' ' ') == "usual.y4m usual.y4m " ]] || fail "$(<skipped/results.jsonl)"

# the strength of videos that only the set names
sed '1!d; s/, "strength": 0.5//' sets/set.jsonl >sets/own.jsonl
sparge-gen eval "${v2v[@]}" --arms dense --out own --prompts sets/own.jsonl --strength 0.5 || fail "its own video"
cmp "own/dense/a cat-0.$ending" "out/dense/a cat-0.$ending" || fail "another strength"
