# A build without FFmpeg says what it writes instead, and takes it by default.
source "$LIB"
has_mp4 && skip "a build with FFmpeg"
for name in clip.mp4 clip.mkv clip.webp; do refused 2 "$name" "${prompt[@]}" -o $name; done
sparge-gen "${prompt[@]}" "${small[@]}" --frames 5 -q || fail
sparge-gen "${prompt[@]}" "${small[@]}" --frames 1 -q || fail
expect_files out.png out.y4m
