# Scores by CLIP: of videos CLIPSIM and CLIP-T, of one frame CLIP score, as compare has them of the same files. They come to clips
# that are there, by the same command and by --merge, and nothing is rendered or scored twice. Another CLIP is refused.
source "$LIB"
minis judge/clip
mv clip judge
ending=$(ending)
printf '{"prompt": "a red ball"}\n{"prompt": "a red ball and more words than such a small CLIP has places for, so that it is cut", "frames": 1}\n' >set.jsonl
few=(--prompts set.jsonl "${small[@]}" --frames 5 --arms dense,dense:steps=3:name=more --seed 3)
statuses() { [[ $(json "$1/results.jsonl" status | sort | uniq -c | tr -s ' \n' ' ') == " $2 " ]] || fail "$(<"$1/results.jsonl")"; }
sparge-gen eval --out whole "${few[@]}" --clip judge/ 2>log || fail "$(<log)"
statuses whole "4 done 4 scored"
grep -q '^CLIP scores 4 clips' log && grep -q '^--clip: 1 prompt .* 20 .* prompt 2 .*[0-9]$' log || fail "$(<log)"
grep -q '^more to dense: CLIPSIM .*, CLIP-T .*, CLIP score' log || fail "$(<log)"
has whole/manifest.json clip.name=judge 'again=* --clip judge/*'
[[ $(head -n 1 whole/summary.csv) == *,clipsim,clip_t,clip_score,*,clipsim_change,clipsim_change_low,clipsim_change_high,* ]] || fail
json whole/results.jsonl status prompt arm_index clipsim clip_t clip_score | sed -n 's/^scored //p' >scores
sparge-gen compare "whole/dense/a red ball-0.$ending" "whole/more/a red ball-0.$ending" --clip judge -p "a red ball" --json both.json >table || fail
read -r clipsim clip_t < <(sed -n 's/^0 1 \(.*\) .*/\1/p' scores)
has both.json b.clipsim="${clipsim:0:8}*" b.clip_t="${clip_t:0:8}*" b.clip_score=null
grep -q '^CLIPSIM ' table && grep -q '^CLIP-T ' table || fail "$(<table)"
[[ $(grep -c '^1 [01] null null [0-9]' scores) == 2 ]] || fail "$(<scores)"

# The clips first, their scores later.
sparge-gen eval --out out "${few[@]}" -q || fail
grep -q clip out/manifest.json && fail "$(<out/manifest.json)"
cp -r out merged
sparge-gen eval --out out "${few[@]}" --clip judge 2>log || fail "$(<log)"
grep -q '^CLIP scores 4 clips' log || fail "$(<log)"
sparge-gen eval --merge merged --clip judge --threads 1 2>log || fail "$(<log)"
for folder in out merged; do
    cmp <(grep scored "$folder/results.jsonl") <(grep scored whole/results.jsonl) || fail "other scores in $folder"
    has $folder/manifest.json clip.name=judge 'again=* --clip judge'
done
cp -r out before
sparge-gen eval --out out "${few[@]}" -q && sparge-gen eval --merge out --clip "$FIXTURES/judge/clip" -q || fail
diff -r out before || fail "scored again"

# A clip that is not there is told; the others have their scores.
cp -r merged gone
grep -v scored merged/results.jsonl >gone/results.jsonl
rm "gone/more/a red ball-0.$ending"
sparge-gen eval --merge gone --clip judge -q 2>log
[[ $? == 1 && $(<log) == *"gone/more/a red ball-0.$ending: "* ]] || fail "$(<log)"
statuses gone "4 done 3 scored"
sparge-gen eval --out gone "${few[@]}" --clip judge -q || fail # renders it
statuses gone "5 done 4 scored"

cp -rL judge other
printf '\x42' | dd of=other/model.safetensors bs=1 seek=$(($(stat -c %s other/model.safetensors) - 1150)) conv=notrunc 2>/dev/null
refused 2 '
  clip.hash: "' eval --out out "${few[@]}" --clip other
refused 2 '
  clip.hash: "' eval --merge out --clip other
refused 1 "nowhere/" eval --out new "${few[@]}" --clip nowhere
