# A line each: an empty prompt, a negative one that is not read, tokens beyond what the text encoder reads, comments, entries
# of other sizes than the model renders.
source "$LIB"
one=(--size 32x32 --frames 1 --steps 1 --cfg-scale 1 -o a.png)
sparge-gen --prompt ' ' "${one[@]}" 2>&1 | grep empty
printf 'ball %.0s' {1..600} >long.txt
sparge-gen --prompt "$(<long.txt)" "${one[@]}" --json a.json 2>&1 | grep cut
grep '"prompt_tokens' a.json
printf 'ball %.0s' {1..511} >most.txt # and an end token
sparge-gen --prompt "$(<most.txt)" "${one[@]}" 2>&1 | grep cut && fail
(echo ball; cat long.txt; echo; echo '# ball') >set.txt
sparge-gen --prompt-file set.txt "${one[@]}" 2>&1 | grep 'cut\|comment'
sparge-gen eval --prompts set.txt "${one[@]:0:8}" --arms dense -o out 2>&1 | grep 'cut\|comment'
sparge-gen compare --prompt "$(<long.txt)" --size 512x512 --frames 1 --steps 1 --cfg-scale 1 --dense-steps 0 --arms dense,sage -o sides 2>&1 | grep cut
sparge-gen --prompt ball --negative-prompt "$(<long.txt)" "${one[@]}" --cfg-scale 2 --json a.json 2>&1 | grep cut
grep '_tokens' a.json
sparge-gen --prompt "$(<long.txt)" "${one[@]}" -q 2>&1 || fail
sparge-gen --prompt ball "${one[@]}" -q && mv a.png without.png
sparge-gen --prompt ball --negative-prompt cube "${one[@]}" --json a.json 2>&1 | grep negative
[[ $(sparge-gen compare a.png without.png) == *identical* ]] || fail "the negative prompt was read"
[[ $(sparge-gen info a.png | tail -n 1) != *negative* ]] || fail "the command has a negative prompt"
sparge-gen --prompt ball --negative-prompt cube "${one[@]}" --cfg-scale 1.5 2>&1 | grep negative && fail "not ignored"
sparge-gen --fast --prompt ball --negative-prompt cube --size 32x32 --frames 1 -o a.png 2>&1 | grep negative
sparge-gen eval --prompts set.txt --negative-prompt cube "${one[@]:0:8}" --arms dense -o negative 2>&1 | grep negative-prompt
printf '{"prompt": "ball", "size": "40x32"}\n{"prompt": "cube", "frames": 2}\n{"prompt": "ring"}\n' >set.jsonl
sparge-gen eval --prompts set.jsonl "${one[@]:0:8}" --arms dense -o sizes 2>&1 | grep nearest
grep -o '"width":.*"frames":[0-9]*' sizes/results.jsonl
try eval --prompts set.jsonl --strict --arms dense -o strict
