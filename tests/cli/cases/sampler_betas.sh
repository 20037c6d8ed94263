# Samplers of a noise schedule of betas, and what means nothing to them.
source "$LIB"
[[ -n ${MINIS-} ]] || skip "MINIS names no folder of mini checkpoints"
model=(-m "$MINIS/cogvideox_2b" --prompt x --size 32x32 --frames 1 --dtype f32 --seed 5 -q)
refused() { try "${model[@]}" "$@" | sed "s|${model[*]} ||"; }
refused --sampler unipc
refused --sampler lcm
refused --flow-shift 3
refused --sigmas 1,0.5
refused --preset-steps rcm
refused --sched-compat old
refused --sampler dpm --flow-shift 3
expect_files
for sampler in ddim dpm; do # what info says makes the same picture
    sparge-gen "${model[@]}" --steps 3 --sampler $sampler -o $sampler.png || fail $sampler
    again=$(sparge-gen info $sampler.png | sed -n 's/^again: //p')
    [[ $again == *" --sampler $sampler "* && $again != *flow-shift* ]] || fail "$again"
    eval "$again -m $MINIS/cogvideox_2b -q -o again.png" || fail "$again"
    cmp $sampler.png again.png || fail "$again"
done
! cmp -s ddim.png dpm.png || fail "both samplers make the same picture"
sparge-gen "${model[@]}" --steps 3 -o usual.png || fail
cmp ddim.png usual.png || fail "ddim is what the scheduler says"
