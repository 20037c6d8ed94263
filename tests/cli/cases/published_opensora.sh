# Open-Sora-Plan 1.3 in its published shapes: numbers, defaults and plans without a weight.
source "$LIB"
minis wan22_hd128
published opensora
sparge-gen info opensora --json j >/dev/null || fail
has j family=opensora defaults.{width=640,height=640,frames=93,fps=18,steps=100,cfg_scale=7.5} plan.tokens=38400
[[ $(json j 'components[*].parameters' | xargs) == "5655173120 2771981600 146662892" ]] || fail "$(json j 'components[*].parameters')"

# Attention is counted in groups: 38,400 tokens take 4 layers of 32 whole, 28 by quarters. A step is two passes.
sparge-gen info opensora --json one --steps 1 --size 640x352 >/dev/null || fail
has one plan.tokens=21120
awk -v more="$(json j plan.denoise.flops)" -v less="$(json one plan.denoise.flops)" 'BEGIN {
    n = 38400; m = 21120; width = 2304; layers = 4 + 28 / 4
    linear = 14 * 32 * 2 * width * width
    for (i = 0; i < 2; i++) {
        tokens = i ? m : n
        want = 2 * tokens * (linear + layers * 4 * tokens * width)
        off = (i ? less : more / 100) / want - 1
        if (off < -0.02 || off > 0.02) exit 1
    }
}' || fail "$(json j plan.denoise.flops) in 100 steps, $(json one plan.denoise.flops) in one"
