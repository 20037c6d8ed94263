# info tells which attention a render would use, and why.
source "$LIB"
info() { sparge-gen info --size 512x512 --steps 12 "$@" | sed -n 's/^attention *//p'; }
info --frames 1
info --frames 1 --attention sparge
info --frames 33 --sparse-config none
info --frames 33 --preset paper --sim 0.3 --pv 5 --sink 1
info --frames 33 --tau 0.9 --order row --steps 4 --dense-steps 0.5 --score sub16 --tail-bias 0
info --frames 33 --attention sage --dense-layers 0,2-3
info --frames 33 --attention sage --pv-dtype bf16
info --frames 33 --budget heads --dense-steps 1 --sparse-config none
info --frames 33 --dense-steps-kind sage --sparse-config none
info --frames 33 --dense-steps-kind sage --dense-steps 1 --sparse-config none
info --frames 33 --attention dense
sparge-gen info --json --size 512x512 --frames 33 --sparse-config none >j || fail
grep -q '"score": "error"' j || fail "no policy in JSON"
