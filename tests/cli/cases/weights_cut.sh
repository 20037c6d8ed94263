# A file of weights that is cut short while a render runs: a message that names it, and no clip.
source "$LIB"
cp -r "$SPARGE_GEN_MODEL" model
rm -rf model/recipe
sparge-gen -m model "${prompt[@]}" "${small[@]}" --steps 100 -o clip.y4m 2>log &
wait_for grep -q '^reading the prompt 1/1' log
truncate -s 12288 model/vae/diffusion_pytorch_model.safetensors
wait $!
(($? == 1)) || fail "$(<log)"
grep -q '^sparge-gen: .*/model/vae/diffusion_pytorch_model.safetensors: became shorter' log || fail "$(<log)"
rm -rf model
expect_files log
