# --image with models of CogVideoX: which sizes, what makes a difference, what info says.
source "$LIB"
[[ -d $FIXTURES/cogvideox_i2v ]] || skip "no mini checkpoints beside the program"
export OMP_NUM_THREADS=1
cp "${LIB%/*}/../fuzz/corpus/image"/{rgb.png,base.jpg} .
ln -s "$FIXTURES"/cogvideox_{2b,i2v,15_i2v} .

try -m cogvideox_2b -p "a cat" --image rgb.png -o x.y4m
try -m cogvideox_i2v -p "a cat" -o x.y4m
try -m cogvideox_i2v -p "a cat" --image rgb.png --last-image rgb.png -o x.y4m
try -m cogvideox_i2v -p "a cat" --image rgb.png --size 48x24 -o x.y4m

# learned positions are for the frames of the training, sines for others; the picture tells, and so does the seed
render() {
    local -r out="$1" model="$2"
    shift 2
    sparge-gen -m "$model" -p "a cat" --steps 2 --dtype f32 --threads 1 -q -o "$out.y4m" "$@" || fail "$out"
}
learned=(cogvideox_i2v --size 40x24)
render a "${learned[@]}" --frames 9 --image rgb.png
render b "${learned[@]}" --frames 9 --image base.jpg
render c "${learned[@]}" --frames 9 --image rgb.png --seed 1
render d "${learned[@]}" --frames 17 --image rgb.png
render e cogvideox_15_i2v --size 96x64 --frames 9 --image rgb.png
cmp -s a.y4m b.y4m && fail "the picture makes no difference"
cmp -s a.y4m c.y4m && fail "the seed makes no difference"
sparge-gen info cogvideox_i2v --size 40x24 --frames 9 | grep -o '2 layers, 3 heads.*'
