# Ctrl-C in a comparison leaves nothing: no folder that was not there, and what was there untouched.
source "$LIB"
mkdir old
echo old >old/report.json
for folder in old fresh; do
    in_background compare "${prompt[@]}" --size 512x512 --frames 1 --cfg-scale 1 --steps 1000 --dense-steps 0.9 -o $folder
    wait_for grep -q '^1/2: dense' log
    [[ -d $folder ]] || fail "$folder is not there"
    ends_by INT 130 old old/report.json
    rm log # or the next round may find its words before it is written
done
[[ $(<old/report.json) == old ]] || fail "the older report is gone"
