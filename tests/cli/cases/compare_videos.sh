# Videos are scored frame by frame: as written here, and as others write them.
source "$LIB"
clip=("${prompt[@]}" "${small[@]}" --frames 5 --seed 3 -q)
mkdir frames
sparge-gen "${clip[@]}" -o frames/f-%04d.png || fail
sparge-gen "${clip[@]}" -o clip.y4m || fail
sparge-gen compare clip.y4m frames --json j >table || fail
has j format=sparge-gen command=compare measured="after conversion to YUV" frames=5 identical=0 ms_ssim_scales=2 \
    {psnr,ssim,ms_ssim}.{mean,minimum,p5}=[0-9]* {a,b}.{sharpness,flicker}=[0-9]* b.path=frames \
    'each[4].frame=4' 'each[4].a=clip.y4m' 'each[4].b=frames/f-0005.png' 'each[4].psnr=[1-9]*'
[[ $(grep -c '^PSNR, dB  *[0-9]\|^SSIM  *0\.\|^MS-SSIM  *0\.\|^sharpness  *[0-9]\|^temporal flickering  *0' table) == 5 ]] || fail "$(<table)"
psnr clip.y4m frames 30
[[ $(sparge-gen compare clip.y4m clip.y4m --json - 2>/dev/null | json - identical) == 5 ]] || fail "not identical to itself"

has_mp4 || exit 0
sparge-gen "${clip[@]}" -o clip.mp4 || fail
psnr clip.mp4 frames 30
for other in frames clip.mp4; do
    sparge-gen compare clip.mp4 $other --json j >table || fail "$other"
    has j measured="after compression"
done
cp "$LIB" text.mp4
refused 1 "text.mp4: " compare text.mp4 clip.mp4
head -c -300 clip.mp4 >cut.mp4
refused 1 "cut.mp4: " compare cut.mp4 clip.mp4
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
sparge-gen compare rgb.mkv bars --json j >table && has j identical=8 || fail
sparge-gen compare full.mkv bars --json j >table && has j measured="after conversion to YUV" || fail
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
