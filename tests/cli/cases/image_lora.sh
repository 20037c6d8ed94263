# --image with the embedded model: the clip begins with the picture and goes on from it, by the model's own LoRA.
source "$LIB"
take=(--size 64x64 --seed 3 -q)
picture() { mkdir "$1" && cp "$2" "$1/0.png"; } # a clip of one frame
sparge-gen "${prompt[@]}" "${take[@]}" --frames 1 -o ball.png || fail "the picture"
picture ball ball.png
clip=(-p "a red ball standing still on green grass" "${take[@]}" --image ball.png --frames 5)
for steps in "--steps 6" --fast; do
    # shellcheck disable=SC2086
    sparge-gen "${clip[@]}" $steps -o clip-%d.png || fail "the clip"
    rm -rf first last
    picture first clip-1.png
    picture last clip-5.png
    psnr ball first 30
    psnr ball last 25 # 19 without the LoRA
done
again=$(sparge-gen info clip-1.png | sed -n 's/^again: //p')
[[ $again == "sparge-gen --fast "*" --image ball.png "* && $again != *--lora* ]] || fail "$again"

# a model without one
own_model model
sed -i '/"image_lora"/d' model/sparge-gen.json
sparge-gen -m model "${clip[@]}" --fast -o without-%d.png || fail "without a LoRA"
! cmp -s without-5.png clip-5.png || fail "the LoRA does nothing"
