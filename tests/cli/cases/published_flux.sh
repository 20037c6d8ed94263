# Flux.1 dev in its published shapes: a quarter of its 22.2 GiB in BF16 modulates, and is not there while the rest works.
source "$LIB"
minis wan22_hd128 flux_dev
published flux
sparge-gen info flux --backend cuda --memory-limit 18G --json j >/dev/null || fail
has j family=flux defaults.{width=1024,height=1024,steps=28,guidance=3.5} plan.{host_bytes=0,tokens=4608}
[[ $(json j 'components[*].parameters' | xargs) == "123060480 4762310656 11901408320 83819683" ]] ||
    fail "$(json j 'components[*].parameters')"
awk -v all=$((2 * 11901408320)) -v before="$(json j plan.modulation.weight_bytes)" \
    -v rest="$(json j plan.denoise.weight_bytes)" 'BEGIN {
    off = (before + rest) / all - 1
    exit off < 0 || off > 0.001 || before < 0.27 * all
}' || fail "$(json j plan)"
