# What only a render shows of arms, that thresholds keep all blocks, is in the report and in the exit code; the files are there
# all the same, and take the place of older ones. The times of such arms are not compared.
source "$LIB"
ending=$(ending)
mkdir compare-0
echo old >compare-0/other
echo '{"format": "sparge-gen compare"}' >compare-0/report.json # of version 0.1
few=(--size 256x256 --frames 17 --steps 2 --cfg-scale 1 --dense-steps 0.5
    --arms 'sparge:topk=1:name=a,sparge:topk=1:tail=off:name=b')
sparge-gen compare --repeat 1 --prompt '</script><b>"é' "${few[@]}" --json copy.json >table
(($? == 1)) || fail "exit code"
expect_files table copy.json compare-0 compare-0/other compare-0/a.$ending compare-0/b.$ending \
    compare-0/side.$ending compare-0/frames.png compare-0/report.json compare-0/report.html
cmp copy.json compare-0/report.json || fail "two reports"
has copy.json repeat=1 'same_kernel[0].'{a=a,b=b} 'arms[1].identical=17' 'arms[1].psnr.mean=null' 'arms[1].speedup.shared_steps[0]=[0-9]*'
# of steps that are all shared there is no speed-up
[[ $(json copy.json 'arms[1].speedup.*.mean' | tr '\n' ' ') == "null null null " ]] || fail "a speed-up: $(grep -A 20 speedup copy.json)"
grep -q 'b *1.000 .* -  *-  *-$' table || fail "$(<table)"
grep -q '^b: same kernels, every frame equal to that of a$' table && grep -q '^b is not .*: they ran the same kernels$' table || fail "$(<table)"
grep -qF '"prompt":"\u003c/script>\u003cb>\"\u00E9"' compare-0/report.html || fail "a prompt can become HTML"
if has_mp4; then
    [[ $(ffprobe -v error -show_entries stream=width,height,nb_frames -of csv=p=0 compare-0/side.mp4) == 768,308,17 ]] || fail "side.mp4"
else
    head=$(head -n 1 compare-0/side.y4m)
    [[ $head == "YUV4MPEG2 W768 H308 "* ]] || fail "$head"
    ((($(stat -c %s compare-0/side.y4m) - ${#head} - 1) / (6 + 3 * 768 * 308) == 17)) || fail "other frames"
fi
sparge-gen compare --prompt ball "${few[@]}" -o new --repeat 2 --json - >report.json 2>log
has report.json repeat=2 'arms[*].seconds.rounds[1].total=*[0-9]*'
[[ $(json report.json 'arms[*].seconds.rounds[*].decode[0]' | wc -l) == 4 ]] || fail "no two rounds of two arms"
grep -q '^2/2: b, round 2 of 2$' log && [[ $(tail -n 1 log) == "sparge-gen: a and b ran the same kernel "* ]] || fail "$(<log)"
[[ $(head -c 1 report.json) == "{" && $(tail -n 1 report.json) == "}" ]] || fail "stdout does not hold the report alone"
# The summary of eval says it, too.
printf 'a ball\nanother\n' >set.txt
sparge-gen eval --prompts set.txt --out set "${few[@]}" -q || fail "eval"
[[ $(json set/results.jsonl ran | sort -u | wc -l) == 1 ]] || fail "what ran differs: $(<set/results.jsonl)"
has set/summary.json 'results[1]=b: same kernels, every frame equal *' 'rows[1].same_kernels=2' 'rows[1].seconds=null'
