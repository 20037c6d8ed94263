# Y4M to a pipe: a header, then frames of known length and nothing else; the file is the same.
source "$LIB"
sparge-gen "${prompt[@]}" "${small[@]}" --frames 5 --fps 7 -o - 2>log | cat >piped || fail "$(<log)"
sparge-gen "${prompt[@]}" "${small[@]}" --frames 5 --fps 7 -q -o file.y4m || fail
cmp piped file.y4m || fail
header=$(head -n 1 piped)
(($(stat -c %s piped) == ${#header} + 1 + 5 * (6 + 3 * 32 * 32))) || fail "$(stat -c %s piped) bytes"
[[ $header == "YUV4MPEG2 W32 H32 F7:1 Ip A1:1 C444 XCOLORRANGE=LIMITED XSPARGE=601" ]] || fail "$header"
