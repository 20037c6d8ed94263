# Scores by CLIP: of videos CLIPSIM and CLIP-T, of one frame CLIP score, as compare has them of the same files. They come to clips
# that are there, by the same command and by --merge, and nothing is rendered or scored twice. Another CLIP is refused.
source "$LIB"
[[ -d $FIXTURES/judge ]] || skip "no mini checkpoints beside the program"
ending=$(has_mp4 && echo mp4 || echo y4m)
ln -s "$FIXTURES/judge/clip" judge
printf '{"prompt": "a red ball"}\n{"prompt": "a red ball and more words than such a small CLIP has places for, so that it is cut", "frames": 1}\n' >set.jsonl
few=(--prompts set.jsonl "${small[@]}" --frames 5 --arms dense,dense:steps=3:name=more --seed 3)
lines() { grep -c "$1" "$2"; }
sparge-gen eval --out whole "${few[@]}" --clip judge/ 2>log || fail "$(<log)"
[[ $(lines '"status":"done"' whole/results.jsonl) == 4 && $(lines '"status":"scored"' whole/results.jsonl) == 4 ]] || fail
grep -q '^CLIP scores 4 clips on ' log && grep -q '^more to dense: CLIPSIM .*, CLIP-T .*, CLIP score' log || fail "$(<log)"
grep -q '^--clip: 1 prompt has more tokens than the 20 that CLIP reads; of prompt 2 it does not read the last [0-9]*$' log ||
    fail "$(<log)"
grep -q '"name": "judge"' whole/manifest.json || fail "$(<whole/manifest.json)"
[[ $(sed -n 's/^  "command": ".* --clip \(.*\)",*$/\1/p' whole/manifest.json) == judge/ ]] || fail "$(<whole/manifest.json)"
[[ $(head -n 1 whole/summary.csv) == *,clipsim,clip_t,clip_score,*,clipsim_change,clipsim_change_low,clipsim_change_high,* ]] || fail

# What a line has, to four digits.
of() { sed -n "s/.*\"arm_index\":1,\"prompt\":$1,.*\"scored\".*\"$2\":\(-*[0-9.]\{6\}\).*/\1/p" whole/results.jsonl; }
both() { sparge-gen compare "whole/dense/$1" "whole/more/$1" --clip judge -p "$2" >table || fail; }
both "a red ball-0.$ending" 'a red ball'
grep -q "^CLIPSIM  *[-0-9.]*  *$(of 0 clipsim)" table && grep -q "^CLIP-T  *[-0-9.]*  *$(of 0 clip_t)" table || fail "$(<table)"
grep -q 'CLIP score' table && fail "$(<table)"
grep '"prompt":1,' whole/results.jsonl | grep -q '"scored".*"clipsim":null,"clip_t":null,"clip_score":[0-9]' || fail

# The clips first, their scores later.
sparge-gen eval --out out "${few[@]}" -q || fail
grep -q clip out/manifest.json && fail "$(<out/manifest.json)"
cp -r out merged
sparge-gen eval --out out "${few[@]}" --clip judge 2>log || fail "$(<log)"
grep -q ': 0 clips to be made$' log && grep -q '^CLIP scores 4 clips' log || fail "$(<log)"
sparge-gen eval --merge merged --clip judge --threads 1 2>log || fail "$(<log)"
for folder in out merged; do
    cmp <(grep scored "$folder/results.jsonl") <(grep scored whole/results.jsonl) || fail "other scores in $folder"
    grep -q '"clip": {' $folder/manifest.json && grep -q -- '--clip judge' $folder/manifest.json || fail "$(<$folder/manifest.json)"
done
cp -r out before
sparge-gen eval --out out "${few[@]}" -q && sparge-gen eval --merge out --clip "$FIXTURES/judge/clip" -q || fail
diff -r out before || fail "scored again"

# A clip that is not there is told; the others have their scores.
cp -r merged gone
grep -v scored merged/results.jsonl >gone/results.jsonl
rm "gone/more/a red ball-0.$ending"
try eval --merge gone --clip judge -q | sed "s/-0\.$ending:/-0.CLIP:/"
[[ $(lines '"status":"scored"' gone/results.jsonl) == 3 ]] || fail "$(<gone/results.jsonl)"
sparge-gen eval --out gone "${few[@]}" --clip judge -q || fail # renders it
[[ $(lines '"status":"scored"' gone/results.jsonl) == 4 ]] || fail "$(<gone/results.jsonl)"

cp -rL judge other
printf '\x42' | dd of=other/model.safetensors bs=1 seek=$(($(stat -c %s other/model.safetensors) - 1150)) conv=notrunc 2>dd
try eval --out out "${few[@]}" --clip other | sed 's/"[0-9a-f]\{16\}"/HASH/g'
try eval --merge out --clip other | sed 's/"[0-9a-f]\{16\}"/HASH/g'
try eval --out new "${few[@]}" --clip nowhere
try eval --merge out --clip judge --topk 0.3
try compare -p x --clip judge
[[ ! -e new ]] || fail "left behind"
diff -r out before || fail "changed by what was refused"
