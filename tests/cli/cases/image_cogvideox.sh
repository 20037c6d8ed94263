# --image with models of CogVideoX: what makes a difference.
source "$LIB"
minis cogvideox_i2v cogvideox_15_i2v
cp "$corpus"/image/{rgb.png,base.jpg} .
# learned positions are for the frames of the training, sines for others; the picture tells, and so does the seed
render() {
    sparge-gen -m "$2" -p "a cat" --steps 2 --dtype f32 --threads 1 -q -o "$1.y4m" "${@:3}" || fail "$1"
}
learned=(cogvideox_i2v --size 40x24)
render a "${learned[@]}" --frames 9 --image rgb.png
render b "${learned[@]}" --frames 9 --image base.jpg
render c "${learned[@]}" --frames 9 --image rgb.png --seed 1
render d "${learned[@]}" --frames 17 --image rgb.png
render e cogvideox_15_i2v --size 96x64 --frames 9 --image rgb.png
cmp -s a.y4m b.y4m && fail "the picture makes no difference"
cmp -s a.y4m c.y4m && fail "the seed makes no difference"
[[ $(sparge-gen info cogvideox_i2v --size 40x24 --frames 9) == *"2 layers, 3 heads x 48, "*learned*" 4 latent channels"* ]] || fail "info"
