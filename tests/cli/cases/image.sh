# --image and --last-image: what models take them, what files are refused, what a clip's settings tell.
source "$LIB"
[[ -d $FIXTURES/wan22_i2v ]] || skip "no mini checkpoints beside the program"
export OMP_NUM_THREADS=1
images="${LIB%/*}/../fuzz/corpus/image"
cp "$images"/{rgb.png,pixel.png,exif.jpg,base.jpg,cut.png,cmyk.jpg,announced.png,bitmap.bmp} .
mkdir folder
ln -s "$FIXTURES"/{wan21_hd12,wan21_i2v,wan22_i2v,wan22_ti2v} .
i2v=(-m wan22_i2v -p "a cat" --size 32x32 --frames 5 --steps 2 -g 1 --cfg-scale-2 1 --dtype f32 -q)

# which models
try -m wan21_hd12 -p "a cat" --image rgb.png -o x.y4m
try "${i2v[@]}" -o x.y4m
try "${i2v[@]}" --last-image rgb.png -o x.y4m
try "${i2v[@]}" --image rgb.png --last-image rgb.png --frames 1 -o x.y4m
try -m wan22_ti2v -p "a cat" --image rgb.png --last-image rgb.png -o x.y4m
try -m wan21_i2v -p "a cat" -o x.y4m
try -m wan21_i2v -p "a cat" --image rgb.png --last-image rgb.png -o x.y4m
cp -rL wan21_i2v other
sed -i 's/"added_kv_proj_dim": 24/"added_kv_proj_dim": 12/' other/transformer/config.json
try -m other -p "a cat" --image rgb.png -o x.y4m
cp wan21_i2v/transformer/config.json other/transformer
sed -i 's/CLIPVisionModel/SiglipVisionModel/' other/model_index.json
try -m other -p "a cat" --image rgb.png -o x.y4m
try -p "a cat" --fit pad -o x.y4m

# without a picture its encoder is not waited for
sparge-gen -m wan22_ti2v -p "a cat" --size 32x32 --frames 5 --steps 1 -o x.y4m 2>&1 | grep -o '^reading the prompt .*/[0-9]'

# commands that render, without one
small=(-m wan22_i2v --size 32x32 --frames 5)
echo "a cat" >set.txt
try check "${small[@]}"
try tune "${small[@]}" -p "a cat" -o x.safetensors
try compare "${small[@]}" -p "a cat" --arms dense,sparge
try eval "${small[@]}" --prompts set.txt --out evaluated
try bench step "${small[@]}"
[[ ! -e evaluated ]] || fail "eval began"

# what a model takes
for model in wan22_i2v wan22_ti2v wan21_hd12; do
    echo "$model: $(sparge-gen info $model --size 32x32 --frames 5 | grep ^picture)"
    sparge-gen info $model --size 32x32 --frames 5 --json | grep '^  "\(last_\)\?image"'
done

# which files
for file in none.png folder cut.png cmyk.jpg announced.png bitmap.bmp; do try "${i2v[@]}" --image "$file" -o x.y4m; done
try "${i2v[@]}" --image rgb.png --last-image cut.png -o x.y4m

# a picture makes a difference, and so does how it is fitted
for fit in crop pad stretch; do
    sparge-gen "${i2v[@]}" --image rgb.png --last-image base.jpg --fit "$fit" --json "$fit.json" -o "$fit.y4m" || fail "$fit"
done
cmp -s crop.y4m pad.y4m && fail "pad is crop"
cmp -s crop.y4m stretch.y4m && fail "stretch is crop"
sparge-gen "${i2v[@]}" --image pixel.png --last-image exif.jpg -o small.y4m || fail "of a pixel"
grep -m1 -A3 '"image": {' crop.json
sparge-gen "${i2v[@]}" --image rgb.png --last-image base.jpg -o again-%04d.png || fail "again"
sparge-gen info again-0001.png 2>&1 | grep -E '^(image|last_image|fit) |--image'

# an image encoder by itself
clip=(-m wan21_i2v -p "a cat" --image rgb.png --size 32x32 --frames 5 --steps 1 -q)
sparge-gen "${clip[@]}" --clip-vision wan21_i2v/image_encoder -o clip-%d.png || fail
sparge-gen info clip-0.png | grep '^clip_vision'
sparge-gen info clip-0.png | grep -o ' --clip-vision [^ ]*'
try "${clip[@]}" --clip-vision rgb.png -o x.y4m
try "${clip[@]}" --clip-vision wan21_i2v/vae/diffusion_pytorch_model.safetensors -o x.y4m
try info wan21_i2v/transformer/diffusion_pytorch_model.safetensors
