# A build without FFmpeg says what it writes instead, and takes it by default.
source "$LIB"
has_mp4 && skip "a build with FFmpeg"
try "${prompt[@]}" -o clip.mp4
sparge-gen "${prompt[@]}" "${small[@]}" --frames 1 -q || fail
expect_files out.y4m
