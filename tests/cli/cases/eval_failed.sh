# A clip that fails is noted and the rest goes on; exit code 1; the next run tries it again, and nothing else.
source "$LIB"
cat >set.jsonl <<'END'
{"prompt": "a red ball", "group": "easy"}
{"prompt": "a blue box"}
{"prompt": "too large", "size": "256x256", "group": ["hard", "large"]}
END
few=("${small[@]}" --frames 5 --arms dense,dense:cfg-scale=0.5:name=b -t 1 --dtype f32) # bf16 takes less memory, where the processor has it
sparge-gen eval --prompts set.jsonl --out out "${few[@]}" --memory-limit 110M 2>log && fail "no failure"
grep -q '^failed: dense/too large-0\.' log && grep -q '^failed: b/too large-0\..* dense failed$' log || fail "$(<log)"
[[ $(tail -n 1 log) == "sparge-gen: out: 2 clips failed; "* && -e out/report.html ]] || fail "$(<log)"
[[ $(json out/results.jsonl status text 'groups[0]' 'groups[1]' | sort | uniq -c | tr -s ' \n' ' ') == \
    " 2 done a blue box - - 2 done a red ball easy - 2 failed too large hard large " ]] || fail "$(<out/results.jsonl)"
[[ $(json out/results.jsonl error) == "this render needs "* ]] || fail "$(<out/results.jsonl)"
[[ ! -e out/dense/too\ large-0.mp4 ]] || fail "a clip that failed"
cp out/results.jsonl before
sparge-gen eval --prompts set.jsonl --out out "${few[@]}" 2>log || fail "$(<log)"
[[ $(wc -l <out/results.jsonl) == 8 && $(head -n 6 out/results.jsonl) == "$(<before)" ]] || fail "$(<out/results.jsonl)"
grep -q '"b","large",1,1,0' out/summary.csv || fail "$(<out/summary.csv)"

# b is first, and done when a, which it waits for, fails: it has neither a line nor a clip, and the next run makes both.
minis flux_schnell
echo '{"prompt": "a red ball", "size": "768x768"}' >large.jsonl
tiles=(eval -m flux_schnell --prompts large.jsonl --size 64x64 --steps 1 -t 1 --dtype f32 --arms dense:vae-tiling=off:name=a,dense:vae-tiling=on:name=b)
sparge-gen "${tiles[@]}" --out waits --memory-limit 50M 2>log && fail "no failure"
grep -q '^failed: a/a red ball-0\.' log && grep -q '^failed: b/a red ball-0\..* a failed$' log || fail "$(<log)"
[[ -z $(find waits/a waits/b waits/frames -type f) && $(ls -A waits) != *.frames-* ]] || fail "$(ls -AR waits)"
sparge-gen "${tiles[@]}" --out waits 2>log || fail "$(<log)"
[[ $(json waits/results.jsonl status | sort | uniq -c | tr -s ' \n' ' ') == " 2 done 2 failed " && -e "waits/b/a red ball-0.png" ]] || fail "$(<log)"
