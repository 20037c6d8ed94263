# A set that grew: the clips of the new entries are made, and all is as in a run from nothing. A set that lost or changed entries
# is refused.
source "$LIB"
printf '{"prompt": "a red ball"}\n{"prompt": "a blue box", "group": "g"}\n' >set.jsonl
command=(eval --prompts set.jsonl "${small[@]}" --frames 5 --arms dense,dense:flow-shift=2:name=b --per-prompt 2 -t 1)
timeless() { sed 's/"seconds":{[^}]*}//' "$1/results.jsonl" | sort; }
sparge-gen "${command[@]}" -o out -q || fail
cp out/results.jsonl before
cp -r out changed
# the first prompt again, whose clips are counted on; a name like another's; the set's first picture, which hashes of words alone lack
cp "$pictures/scene.png" .
printf '{"prompt": "a red ball"}\n{"prompt": "a red/ball"}\n{"prompt": "a red:ball", "size": "48x32"}\n' >>set.jsonl
sparge-gen "${command[@]}" -o out 2>log || fail "$(<log)"
grep -q '5 prompts, .*: 12 clips to be made, 8 are there$' log || fail "$(<log)"
[[ $(head -n 8 out/results.jsonl) == "$(<before)" && $(wc -l <out/results.jsonl) == 20 ]] || fail "$(<out/results.jsonl)"
sparge-gen "${command[@]}" -o whole -q || fail
diff <(timeless out) <(timeless whole) || fail "other lines"
diff -r -x 'results*' -x 'summary.*' -x report.html out whole || fail "other files"
has out/manifest.json prompts.count=5 again="$(json whole/manifest.json again)"
sparge-gen "${command[@]}" -o out 2>log || fail "$(<log)"
grep -q ': 0 clips to be made, 20 are there$' log || fail "$(<log)"

# Fewer, another order, another word, another seed: nothing is touched.
sed -n '1p;3,$p' set.jsonl >lost.jsonl
sed -n '2p;1p;3,$p' set.jsonl | sort >moved.jsonl
sed 's/blue/green/' set.jsonl >word.jsonl
sed '1s/}/, "seed": 4}/' set.jsonl >seed.jsonl
head -n 1 set.jsonl >one.jsonl
for set in lost moved word seed one; do
    command[2]=$set.jsonl
    refused 2 'was begun with another set: its 2 entries have to stand unchanged, with their files' "${command[@]}" -o changed
done

# The first picture of a set that had none.
minis wan22_ti2v
i2v=(eval -m wan22_ti2v --size 32x32 --frames 5 --steps 2 --arms dense --prompts i2v.jsonl -q)
echo '{"prompt": "a red ball"}' >i2v.jsonl
sparge-gen "${i2v[@]}" -o i2v || fail
echo '{"prompt": "a blue box", "image": "scene.png"}' >>i2v.jsonl
sparge-gen "${i2v[@]}" -o i2v || fail
sparge-gen "${i2v[@]}" -o i2v-whole || fail
diff -r -x 'results*' -x 'summary.*' -x report.html -x manifest.json i2v i2v-whole || fail "other files"
for file in i2v i2v-whole; do json $file/manifest.json '*' >$file.all; json $file/manifest.json prompts.hash >>$file.all; done
cmp <(sort i2v.all) <(sort i2v-whole.all) && has i2v/manifest.json fit=crop || fail "another manifest"
