# Samplers of a noise schedule of betas.
source "$LIB"
minis cogvideox_2b
model=(-m cogvideox_2b --prompt x --size 32x32 --frames 1 --dtype f32 --seed 5 -q)
for sampler in ddim dpm; do
    sparge-gen "${model[@]}" --steps 3 --sampler $sampler -o $sampler.png || fail $sampler
    makes_again $sampler.png
    [[ $again == *" --sampler $sampler "* && $again != *flow-shift* ]] || fail "$again"
done
! cmp -s ddim.png dpm.png || fail "both samplers make the same picture"
sparge-gen "${model[@]}" --steps 3 -o usual.png || fail
cmp ddim.png usual.png || fail "ddim is what the scheduler says"
