# Whoever reads goes away: an error with a reason, not a silent death.
source "$LIB"
sparge-gen "${prompt[@]}" "${small[@]}" --frames 33 -q -o - 2>log | head -c 10 >/dev/null
codes=("${PIPESTATUS[@]}")
cat log >&2
exit "${codes[0]}"
