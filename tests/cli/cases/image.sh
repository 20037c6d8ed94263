# --image and --last-image: what a model takes, what difference they make, what a clip's settings tell. ../messages has refusals.
source "$LIB"
minis wan21_hd12 wan21_i2v wan22_i2v wan22_ti2v
cp "$corpus"/image/{rgb.png,pixel.png,exif.jpg,base.jpg} .
takes() { sparge-gen info "$1" --size 32x32 --frames 5 --json - | json - image last_image; }
[[ "$(takes wan22_i2v), $(takes wan22_ti2v), $(takes wan21_hd12)" == "needed optional, optional none, none none" ]] || fail "info"
# without a picture its encoder is not waited for
sparge-gen -m wan22_ti2v -p "a cat" --size 32x32 --frames 5 --steps 1 -o x.y4m 2>log || fail "$(<log)"
grep -q '^reading the prompt 1/1' log || fail "$(<log)"

# a picture makes a difference, and so does how it is fitted
i2v=(-m wan22_i2v -p "a cat" --size 32x32 --frames 5 --steps 2 -g 1 --cfg-scale-2 1 --dtype f32 -q)
for fit in crop pad stretch; do
    sparge-gen "${i2v[@]}" --image rgb.png --last-image base.jpg --fit "$fit" --json "$fit.json" -o "$fit.y4m" || fail "$fit"
done
cmp -s crop.y4m pad.y4m && fail "pad is crop"
cmp -s crop.y4m stretch.y4m && fail "stretch is crop"

# the same picture in another format, under any name
formats=(ppm.ppm)
[[ $(sparge-gen --version) != *"stb_image for"* ]] || formats+=(bmp24.bmp tga_rle.tga)
! has_mp4 || formats+=(webp_lossless.webp)
for format in "${formats[@]}"; do
    cp "$corpus/image/$format" picture.png
    sparge-gen "${i2v[@]}" --image picture.png --last-image base.jpg -o "$format.y4m" && cmp crop.y4m "$format.y4m" || fail "$format"
done
sparge-gen "${i2v[@]}" --image pixel.png --last-image exif.jpg -o small.y4m || fail "of a pixel"
sparge-gen "${i2v[@]}" --image rgb.png --last-image base.jpg -o told-%04d.png || fail "told"
sparge-gen info told-0001.png --json - >told.json || fail "info"
for prefix in "crop.json settings." "told.json settings."; do
    has ${prefix% *} "${prefix#* }"{image.file=rgb.png,image.hash=275654a88a7ec809,last_image.file=base.jpg,fit=crop}
done
again=$(sparge-gen info told-0001.png | sed -n 's/^again: //p')
[[ $again == *" --image rgb.png --last-image base.jpg --fit crop "* ]] || fail "$again"
eval "$again -q -o again-%04d.png" && cmp told-0003.png again-0003.png || fail "$again"

# an image encoder by itself
clip=(-m wan21_i2v -p "a cat" --image rgb.png --size 32x32 --frames 5 --steps 1 -q)
sparge-gen "${clip[@]}" --clip-vision wan21_i2v/image_encoder -o clip-%d.png || fail
sparge-gen info clip-1.png --json - >told.json && has told.json settings.clip_vision=image_encoder || fail
[[ $(sparge-gen info clip-1.png) == *" --clip-vision image_encoder"* ]] || fail "$(sparge-gen info clip-1.png)"
