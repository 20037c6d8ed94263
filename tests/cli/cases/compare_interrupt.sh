# Ctrl-C in a comparison leaves nothing: no folder that was not there, and what was there untouched.
source "$LIB"
mkdir old
echo old >old/report.json
for folder in old fresh; do
    env --default-signal=INT sparge-gen compare "${prompt[@]}" --size 512x512 --frames 1 --cfg-scale 1 --steps 1000 --dense-steps 0.9 -o $folder 2>log &
    wait_for grep -q '^1/2: dense' log
    [[ -d $folder ]] || fail "$folder is not there"
    kill -INT $!
    wait $!
    [[ $? == 130 ]] || fail "$(<log)"
    [[ $(tail -n 1 log) == "sparge-gen: interrupted" ]] || fail "$(<log)"
    expect_files log old old/report.json
    rm log # or the next round may find its words before it is written
done
[[ $(<old/report.json) == old ]] || fail "the older report is gone"
