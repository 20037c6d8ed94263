# Tokens beyond what the text encoder reads are counted in the report; a negative prompt counts only with guidance; entries of a
# set get the nearest size that the model renders.
source "$LIB"
one=(--size 32x32 --frames 1 --steps 1 --cfg-scale 1 -o a.png -q)
printf 'ball %.0s' {1..600} >long.txt
sparge-gen --prompt "$(<long.txt)" "${one[@]}" --json a.json || fail
has a.json prompt_tokens=512 prompt_tokens_cut=89
sparge-gen --prompt ball --negative-prompt "$(<long.txt)" "${one[@]}" --cfg-scale 2 --json a.json || fail
has a.json prompt_tokens=2 negative_tokens=512 negative_tokens_cut=89
sparge-gen --prompt ball "${one[@]}" && mv a.png without.png
sparge-gen --prompt ball --negative-prompt cube "${one[@]}" || fail
sparge-gen compare a.png without.png --json a.json >/dev/null && has a.json identical=1 || fail
[[ $(sparge-gen info a.png | tail -n 1) != *negative* ]] || fail "the command has a negative prompt"
printf '{"prompt": "ball", "size": "40x32"}\n{"prompt": "cube", "frames": 2}\n{"prompt": "ring"}\n' >set.jsonl
sparge-gen eval --prompts set.jsonl "${one[@]:0:8}" --arms dense -o sizes || fail
[[ $(json sizes/results.jsonl width height frames | tr '\n' ,) == "48 32 1,32 32 1,32 32 1," ]] || fail "$(<sizes/results.jsonl)"
