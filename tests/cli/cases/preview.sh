# --preview leaves a whole picture, also of a render that is interrupted, and the clip as it is without; what it cannot do is
# refused by name, and a preview that cannot be written costs the render nothing.
source "$LIB"
[[ $(sparge-gen --version) == *.webp* ]] || skip "a build without FFmpeg"
sparge-gen "${prompt[@]}" "${small[@]}" --frames 9 -q -o plain.y4m || fail
sparge-gen "${prompt[@]}" "${small[@]}" --frames 9 -q -o clip.y4m --preview p.png || fail
cmp plain.y4m clip.y4m || fail "the clip is another one"
size=$(od -An -tu1 -j16 -N8 p.png | tr -s ' ')
[[ $size == " 0 0 0 12 0 0 0 4" ]] || fail "a strip of$size"
sparge-gen "${prompt[@]}" "${small[@]}" --frames 9 -q --batch 2 -o b.y4m --preview b.png --preview-every 2 || fail
expect_files plain.y4m clip.y4m p.png b-0001.y4m b-0002.y4m b-0001.png b-0002.png
rm ./*

env --default-signal=INT sparge-gen "${prompt[@]}" "${small[@]}" --steps 1000 -q -o clip.y4m --preview p.png &
wait_for test -e p.png
kill -INT $!
wait $!
(($? == 130)) || fail "exit code"
expect_files p.png
rm p.png

if [[ -c /dev/full ]]; then
    ln -s /dev/full p.png
    sparge-gen "${prompt[@]}" "${small[@]}" --frames 9 -o clip.y4m --preview p.png 2>log || fail "$(<log)"
    [[ $(<log) == *"--preview: p.png: cannot be written: No space left on device; there are no more previews"* ]] || fail "$(<log)"
    expect_files p.png clip.y4m log
    rm ./*
fi

echo '{}' >broken.safetensors
try "${prompt[@]}" --preview missing/p.png
try "${prompt[@]}" --preview p.png -o p.png
try "${prompt[@]}" --preview ./p.png -o p.png
try "${prompt[@]}" --preview p.png --json p.png
if has_mp4; then
    sparge-gen "${prompt[@]}" "${small[@]}" -q --preview out.mp4 2>log
    [[ $(<log) == *"--preview and --output are one file, out.mp4"* ]] || fail "$(<log)"
    rm log
fi
try "${prompt[@]}" --preview-every 2
try "${prompt[@]}" --preview p.png --preview-every 0
try "${prompt[@]}" --preview-decoder t.safetensors
try "${prompt[@]}" --preview p.png --preview-decoder missing.safetensors
try "${prompt[@]}" --preview p.png --preview-decoder broken.safetensors
try compare "${prompt[@]}" --preview p.png
try eval --prompts a.txt --out d --preview p.png
expect_files broken.safetensors
