# Two pictures, and two folders of frames, scored: a table on stdout, all figures in the report.
source "$LIB"
mkdir a b
cp "$pictures/scene.png" a/frame-9.png
cp "$pictures/scene.png" a/frame-10.png
cp "$pictures/coded.jpg" a/frame-11.jpg
cp "$pictures/noisy.png" b/frame-9.png
cp "$pictures/scene.png" b/frame-10.png
cp "$pictures/scene.png" b/frame-11.png
echo "no frame" >b/README
cp "$pictures/grey.jpg" b/.hidden.jpg
# What follows a name in a line of the table.
row() { sed -n "s/^$1  *//p" table | tr -s ' '; }
sparge-gen compare a/frame-9.png b/frame-9.png >table || fail
[[ $(row 'PSNR, dB') == "29.104 29.104 29.104" && $(row SSIM) == "0.786145 0.786145 0.786145" ]] || fail "$(<table)"
[[ $(row MS-SSIM) == "0.946093 0.946093 0.946093 "* && $(row sharpness) == "53.780 738.243" ]] || fail "$(<table)"
for same in "a/frame-9.png a/frame-10.png" "a a"; do
    # shellcheck disable=SC2086
    sparge-gen compare $same >table || fail "$same"
    [[ $(row 'PSNR, dB') == "inf inf inf" && $(row SSIM) == "1.000000 1.000000 1.000000" ]] || fail "$(<table)"
done
sparge-gen compare a b --json report.json >table || fail
[[ $(row 'PSNR, dB') == "27.214 25.323 25.701" && $(row SSIM) == "0.850366 0.764954 0.767073" ]] || fail "$(<table)"
[[ $(row 'lowest PSNR') == "" && $(row lowest) == *frame-11.jpg*frame-11.jpg && $(row 'frozen pairs') == "1 1" ]] || fail "$(<table)"
[[ $(row 'temporal flickering') == "0.983009 0.986142" ]] || fail "$(<table)"

# The last digits are libm's.
has report.json format=sparge-gen command=compare measured="after compression" frames=3 identical=1 ms_ssim_scales=2 \
    psnr.mean=27.213729615* psnr.minimum=25.323327127* psnr.p5=25.701407625* \
    ssim.mean=0.850366321* ssim.minimum=0.764953642* ssim.p5=0.767072810* \
    ms_ssim.mean=0.941653872* ms_ssim.minimum=0.878868270* ms_ssim.p5=0.885590778* \
    a.path=a a.sharpness=46.320149077* a.flicker=0.983009202* a.black=0 a.frozen=1 \
    b.path=b b.sharpness=281.934427090* b.flicker=0.986141524* b.frozen=1 \
    'each[0].a=a/frame-9.png' 'each[0].psnr=29.104132102*' 'each[0].ms_ssim=0.946093348*' \
    'each[1].b=b/frame-10.png' 'each[1].psnr=null' 'each[1].ssim=1.0' \
    'each[2].frame=2' 'each[2].a=a/frame-11.jpg' 'each[2].b=b/frame-11.png' 'each[2].ssim=0.764953642*'
sparge-gen compare --json - -- a/frame-9.png a/frame-10.png >one.json 2>log || fail "$(<log)"
[[ ! -s log && $(head -c 1 one.json) == "{" ]] || fail "stdout does not hold the report alone"
has one.json measured="as stored" frames=1 identical=1 psnr.mean=null ssim.mean=1.0 a.flicker=null 'each[0].psnr=null'
