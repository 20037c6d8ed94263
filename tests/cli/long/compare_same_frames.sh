# What only a render shows of arms, that thresholds keep all blocks, is in the report and in the exit code; the files are there
# all the same, and take the place of older ones. No speed-up is shown.
source "$LIB"
ending=$(has_mp4 && echo mp4 || echo y4m)
mkdir compare-0
echo old | tee compare-0/other >compare-0/report.json
few=(--size 256x256 --frames 17 --steps 2 --cfg-scale 1 --dense-steps 0.5
    --arms 'sparge:topk=1:name=a,sparge:topk=1:tail=off:name=b')
sparge-gen compare --prompt '</script><b>"é' "${few[@]}" -q --json copy.json >table
echo "= $?"
expect_files table copy.json compare-0 compare-0/other compare-0/a.$ending compare-0/b.$ending \
    compare-0/side.$ending compare-0/frames.png compare-0/report.json compare-0/report.html
cmp copy.json compare-0/report.json || fail "two reports"
sed -n '/"same_kernel/,/]/p; /"repeat"/p; /"identical_frames": [^n]/p' copy.json
# one step that is not dense is too little to time; the fourth is PSNR, of equal frames
[[ $(grep -c '"mean": null,' copy.json) == 4 ]] || fail "a speed-up: $(grep -A 20 speedup copy.json)"
grep -q '"shared_steps": \[' copy.json || fail "no steps that are shared"
grep -q 'b *1.000 .* -  *-  *-$' table || fail "$(<table)"
grep -q '^b is not distinguishable in time from a' table || fail "$(<table)"
grep -qF '"prompt":"\u003c/script>\u003cb>\"\u00E9"' compare-0/report.html || fail "a prompt can become HTML"
if has_mp4; then
    ffprobe -v error -show_entries stream=width,height,nb_frames -of csv=p=0 compare-0/side.mp4 || fail
else
    head=$(head -n 1 compare-0/side.y4m)
    [[ $head == "YUV4MPEG2 W768 H308 "* ]] || fail "$head"
    echo "768,308,$((($(stat -c %s compare-0/side.y4m) - ${#head} - 1) / (6 + 3 * 768 * 308)))"
fi
sparge-gen compare --prompt ball "${few[@]}" -o new --repeat 2 --json - >report.json 2>log
grep -q '"repeat": 2' report.json && [[ $(grep -c '"decode": \[' report.json) == 4 ]] || fail "no two rounds of two arms"
grep -q '^2/2: b, round 2 of 2$' log || fail "$(<log)"
[[ $(head -c 1 report.json) == "{" && $(tail -n 1 report.json) == "}" ]] || fail "stdout does not hold the report alone"
tail -n 1 log
