# One picture, or a numbered file a frame; '%' in a name is never more than a frame's number.
source "$LIB"
mkdir png && cd png || fail
run() { sparge-gen "${prompt[@]}" "${small[@]}" -q "$@" || fail "$*"; }
run --frames 1 -o one.png
run --frames 5 -o f-%03d.png
run --frames 1 -o 100%.png
run --frames 1 -o %s%n.png
run --frames 1 -o 'a b%2d.png'
expect_files one.png f-001.png f-002.png f-003.png f-004.png f-005.png 100%.png %s%n.png 'a b 1.png'
for picture in *.png; do [[ $(head -c 4 "$picture") == $'\x89PNG' ]] || fail "$picture"; done
