# An MKV loses nothing: FFV1 in RGB, the pixels of the PNG, the settings with it, the same bytes again. --crf makes an MP4 smaller.
source "$LIB"
has_mp4 || skip "a build without FFmpeg"
clip=("${prompt[@]}" "${small[@]}" --frames 5 --fps 12 -q)
mkdir frames
for name in clip.mkv again.mkv frames/f-%d.png clip.mp4; do sparge-gen "${clip[@]}" -o $name || fail $name; done
cmp clip.mkv again.mkv || fail "the same command gives another file"
for other in again.mkv frames; do sparge-gen compare clip.mkv $other --json j >/dev/null && has j identical=5 || fail; done
cmp <(settings_of clip.mkv) <(settings_of clip.mp4) || fail "other settings"
head -c -2000 clip.mkv >cut.mkv
refused 1 cut.mkv compare cut.mkv clip.mkv
if has_crf; then
    sparge-gen "${clip[@]}" --crf 17 -o usual.mp4 || fail
    sparge-gen "${clip[@]}" --crf 42.5 -o small.mp4 || fail
    (($(stat -c %s small.mp4) < $(stat -c %s usual.mp4))) || fail "--crf changes nothing"
    [[ $(sparge-gen info small.mp4) == *" --crf 42.5 "* ]] || fail "$(sparge-gen info small.mp4)"
fi
command -v ffprobe >/dev/null && command -v ffmpeg >/dev/null || skip "no ffmpeg"
[[ $(ffprobe -v error -count_frames -of csv=p=0 -show_entries \
    stream=codec_name,width,height,pix_fmt,color_range,color_space,avg_frame_rate,nb_read_frames clip.mkv) == \
    "ffv1,32,32,bgr0,pc,gbr,12/1,5" ]] || fail "$(ffprobe clip.mkv 2>&1)"
pixels() { ffmpeg -v error -nostdin -i "$1" -f rawvideo -pix_fmt rgb24 "$2" || fail "ffmpeg $1"; }
pixels clip.mkv clip.rgb
pixels frames/f-%d.png frames.rgb
cmp clip.rgb frames.rgb || fail "FFmpeg reads other pixels"
