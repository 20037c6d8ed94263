# --video and --strength: what steps are done, what makes a difference, what a clip's settings tell. ../messages has refusals.
source "$LIB"
minis wan21_hd12 wan22_ti2v cogvideox_15
cp "$corpus"/image/rgb.png .
mkdir pictures
for i in {8..12}; do cp rgb.png "pictures/$i.png"; done
clip=(-m wan21_hd12 -p "a cat" --size 32x32 --frames 5 --fps 8 --dtype f32)
v2v=("${clip[@]}" --video clip.y4m --steps 4)
sparge-gen "${clip[@]}" --steps 1 --seed 1 -q -o clip.y4m || fail "the video"

# folders that diffusers' pipelines of video to video have saved
for kind in Wan:wan21_hd12 CogVideoX:cogvideox_15; do
    mkdir "${kind%:*}"
    ln -s "$FIXTURES/${kind#*:}"/* "${kind%:*}"
    sed -i "s/${kind%:*}Pipeline/${kind%:*}VideoToVideoPipeline/" "${kind%:*}/model_index.json"
    sparge-gen info "${kind%:*}" --size 32x32 --json - | json - family >family
    [[ ${kind,,} == "$(<family)"* ]] || fail "$kind: $(<family)"
done

# how much of it: the share of 4 steps
for x in 0.25 0.8 1; do
    sparge-gen "${v2v[@]}" --seed 1 --strength "$x" --json j -o "$x.y4m" 2>log || fail "$(<log)"
    json j settings.steps steps
    grep -oE '^(encoding 2/2|denoising ./.)' log
done >done
[[ $(tr '\n' ' ' <done) == "4 1 encoding 2/2 denoising 1/1 4 3 encoding 2/2 denoising 3/3 4 4 encoding 2/2 denoising 4/4 " ]] || fail "$(<done)"
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
[[ $(sparge-gen "${v2v[@]}" --batch 2 -o many.y4m 2>&1 | grep -c '^encoding') == 1 ]] || fail "encoded twice"

# what the clip tells, and its command again
sparge-gen "${v2v[@]}" --seed 1 --strength 0.8 --fit stretch -q -o told-%04d.png || fail "told"
sparge-gen info told-0001.png --json - >j
has j settings.{video.file=clip.y4m,strength=0.8,fit=stretch} 'settings.video.hash=????????????????'
again=$(sparge-gen info told-0001.png | sed -n 's/^again: //p')
[[ $again == *" --video clip.y4m --strength 0.8 --fit stretch "*" --steps 4 "* ]] || fail "$again"
eval "$again -q -o again-%04d.png" && cmp told-0003.png again-0003.png || fail "$again"
