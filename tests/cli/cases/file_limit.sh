# A limit on the size of files fails the write with a message; no signal, no half file.
source "$LIB"
has_mp4 && mp4="clip.mp4 clip.mkv clip.webp"
for name in clip.y4m ${mp4-} f-%d.png; do
    (ulimit -f 1 && sparge-gen "${prompt[@]}" "${small[@]}" --size 64x64 --frames 33 -q -o "$name") 2>log
    (($? == 1)) || fail "$name: $(<log)"
    grep -q "^sparge-gen: ${name%%-*}.*: cannot be written: File too large" log || fail "$name: $(<log)"
    rm log
    expect_files
done
(ulimit -f 1 && sparge-gen "${prompt[@]}" "${small[@]}" --size 64x64 --frames 1 -q -o a.y4m --latents l.safetensors) 2>log
grep -q "^sparge-gen: l.safetensors: cannot be written: File too large" log || fail "$(<log)"
expect_files log
