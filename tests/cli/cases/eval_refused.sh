# What cannot be evaluated is refused before anything is rendered, and leaves no folder.
source "$LIB"
printf 'a ball\n' >set.txt
printf '{"prompt": "a"}\n{"prompt": 3}\n{"prompt": "b", "size": "100x100"}\n' >bad.jsonl
few=("${small[@]}" --frames 5)
try eval
try eval --prompts set.txt
try eval --out out
try eval --prompt set.txt
try eval --prompts set.txt --out out a.mp4
try eval --prompts missing.txt --out out
try eval --prompts bad.jsonl --out out
try eval --prompts bad.jsonl --out out --frames 6
try eval --prompts set.txt --out out --per-prompt 1001
try eval --prompts set.txt --out out --arms dense:name=frames
try eval --prompts set.txt --out out --arms dense:name=results-b.jsonl
try eval --prompts set.txt --out out --arms dense,sparge:topk=7
try eval --prompts set.txt --out out --shard 3/2
try eval --prompts set.txt --out out --shard 1/2 --seed -1
try eval --prompts set.txt --out set.txt
try eval --prompts set.txt --out missing/out
try eval --prompts set.txt --out out --memory-limit 10M "${few[@]}" | sed 's/[0-9.]\+ GiB/N GiB/g; s/ (weights.*)//'
try eval --merge out
try eval --merge out --prompts set.txt
expect_files bad.jsonl set.txt
grep -v 3 bad.jsonl >size.jsonl
try eval --prompts size.jsonl --out out "${few[@]}" --strict
mkdir old
echo '{"version":1,"arm":"dense","arm_index":0,"prompt":0,"clip":0,"status":"failed","text":"a"}' >old/results.jsonl
try eval --prompts set.txt --out old "${few[@]}"
echo '{}' >old/manifest.json
try eval --prompts set.txt --out old "${few[@]}"
rm -r old
sparge-gen eval --prompts set.txt --out out "${few[@]}" -q --arms dense || fail
echo '{"version":1}' >>out/results.jsonl
try eval --prompts set.txt --out out "${few[@]}" --arms dense
