# With --skip-bad what is malformed is left out, and with --strict what the model cannot make; a message names the first of it,
# and the rest is made.
source "$LIB"
printf '{"prompt": "a"}\n{"prompt": 3}\n{"prompt": "b", "size": "100x100"}\n{"prompt": "c", "seed": 9, "frames": 1}\n' >bad.jsonl
sparge-gen eval --prompts bad.jsonl --out out "${small[@]}" --frames 5 --arms dense --skip-bad --strict 2>log || fail "$(<log)"
grep -q '^2 left out.* line 2: prompt' log || fail "$(<log)"
[[ $(json out/results.jsonl prompt text seed frames status) == "0 a 0 5 done
1 c 9 1 done" ]] || fail "$(<out/results.jsonl)"
eval "$(json out/manifest.json again) -q" || fail
cmp out/dense/c-0.png again/dense/c-0.png || fail "the command makes another picture"
