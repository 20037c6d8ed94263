# A set of prompts by two arms: clips in VBench's layout, a line of figures each, a report. A clip is what a render gives. The
# same command has nothing left to do; another one is refused with what differs. Text of prompts is no path.
source "$LIB"
ending=$(has_mp4 && echo mp4 || echo y4m)
printf 'a red ball\n../etc/passwd %%d\na red ball\n' >set.txt
few=("${small[@]}" --frames 5 --arms 'dense,sage:name=8 bits')
sparge-gen eval --prompts set.txt --out out "${few[@]}" --per-prompt 2 --seed 3 2>log || fail "$(<log)"
clips=()
for arm in dense 8-bits; do
    for name in 'a red ball-0' 'a red ball-1' 'a red ball-2' 'a red ball-3' '_._etc_passwd %d-0' '_._etc_passwd %d-1'; do
        clips+=("out/$arm/$name.$ending" "out/frames/$arm/$name.png")
    done
done
made=(log set.txt out out/dense out/8-bits out/frames out/frames/dense out/frames/8-bits out/manifest.json out/results.jsonl
    out/summary.csv out/summary.json out/report.html "${clips[@]}")
expect_files "${made[@]}"
[[ $(wc -l <out/results.jsonl) == 12 && $(grep -c '"status":"done"' out/results.jsonl) == 12 ]] || fail "$(<out/results.jsonl)"
for words in '"arm":"8 bits","arm_index":1,"prompt":2,"clip":1,"status":"done","text":"a red ball","groups":\[\],"seed":6,' \
    '"file":"8-bits/a red ball-3.'$ending'","picture":"frames/8-bits/a red ball-3.png"' '"psnr":{"mean":null' '"density":1' \
    '"arm":"dense","arm_index":0,"prompt":1,"clip":0,"status":"done","text":"../etc/passwd %d"'; do
    grep -q -- "$words" out/results.jsonl || fail "no $words"
done
grep '"arm_index":0' out/results.jsonl | grep -q psnr && fail "the first arm is compared with itself"
grep -q '"seed": 3' out/manifest.json && grep -q '"8 bits"' out/manifest.json || fail "$(<out/manifest.json)"
[[ $(cut -d, -f1,2,3,4 out/summary.csv | tail -n 1) == '"8 bits","all",3,6' ]] || fail "$(<out/summary.csv)"
[[ $(grep -c '^reading the prompt 1/1' log) == 1 ]] || fail "$(<log)"
grep -q '^dense and 8 bits run the same kernels throughout (32x32, 5 frames at 16 fps): dense: 8 tokens are fewer' log || fail "$(<log)"
grep -q '^8 bits to dense: PSNR inf dB, SSIM 1.0000 (.*), before compression; 6 of 6 clips identical$' log || fail "$(<log)"
# An interval that holds 95 % leaves 1.00 out once in twenty times, also where both arms did the same.
grep -q '^8 bits: .*, every frame equal to that of dense in 6 clips$' log || fail "$(<log)"
again=$(sed -n 's/^  "command": "\(.*\)",*$/\1/p' out/manifest.json)
[[ $again == "sparge-gen eval --prompts set.txt --out again --per-prompt 2 "* ]] || fail "$again"
eval "$again -q" 2>log || fail "$(<log)"
cmp out/manifest.json again/manifest.json && cmp 'out/8-bits/a red ball-3.'$ending 'again/8-bits/a red ball-3.'$ending || fail "$again"
rm -r again
[[ $(tail -n 1 out/summary.csv) == '"8 bits","all",3,6,0,6,6,inf,,,inf,inf,1,'* ]] || fail "$(<out/summary.csv)"
if has_mp4; then
    sparge-gen --prompt 'a red ball' "${small[@]}" --frames 5 --seed 5 --attention dense -q -o alone.mp4 || fail
    cmp alone.mp4 'out/dense/a red ball-2.mp4' || fail "not what a render gives"
fi

cp -r out before
sparge-gen eval --prompts set.txt --out out/ "${few[@]}" --per-prompt 2 --seed 3 -t 1 -q 2>log || fail "$(<log)"
diff -r out before || fail "done again"
cp set.txt copy.txt
sparge-gen eval --prompts copy.txt --out out "${few[@]}" --per-prompt 2 --seed 3 2>log || fail "$(<log)"
grep -q 'by 2 arms: 0 clips to be made$' log || fail "$(<log)"
rm out/summary.csv out/report.html
sparge-gen eval --merge out || fail
diff -r out before || fail "merged otherwise"

echo 'a cat' >>set.txt
try eval --prompts set.txt --out out "${few[@]}" --steps 3 --per-prompt 3 --seed 4 | sed 's/"[0-9a-f]\{16\}"/HASH/g'
try eval --prompts copy.txt --out out "${few[@]}" --per-prompt 2 --seed 3 --arms 'dense,sage:name=8 bits,sparge'
diff -r out before || fail "changed by what was refused"
