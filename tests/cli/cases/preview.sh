# --preview leaves a whole picture, also of a render that is interrupted, and the clip as it is without; a preview that cannot be
# written costs the render nothing.
source "$LIB"
sparge-gen "${prompt[@]}" "${small[@]}" --frames 9 -q -o plain.y4m || fail
sparge-gen "${prompt[@]}" "${small[@]}" --frames 9 -q -o clip.y4m --preview p.png || fail
cmp plain.y4m clip.y4m || fail "the clip is another one"
size=$(od -An -tu1 -j16 -N8 p.png | tr -s ' ')
[[ $size == " 0 0 0 12 0 0 0 4" ]] || fail "a strip of$size"
sparge-gen "${prompt[@]}" "${small[@]}" --frames 9 -q --batch 2 -o b.y4m --preview b.png --preview-every 2 || fail
expect_files plain.y4m clip.y4m p.png b-0001.y4m b-0002.y4m b-0001.png b-0002.png
rm ./*

in_background "${prompt[@]}" "${small[@]}" --steps 1000 -q -o clip.y4m --preview p.png
wait_for test -e p.png
ends_by INT 130 p.png
rm ./*

if [[ -c /dev/full ]]; then
    ln -s /dev/full p.png
    sparge-gen "${prompt[@]}" "${small[@]}" --frames 9 -o clip.y4m --preview p.png 2>log || fail "$(<log)"
    [[ $(<log) == *"--preview: p.png: "*"No space left on device; "* ]] || fail "$(<log)"
    expect_files p.png clip.y4m log
fi
