# A set of prompts by two arms: clips in VBench's layout, a line of figures each, a report. A clip is what a render gives. The
# same command has nothing left to do; another one is refused with what differs. Text of prompts is no path.
source "$LIB"
ending=$(ending)
printf 'a red ball\n../etc/passwd %%d\na red ball\n' >set.txt
few=("${small[@]}" --frames 5 --arms 'dense,dense:cfg-scale=0.5:name=8 bits')
sparge-gen eval --prompts set.txt --out out "${few[@]}" --per-prompt 2 --seed 3 2>log || fail "$(<log)"
clips=()
for arm in dense 8-bits; do
    for name in 'a red ball-0' 'a red ball-1' 'a red ball-2' 'a red ball-3' '_._etc_passwd %d-0' '_._etc_passwd %d-1'; do
        clips+=("out/$arm/$name.$ending" "out/frames/$arm/$name.png")
    done
done
expect_files log set.txt out out/dense out/8-bits out/frames out/frames/dense out/frames/8-bits out/manifest.json out/results.jsonl \
    out/summary.csv out/summary.json out/report.html "${clips[@]}"
[[ $(json out/results.jsonl status | sort | uniq -c) == *" 12 done" ]] || fail "$(<out/results.jsonl)"
json out/results.jsonl arm_index prompt clip seed density psnr.mean file >lines
grep -qx "1 2 1 6 1.0 null 8-bits/a red ball-3.$ending" lines && grep -q "^0 1 0 3 1.0 - dense/" lines || fail "$(<lines)"
[[ $(grep -c '^1 .* null ' lines) == 6 && $(grep -c '^0 .* - ' lines) == 6 ]] || fail "the first arm is compared with itself: $(<lines)"
[[ $(json out/results.jsonl text arm picture) == *"../etc/passwd %d 8 bits frames/8-bits/"* ]] || fail "$(<out/results.jsonl)"
has out/manifest.json seed=3 'arms[1]=8 bits' 'again=sparge-gen eval --prompts set.txt --per-prompt 2 * -o again'
[[ $(tail -n 1 out/summary.csv) == '"8 bits","all",3,6,0,6,6,inf,,,inf,inf,1,'* ]] || fail "$(<out/summary.csv)"
[[ $(grep -c '^reading the prompt 1/1' log) == 1 ]] || fail "$(<log)"
grep -q '^8 bits to dense: .* 6 of 6 ' log || fail "$(<log)"
eval "$(json out/manifest.json again) -q" 2>log || fail "$(<log)"
cmp {out,again}/manifest.json && cmp {out,again}/8-bits/"a red ball-3.$ending" || fail "another folder"
rm -r again
if has_mp4; then
    sparge-gen --prompt 'a red ball' "${small[@]}" --frames 5 --seed 5 --attention dense -q -o alone.mp4 || fail
    cmp alone.mp4 'out/dense/a red ball-2.mp4' || fail "not what a render gives"
fi

cp -r out before
sparge-gen eval --prompts set.txt --out out/ "${few[@]}" --per-prompt 2 --seed 3 -t 1 -q 2>log || fail "$(<log)"
diff -r out before || fail "done again"
cp set.txt copy.txt
sparge-gen eval --prompts copy.txt --out out "${few[@]}" --per-prompt 2 --seed 3 -q 2>log || fail "$(<log)"
rm out/summary.csv out/report.html
sparge-gen eval --merge out || fail
diff -r out before || fail "merged otherwise, or done again"

sed -i 's/^a red ball$/a cat/' set.txt
refused 2 'out was begun with another set: its 3 entries have to stand unchanged, with their files' \
    eval --prompts set.txt --out out "${few[@]}" --per-prompt 2 --seed 3
refused 2 '
  per_prompt: 2 -> 3
  steps: 2 -> 3
  seed: 3 -> 4' eval --prompts copy.txt --out out "${few[@]}" --steps 3 --per-prompt 3 --seed 4
refused 2 '["dense","8 bits"] -> ["dense","8 bits","more"]' \
    eval --prompts copy.txt --out out "${few[@]}" --per-prompt 2 --seed 3 --arms 'dense,dense:cfg-scale=0.5:name=8 bits,dense:cfg-scale=0.2:name=more'
echo '{"version":1}' >>out/results.jsonl
refused 1 "out/results.jsonl: line 13: " eval --prompts copy.txt --out out "${few[@]}" --per-prompt 2 --seed 3
