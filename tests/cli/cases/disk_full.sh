# A full disk is told, and nothing is left.
source "$LIB"
[[ -c /dev/full ]] || skip "no /dev/full"
sparge-gen "${prompt[@]}" "${small[@]}" --frames 5 -q -o - >/dev/full
