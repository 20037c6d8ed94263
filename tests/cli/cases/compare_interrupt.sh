# Ctrl-C before an arm is finished leaves nothing: no folder that was not there, and what was there untouched. A comparison that
# is interrupted or killed later keeps what is finished, and the same command goes on from there to the same frames and figures.
source "$LIB"
mkdir old
echo '{"format": "sparge-gen compare"}' >old/report.json
cp old/report.json before.json
for folder in old fresh; do
    in_background compare "${prompt[@]}" --size 512x512 --frames 1 --cfg-scale 1 --steps 1000 --arms dense,dense:flow-shift=2 -o $folder
    wait_for grep -q '^1/2: dense' log
    [[ -d $folder ]] || fail "$folder is not there"
    ends_by INT 130 before.json old old/report.json
    rm log # or the next round may find its words before it is written
done
cmp before.json old/report.json || fail "the older report is gone"
rm -r old before.json

command=(compare "${prompt[@]}" --size 512x512 --frames 1 --cfg-scale 1 --steps 6 -t 1 --arms dense,sage,sparge:topk=0.3:name=s)
finished() { [[ -e $1/.unfinished/$2.arm && -e $1/.unfinished/times ]]; }
count() { ls "$1"/.unfinished/*.arm | wc -l; }
sparge-gen "${command[@]}" --repeat 1 -o whole >/dev/null 2>log || fail "$(<log)"
rm log
[[ ! -e whole/.unfinished ]] || fail "$(ls -A whole)"
for arm in 0 1; do # Ctrl-C after the first arm, a kill after the second
    in_background "${command[@]}" --repeat 2 --seed 0 -o out
    wait_for finished out $arm
    sleep .2 # its times are written right behind it
    if ((arm)); then kill -KILL $!; else kill -INT $!; fi
    wait $!
    [[ $? == $((arm ? 137 : 130)) && $(ls -A out) == .unfinished ]] || fail "$(ls -A out; cat log)"
    if ((arm)); then
        grep -q "^out: goes on; $before of 3 arms and 0 whole rounds are there" log && ! grep -q '^1/3' log || fail "$(<log)"
    else
        before=$(count out)
        grep -q '^out: what is finished is kept' log || fail "$(<log)"
    fi
    rm log
done
# Other settings are another comparison, and nothing is touched. A drawn seed is the one that was drawn.
refused 2 '
  settings.steps: 6 -> 4' "${command[@]}" --steps 4 -o out
refused 2 'settings.prompt: ' "${command[@]}" -p "a blue box" -o out
cp -r out damaged
before=$(count out)
sparge-gen "${command[@]}" --repeat 1 --seed -1 -o out --json report.json >table 2>log || fail "$(<log)"
grep -q "^out: goes on; $before of 3 arms" log && ! grep -q '^[12]/3' log || fail "$(<log)"
has report.json 'repeat=[12]' settings.seed=0 && [[ ! -e out/.unfinished ]] || fail "$(ls -A out)"
same() { # but for times
    for arm in dense sage s; do cmp "$1/$arm.png" "whole/$arm.png" || fail "$1: another image"; done
    for figure in 'arms[*].density' 'arms[*].densities[*]' 'arms[*].attention_error.layers[*]' 'arms[*].attention.layers[*].*' \
        'arms[*].'{psnr,ssim,ms_ssim}.'*' 'arms[*].'{psnr,ssim,ms_ssim}.frames'[*]' 'arms[*].latents.*[*]' 'arms[*].'{sharpness,flicker} \
        prompt_tokens 'arms[*].speedup.shared_steps[*]'; do
        cmp <(json "$1/report.json" "$figure") <(json whole/report.json "$figure") || fail "$1: another $figure"
    done
}
same out
[[ $(json whole/report.json 'arms[*].latents.*[*]' | wc -l) == 24 ]] || fail "no figures"

# An arm whose file is damaged is rendered again.
printf x | dd of=damaged/.unfinished/0.data bs=1 seek=4000 conv=notrunc 2>/dev/null
sparge-gen "${command[@]}" --repeat 1 -o damaged >/dev/null 2>log || fail "$(<log)"
grep -q "^damaged: goes on; $((before - 1)) of 3 arms" log && grep -q '^1/3: dense' log && ! grep -q '^2/3' log || fail "$(<log)"
same damaged

# A finished one is replaced, at the end.
cp -r whole other
in_background "${command[@]}" --repeat 1 -o whole
wait_for grep -q '^whole: the comparison there will be replaced' log
kill -KILL $!
wait $!
diff -r whole other -x .unfinished || fail "it has changed at once"
