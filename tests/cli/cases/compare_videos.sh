# Videos are scored frame by frame: as written here, and as others write them.
source "$LIB"
clip=("${prompt[@]}" "${small[@]}" --frames 5 --seed 3 -q)
mkdir frames
sparge-gen "${clip[@]}" -o frames/f-%04d.png || fail
sparge-gen "${clip[@]}" -o clip.y4m || fail
sparge-gen "${clip[@]}" --frames 1 -o one.y4m || fail
numbers() { sed -E 's/[0-9]+\.[0-9]+|frame [0-9]/N/g; s/([^ ]) +/\1 /g'; } # they are the machine's
try compare clip.y4m frames | numbers
try compare clip.y4m clip.y4m | numbers
try compare one.y4m clip.y4m
try compare clip.y4m frames/f-0000.png
try compare frames clip.y4m --json - | numbers
head -c 5000 clip.y4m >cut.y4m
try compare cut.y4m clip.y4m

psnr() {
    local mean
    mean=$(sparge-gen compare "$1" "$2" | awk '/^PSNR/ { print $3 }')
    [[ $mean == inf || ${mean%.*} -ge $3 ]] || fail "$1 and $2 are $mean dB apart"
}
has_mp4 || exit 0
sparge-gen "${clip[@]}" -o clip.mp4 || fail
psnr clip.mp4 frames 30
[[ $(sparge-gen compare clip.mp4 frames) == "5 frames after compression"* ]] || fail "MP4 is no compression"
[[ $(sparge-gen compare clip.mp4 clip.mp4 --json -) == *'"measured": "after compression"'* ]] || fail "MP4 is no compression"
cp "$LIB" text.mp4
[[ $(sparge-gen compare text.mp4 clip.mp4 2>&1) == "sparge-gen: text.mp4: is neither "*MP4* ]] || fail "of a text"
head -c -300 clip.mp4 >cut.mp4
[[ $(sparge-gen compare cut.mp4 clip.mp4 2>&1) == "sparge-gen: cut.mp4: damaged video"* ]] || fail "of a cut video"
command -v ffmpeg >/dev/null || exit 0
make() { ffmpeg -v error -nostdin "$@" || fail "ffmpeg $*"; }
mkdir bars
make -f lavfi -i testsrc2=s=96x64:r=8:d=1 bars/f-%02d.png
bars=(-framerate 8 -i bars/f-%02d.png)
good=accurate_rnd+full_chroma_int+full_chroma_inp
# The matrix and the range that the stream tells, BT.601 where it tells none, and RGB as it is.
make "${bars[@]}" -vf scale=out_color_matrix=bt709:flags=$good,format=yuv444p -colorspace bt709 -c:v ffv1 bt709.mkv
make "${bars[@]}" -vf scale=flags=$good,format=yuv444p -c:v ffv1 untold.mkv
make "${bars[@]}" -vf scale=out_range=pc:flags=$good,format=yuv444p -color_range pc -c:v ffv1 full.mkv
make "${bars[@]}" -pix_fmt yuv444p10le -c:v ffv1 ten.mkv
make "${bars[@]}" -pix_fmt gbrp -c:v ffv1 rgb.mkv
for f in bt709 untold full ten; do psnr $f.mkv bars 48; done
[[ $(sparge-gen compare rgb.mkv bars) == "8 frames, identical: PSNR is infinite"* ]] || fail "RGB is not kept"
[[ $(sparge-gen compare full.mkv bars) == "8 frames after conversion to YUV"* ]] || fail "YUV is not said"
# Sound is ignored; quarter turns are made.
make "${bars[@]}" -f lavfi -i sine=d=1 -pix_fmt yuv420p sound.mp4
mkdir heard
make -i sound.mp4 -sws_flags bicubic+$good heard/f-%02d.png
psnr sound.mp4 heard 48
for turn in 90 180 270; do
    make -i sound.mp4 -c copy -metadata:s:v:0 rotate=$turn $turn.mp4
    mkdir $turn
    make -i $turn.mp4 -sws_flags bicubic+$good $turn/f-%02d.png
    psnr $turn.mp4 $turn 40
done
