# --video and --strength: what models take them, what files are refused, what steps are done, what a clip's settings tell; and
# no output takes the place of what is read.
source "$LIB"
[[ -d $FIXTURES/wan21_hd12 ]] || skip "no mini checkpoints beside the program"
export OMP_NUM_THREADS=1
cp "${LIB%/*}"/../fuzz/corpus/image/{rgb.png,cut.png} .
ln -s "$FIXTURES"/{wan21_hd12,wan22_ti2v,mochi_hd16,cogvideox_15} .
mkdir pictures empty
for i in {8..12}; do cp rgb.png "pictures/$i.png"; done
clip=(-m wan21_hd12 -p "a cat" --size 32x32 --frames 5 --fps 8 --dtype f32)
v2v=("${clip[@]}" --video clip.y4m --steps 4)
sparge-gen "${clip[@]}" --steps 1 --seed 1 -q -o clip.y4m || fail "the video"
head -c 60 clip.y4m >header.y4m
sed 1q clip.y4m >frameless.y4m

# which models, which files
try -m mochi_hd16 -p "a cat" --video clip.y4m -o x.y4m
try -m cogvideox_15 -p "a cat" --size 32x32 --frames 9 -q --video clip.y4m -o x.y4m
for file in none.y4m empty cut.png header.y4m frameless.y4m; do try "${clip[@]}" -q --video "$file" -o x.y4m; done
try "${clip[@]}" -q --video clip.y4m --frames 9 -o x.y4m
try "${clip[@]}" -q --video rgb.png -o x.y4m

# folders that diffusers' pipelines of video to video have saved
for kind in Wan:wan21_hd12 CogVideoX:cogvideox_15; do
    mkdir "${kind%:*}"
    ln -s "$FIXTURES/${kind#*:}"/* "${kind%:*}"
    sed --follow-symlinks "s/${kind%:*}Pipeline/${kind%:*}VideoToVideoPipeline/" "${kind%:*}/model_index.json" >index
    mv index "${kind%:*}/model_index.json"
    sparge-gen info "${kind%:*}" --size 32x32 2>&1 | head -1 | cut -d, -f1
done

# how much of it
for x in 0 1.1 nan 0.2; do try "${v2v[@]}" -q --strength "$x" -o x.y4m; done
try "${clip[@]}" -q --strength 0.5 -o x.y4m
try "${v2v[@]}" -q --strength 0.5 --capture-qkv 0:2:q.safetensors -o x.y4m
for x in 0.25 0.8 1; do sparge-gen "${v2v[@]}" --seed 1 --strength "$x" -o "$x.y4m" 2>&1 | grep -E ' steps?, |^(encoding|denoising)' | sed 's/, [0-9.]* s.*//'; done
sparge-gen "${clip[@]}" --steps 4 --seed 1 -q -o noise.y4m || fail "noise alone"
cmp -s 0.25.y4m 0.8.y4m && fail "strength does nothing"

sparge-gen "${clip[@]}" --video pictures --steps 4 --seed 1 -q -o pictures.y4m || fail "pictures"

# 4:2:0, as others write it
{
    echo "YUV4MPEG2 W32 H32 F8:1 Ip A1:1 C420jpeg"
    for _ in {1..5}; do echo FRAME && head -c 1536 /dev/zero | tr '\0' '\200'; done
} >half.y4m
sparge-gen "${clip[@]}" --video half.y4m --steps 4 --seed 1 -q -o of-half.y4m || fail "4:2:0"

# Euler and LCM by a list, an image and a video, one encoding for a batch
sparge-gen "${clip[@]}" --video clip.y4m --sigmas 0.9,0.6,0.3 --strength 0.7 -q -o euler.y4m || fail "euler"
sparge-gen "${clip[@]}" --video clip.y4m --sigmas 0.9,0.6,0.3 --sampler lcm --strength 0.7 -q -o lcm.y4m || fail "lcm"
sparge-gen -m wan22_ti2v -p "a cat" --size 32x32 --frames 5 --fps 8 --steps 2 --image rgb.png --video clip.y4m -q -o both.y4m || fail "both"
sparge-gen "${v2v[@]}" --batch 2 -o many.y4m 2>&1 | grep -c '^encoding'

# what the clip tells, and its command again
sparge-gen "${v2v[@]}" --seed 1 --strength 0.8 --fit stretch -q -o told-%04d.png || fail "told"
sparge-gen info told-0001.png 2>&1 | grep -E '^(video|strength|fit) |--video' | sed 's/"hash":"[0-9a-f]*"/"hash":"..."/'

# what is read is not written
try "${clip[@]}" -q --video clip.y4m -o clip.y4m
try "${clip[@]}" -q --video clip.y4m --json clip.y4m -o x.y4m
ln clip.y4m other.y4m
try "${clip[@]}" -q --video clip.y4m -o other.y4m
try "${clip[@]}" -q --video pictures -o pictures/1%d.png
cp rgb.png image.png
try compare -m wan22_ti2v -p "a cat" --size 32x32 --frames 5 --arms dense,dense:steps=3 -q --image image.png -o .
cp rgb.png many-0002.png
try "${clip[@]}" -q --frames 1 --batch 2 --image many-0002.png -o many.png
cp rgb.png frame-0003.png
try -m wan22_ti2v -p "a cat" --size 32x32 --frames 5 --steps 1 -q --image frame-0003.png -o frame-%04d.png
cmp -s rgb.png frame-0003.png || fail "the picture is gone"
