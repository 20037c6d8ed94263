# Nobody reads the report: an error, but the clip is there.
source "$LIB"
{ sparge-gen "${prompt[@]}" "${small[@]}" --frames 5 -q -o a.y4m --json - 2>log; echo $? >code; } | exec true
cat log >&2
[[ $(<code) == 1 ]] || fail "exit $(<code)"
expect_files a.y4m code log
