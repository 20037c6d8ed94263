# An MP4 that plays everywhere: yuv420p, BT.709 said and meant, the index before the data, every frame there. Its encoder is
# told.
source "$LIB"
has_mp4 || skip "a build without FFmpeg"
sparge-gen "${prompt[@]}" "${small[@]}" --frames 5 --fps 12 -v -o clip.mp4 2>log || fail "$(<log)"
expect_files clip.mp4 log
boxes=$(LC_ALL=C grep -abo 'moov\|mdat' clip.mp4 | head -n 1)
[[ $boxes == *moov ]] || fail "first box: $boxes"
encoder=$(sed -n 's/^MP4: .* by \([a-z0-9_-]*\).*/\1/p' log)
[[ $encoder ]] || fail "$(<log)"
grep -aq "$encoder" clip.mp4 || fail "the file does not tell of $encoder"
command -v ffprobe >/dev/null || skip "no ffprobe"
ffprobe -v error -count_frames -of default=nw=1 -show_entries \
    stream=width,height,pix_fmt,color_range,color_space,color_transfer,color_primaries,avg_frame_rate,nb_read_frames \
    clip.mp4
