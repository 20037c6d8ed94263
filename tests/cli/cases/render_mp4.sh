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
shown=width,height,pix_fmt,color_range,color_space,color_transfer,color_primaries,avg_frame_rate,nb_read_frames
shown=$(ffprobe -v error -count_frames -of csv=p=0 -show_entries stream=$shown clip.mp4)
[[ $shown == "32,32,yuv420p,tv,bt709,bt709,bt709,12/1,5" ]] || fail "$shown"
