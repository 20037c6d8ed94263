# An MKV loses nothing: FFV1 in RGB, the pixels of the PNG, the settings with it, the same bytes again; --crf is for MP4 alone.
source "$LIB"
has_mp4 || skip "a build without FFmpeg"
clip=("${prompt[@]}" "${small[@]}" --frames 5 --fps 12 -q)
mkdir frames
for name in clip.mkv again.mkv frames/f-%d.png clip.mp4; do sparge-gen "${clip[@]}" -o $name || fail $name; done
cmp clip.mkv again.mkv || fail "the same command gives another file"
for other in again.mkv frames; do
    [[ $(sparge-gen compare clip.mkv $other) == "5 frames, identical"* ]] || fail "clip.mkv and $other differ"
done
sparge-gen info clip.mp4 >mp4.txt || fail
sparge-gen info clip.mkv | cmp - mp4.txt || fail "other settings"
head -c -2000 clip.mkv >cut.mkv
sparge-gen compare cut.mkv clip.mkv 2>/dev/null
(($? == 1)) || fail "a cut video is compared"

made=()
if has_crf; then
    made=(usual.mp4 small.mp4)
    sparge-gen "${clip[@]}" --crf 17 -o usual.mp4 || fail
    sparge-gen "${clip[@]}" --crf 42.5 -o small.mp4 || fail
    (($(stat -c %s small.mp4) < $(stat -c %s usual.mp4))) || fail "--crf changes nothing"
    [[ $(sparge-gen info small.mp4) == *" --crf 42.5" ]] || fail "$(sparge-gen info small.mp4)"
fi
for name in a.mkv a.png -; do try "${prompt[@]}" --crf 20 -o $name; done
try "${prompt[@]}" --crf 52 -o a.mp4
expect_files clip.mkv again.mkv cut.mkv clip.mp4 "${made[@]}" mp4.txt frames frames/f-{0..4}.png
command -v ffprobe >/dev/null && command -v ffmpeg >/dev/null || skip "no ffmpeg"
ffprobe -v error -count_frames -of default=nw=1 -show_entries \
    stream=codec_name,width,height,pix_fmt,color_range,color_space,avg_frame_rate,nb_read_frames clip.mkv
pixels() { ffmpeg -v error -nostdin -i "$1" -f rawvideo -pix_fmt rgb24 "$2" || fail "ffmpeg $1"; }
pixels clip.mkv clip.rgb
pixels frames/f-%d.png frames.rgb
cmp clip.rgb frames.rgb || fail "FFmpeg reads other pixels"
