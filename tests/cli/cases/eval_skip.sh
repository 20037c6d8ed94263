# With --skip-bad what is malformed is left out, and with --strict what the model cannot make; a message names the first of it,
# and the rest is made.
source "$LIB"
printf '{"prompt": "a"}\n{"prompt": 3}\n{"prompt": "b", "size": "100x100"}\n{"prompt": "c", "seed": 9, "frames": 1}\n' >bad.jsonl
sparge-gen eval --prompts bad.jsonl --out out "${small[@]}" --frames 5 --arms dense --skip-bad --strict 2>log || fail "$(<log)"
grep '^2 left out' log
grep -o '"prompt":.*"frames":[0-9]*' out/results.jsonl
again=$(sed -n 's/^  "command": "\(.*\)",*$/\1/p' out/manifest.json)
eval "$again -q" || fail "$again"
cmp out/dense/c-0.png again/dense/c-0.png || fail "$again"
