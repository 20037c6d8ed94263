# Arms that come to the same are told in red, in the report, and by the exit code; the files are there all the same, and take
# the place of older ones.
source "$LIB"
ending=$(has_mp4 && echo mp4 || echo y4m)
mkdir compare-0
echo old | tee compare-0/other >compare-0/report.json
sparge-gen compare "${prompt[@]}" "${small[@]}" --frames 5 -q --json copy.json >table
echo "= $?"
expect_files table copy.json compare-0 compare-0/other compare-0/dense.$ending compare-0/sparge.$ending \
    compare-0/side.$ending compare-0/frames.png compare-0/report.json compare-0/report.html
cmp copy.json compare-0/report.json || fail "two reports"
sed -n '/same_kernel/,/]/p' copy.json
grep -q '"psnr": {' copy.json && grep -q '"identical_frames": 5' copy.json || fail "no scores"
sparge-gen compare --prompt '</script><b>"é' "${small[@]}" --frames 1 --arms dense,sage -o new --json - >report.json 2>log
[[ $(head -c 1 report.json) == "{" && $(tail -n 1 report.json) == "}" ]] || fail "stdout does not hold the report alone"
grep -qF '"prompt":"\u003c/script>\u003cb>\"\u00E9"' new/report.html || fail "a prompt can become HTML"
tail -n 1 log
if has_mp4; then
    ffprobe -v error -show_entries stream=width,height,nb_frames -of csv=p=0 compare-0/side.mp4 || fail
else
    head=$(head -n 1 compare-0/side.y4m)
    [[ $head == "YUV4MPEG2 W96 H72 "* ]] || fail "$head"
    echo "96,72,$((($(stat -c %s compare-0/side.y4m) - ${#head} - 1) / (6 + 3 * 96 * 72)))"
fi
script -qec true /dev/null &>/dev/null || exit 0
TERM=xterm script -qec "sparge-gen compare --prompt ball ${small[*]} --frames 1 -o x" /dev/null >log && fail "it is no failure"
grep -q $'\x1b\\[31msparge-gen: dense and sparge ran the same kernel' log || fail "not red: $(<log)"
