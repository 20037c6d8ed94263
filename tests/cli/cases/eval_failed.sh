# A clip that fails is noted and the rest goes on; exit code 1; the next run tries it again, and nothing else.
source "$LIB"
cat >set.jsonl <<'END'
{"prompt": "a red ball", "group": "easy"}
{"prompt": "too large", "size": "256x256", "group": ["hard", "large"]}
{"prompt": "a blue box"}
END
few=("${small[@]}" --frames 5 --arms dense,sage -t 1 --dtype f32) # bf16 takes less memory, where the processor has it
sparge-gen eval --prompts set.jsonl --out out "${few[@]}" --memory-limit 110M 2>log && fail "no failure"
grep -q '^failed: dense/too large-0\..*: this render needs .* may be used' log || fail "$(<log)"
grep -q '^failed: sage/too large-0\..*: there is nothing to compare with: dense failed$' log || fail "$(<log)"
grep -q '^sparge-gen: out: 2 clips failed; the same command tries again$' log || fail "$(<log)"
[[ $(grep -c '"status":"done"' out/results.jsonl) == 4 && -e out/report.html ]] || fail "$(<out/results.jsonl)"
grep -q '"status":"failed","text":"too large","groups":\["hard","large"\],.*"error":"this render needs' out/results.jsonl || fail
[[ ! -e out/dense/too\ large-0.mp4 ]] || fail "a clip that failed"
cp out/results.jsonl before
sparge-gen eval --prompts set.jsonl --out out "${few[@]}" 2>log || fail "$(<log)"
grep -q '2 clips to be made$' log || fail "$(<log)"
[[ $(wc -l <out/results.jsonl) == 8 && $(head -n 6 out/results.jsonl) == "$(<before)" ]] || fail "$(<out/results.jsonl)"
grep -q '"sage","large",1,1,0' out/summary.csv || fail "$(<out/summary.csv)"
